// SPDX-License-Identifier: GPL-2.0

//! Hardware counters (`hw_counters` in sysfs, `rdma statistic`).
//!
//! A driver has the core allocate counters with names and values ([`HwStats`]) and fills in the
//! values when it is asked. The core asks again when they are older than their *lifespan*.
//!
//! Lock: `HwStats::values`, the mutex in the C structure, around each reading.

pub(crate) mod abi;
mod files;

use crate::device::Device;
use crate::sysfs;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::lock::Lock;
use kernel::time;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::provider::unsupported;

pub(crate) use self::files::DeviceCounters;
pub(crate) use self::files::PortCounters;

/// Counters of a driver, with their values.
///
/// # Invariants
///
/// It was made by [`abi::rdma_alloc_hw_stats_struct`]: there are `num_counters` values, a bit of
/// `is_disabled` for each, and if `descs` is not null, so many descriptions.
#[repr(transparent)]
pub(crate) struct HwStats(Opaque<bindings::rdma_hw_stats>);

// SAFETY: What changes is under the mutex in it, or a bit changed atomically.
unsafe impl Send for HwStats {}
// SAFETY: As above.
unsafe impl Sync for HwStats {}

// SAFETY: Transparent over the structure.
unsafe impl View for HwStats {
    type C = bindings::rdma_hw_stats;
}

impl HwStats {
    /// # Safety
    ///
    /// `raw` fulfils the type invariant, and lives for `'a`.
    pub(crate) unsafe fn from_raw<'a>(raw: NonNull<bindings::rdma_hw_stats>) -> &'a Self {
        // SAFETY: By this function's duty; the type is transparent.
        unsafe { raw.cast().as_ref() }
    }

    /// The C structure.
    pub(crate) fn as_raw(&self) -> *mut bindings::rdma_hw_stats {
        self.0.get()
    }

    /// How many counters there are.
    pub(crate) fn count(&self) -> usize {
        // SAFETY: Not changed after it is made.
        usize::try_from(unsafe { (*self.as_raw()).num_counters }).unwrap_or(0)
    }

    /// The description of a counter.
    pub(crate) fn desc(&self, index: usize) -> Option<&bindings::rdma_stat_desc> {
        if index >= self.count() {
            return None;
        }
        // SAFETY: By the type invariant, and not changed after it is made.
        unsafe {
            let descs = (*self.as_raw()).descs;
            (!descs.is_null()).then(|| &*descs.add(index))
        }
    }

    /// The name of a counter.
    pub(crate) fn name(&self, index: usize) -> Option<&CStr> {
        let name = self.desc(index)?.name;
        // SAFETY: Names are constant strings of the driver's.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// Whether a counter counts only if somebody switches it on.
    pub(crate) fn is_optional(&self, index: usize) -> bool {
        self.desc(index)
            .is_some_and(|desc| desc.flags & bindings::ib_stat_flag_IB_STAT_FLAG_OPTIONAL != 0)
    }

    /// Whether an optional counter is switched off. Any context; [`lock`](Self::lock) to rely on
    /// it.
    pub(crate) fn is_disabled(&self, index: usize) -> bool {
        let (word, bit) = bit(index);
        // SAFETY: By the type invariant there is a bit for each counter; it changes in one store.
        index < self.count()
            && unsafe { (*self.as_raw()).is_disabled.add(word).read_volatile() } & bit != 0
    }

    /// A value that is read and added to without the lock. Any context.
    pub(crate) fn shared(&self, index: usize) -> Option<&Atomic<u64>> {
        if index >= self.count() {
            return None;
        }
        // SAFETY: Below the count there is a value, aligned as a `u64`; on the machines that Rust
        // is built for it is written whole.
        Some(unsafe { Atomic::from_ptr((*self.as_raw()).value.as_mut_ptr().add(index)) })
    }

    /// Takes the lock of the values. May sleep.
    pub(crate) fn lock(&self) -> Values<'_> {
        // SAFETY: The mutex is initialised and lives as long as this.
        let mutex = unsafe { Lock::<(), MutexBackend>::from_raw(&raw mut (*self.as_raw()).lock) };
        Values {
            stats: self,
            _guard: mutex.lock(),
        }
    }
}

/// The word and the bit in it for a counter.
fn bit(index: usize) -> (usize, kernel::ffi::c_ulong) {
    let bits = kernel::ffi::c_ulong::BITS as usize;
    (index / bits, 1 << (index % bits))
}

/// The values of counters, which stay as they are meanwhile.
pub(crate) struct Values<'a> {
    stats: &'a HwStats,
    _guard: Guard<'a, (), MutexBackend>,
}

impl Values<'_> {
    /// The value of a counter, when it was last asked for.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        // SAFETY: Below the count there is a value; we hold the lock.
        (index < self.stats.count())
            .then(|| unsafe { *(*self.stats.as_raw()).value.as_ptr().add(index) })
    }

    /// Asks the driver for the counter, or all of them if `index` is the count, unless the values
    /// are new enough.
    ///
    /// # Errors
    ///
    /// That of the driver.
    pub(crate) fn refresh(&mut self, device: &Device, port: u32, index: usize) -> Result {
        let stats = self.stats.as_raw();
        // SAFETY: We hold the lock. `jiffies` is a number that changes.
        let (until, now) = unsafe {
            (
                (*stats).timestamp.wrapping_add((*stats).lifespan),
                (&raw const bindings::jiffies).read_volatile(),
            )
        };
        // Numbers of a circle: what is behind has the top bit.
        // CAST: for the sign.
        if until.wrapping_sub(now) as isize >= 0 {
            return Ok(());
        }
        if self.ask(device, port, index)? {
            self.stamp();
        }
        Ok(())
    }

    /// Asks the driver for all counters, for the first time.
    ///
    /// # Errors
    ///
    /// That of the driver; `EINVAL` if it does not tell all of them.
    fn fill(&mut self, device: &Device, port: u32) -> Result {
        if !self.ask(device, port, self.stats.count())? {
            pr_warn!("a driver does not know all of its counters\n");
            return Err(EINVAL);
        }
        self.stamp();
        Ok(())
    }

    fn stamp(&mut self) {
        // SAFETY: We hold the lock. `jiffies` is a number that changes.
        unsafe {
            (*self.stats.as_raw()).timestamp = (&raw const bindings::jiffies).read_volatile()
        };
    }

    /// Asks the driver. Returns whether it told all counters.
    fn ask(&mut self, device: &Device, port: u32, index: usize) -> Result<bool> {
        let get = device.ops().get_hw_stats.ok_or_else(unsupported)?;
        // SAFETY: The method is the device's, of counters that are its own; we hold their lock.
        let told = unsafe {
            get(
                device.as_raw(),
                self.stats.as_raw(),
                port,
                i32::try_from(index)?,
            )
        };
        match usize::try_from(told) {
            Ok(told) => Ok(told == self.stats.count()),
            Err(_) => Err(Error::from_errno(told)),
        }
    }

    /// How long values stay new enough, in milliseconds.
    pub(crate) fn lifespan(&self) -> u32 {
        // SAFETY: We hold the lock.
        unsafe { bindings::rdma_helper_jiffies_to_msecs((*self.stats.as_raw()).lifespan) }
    }

    /// Sets it, in milliseconds.
    pub(crate) fn set_lifespan(&mut self, msecs: u32) {
        // SAFETY: We hold the lock.
        unsafe { (*self.stats.as_raw()).lifespan = time::msecs_to_jiffies(msecs) };
    }

    /// Notes that an optional counter is switched on or off.
    pub(crate) fn set_disabled(&mut self, index: usize, disabled: bool) {
        if index >= self.stats.count() {
            return;
        }
        let (word, bit) = bit(index);
        // SAFETY: By the type invariant there is a bit for each counter. We hold the lock, and
        // nobody else writes; those who read without it see the old word or the new one.
        unsafe {
            let word = (*self.stats.as_raw()).is_disabled.add(word);
            let old = word.read_volatile();
            word.write_volatile(if disabled { old | bit } else { old & !bit });
        }
    }
}

/// Counters that are ours to free.
///
/// # Invariants
///
/// `0` is of no other owner.
pub(crate) struct Owned(NonNull<bindings::rdma_hw_stats>);

// SAFETY: It stands for a `HwStats`, which is `Send` and `Sync`.
unsafe impl Send for Owned {}
// SAFETY: As above.
unsafe impl Sync for Owned {}

// SAFETY: By the duty of `from_c` it is given to the callee, and not null.
unsafe impl FromC for Owned {
    type C = *mut bindings::rdma_hw_stats;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: As above. INVARIANT: By this function's duty.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl Owned {
    /// Takes what a driver's method allocated; `None` for null.
    ///
    /// # Safety
    ///
    /// `raw` is null or from [`abi::rdma_alloc_hw_stats_struct`], and given to the caller.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::rdma_hw_stats) -> Option<Self> {
        // INVARIANT: By this function's duty.
        NonNull::new(raw).map(Self)
    }

    /// Has the driver allocate the counters of a port, if it can.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if it does not.
    pub(crate) fn of_port(device: &Device, port: u32) -> Result<Option<Self>> {
        let Some(alloc) = device.ops().alloc_hw_port_stats else {
            return Ok(None);
        };
        // SAFETY: The method is the device's, which has the port. What it returns is the core's.
        unsafe { Self::from_raw(alloc(device.as_raw(), port)) }
            .map(Some)
            .ok_or(ENOMEM)
    }

    /// Gives it away, for a field of a C structure.
    pub(crate) fn into_raw(self) -> *mut bindings::rdma_hw_stats {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// With names, and read once: so that it can be shown.
    fn ready(self, device: &Device, port: u32) -> Result<Self> {
        // As the C core does, which takes it for a failed allocation.
        if self.desc(0).is_none() {
            return Err(ENOMEM);
        }
        self.lock().fill(device, port)?;
        Ok(self)
    }
}

impl core::ops::Deref for Owned {
    type Target = HwStats;

    fn deref(&self) -> &HwStats {
        // SAFETY: By the type invariants.
        unsafe { HwStats::from_raw(self.0) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours.
        unsafe { abi::rdma_free_hw_stats_struct(self.0.as_ptr()) };
    }
}

/// The counters of a port, if its driver has any. Whoever asks has the device registered.
pub(crate) fn of_port(device: &Device, port: u32) -> Option<&HwStats> {
    sysfs::port_directory(device, port)?
        .hw_counters()
        .map(PortCounters::stats)
}

/// Makes the counters of a device that is about to be registered, and the group that shows them.
/// `None` if it has none of its own. May sleep.
///
/// # Errors
///
/// Those of the driver; `ENOMEM`.
pub(crate) fn set_up_device(device: &Device) -> Result<Option<*const bindings::attribute_group>> {
    let Some(counters) = DeviceCounters::new(device)? else {
        return Ok(None);
    };
    let counters = KBox::new(counters, GFP_KERNEL)?;
    let group = counters.group();
    // SAFETY: Whoever registers the device is alone with it. What a registration that failed
    // left there is freed: nobody sees it.
    unsafe { put(device, KBox::into_raw(counters)) };
    Ok(Some(group))
}

/// Frees the device's counters: its memory is about to go.
pub(crate) fn release(device: &Device) {
    // SAFETY: Nobody else has the device any more.
    unsafe { put(device, core::ptr::null_mut()) };
}

/// Replaces the device's counters.
///
/// # Safety
///
/// Nobody uses those that are there; `new` is null or the caller's to give.
unsafe fn put(device: &Device, new: *mut DeviceCounters) {
    // SAFETY: The field holds what this function wrote there, or null.
    unsafe {
        let field = &raw mut (*device.as_raw()).hw_stats_data;
        let old: *mut DeviceCounters = field.replace(new.cast()).cast();
        if !old.is_null() {
            drop(KBox::from_raw(old));
        }
    }
}
