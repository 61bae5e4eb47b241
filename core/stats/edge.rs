// SPDX-License-Identifier: GPL-2.0

//! `struct rdma_hw_stats`: the counters of a driver, field by field.
//!
//! To be held against `include/rdma/ib_verbs.h`.

use crate::device::Device;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::provider::unsupported;

/// The lock of counters, held.
pub(super) type Locked<'a> = Guard<'a, (), MutexBackend>;

rdma::c_struct! {
    /// Counters of a driver, with their values.
    ///
    /// # Invariants
    ///
    /// They were made by `rdma_alloc_hw_stats_struct`: there are `num_counters` values, a bit of
    /// `is_disabled` for each, and, if `descs` is not null, so many descriptions.
    pub(crate) struct HwStats: bindings::rdma_hw_stats;
    fields {
        /// Guards the values and how old they may be. Initialised when the counters are made.
        embed mutex at lock: Mutex<()>;
        /// How many there are. Written when they are made.
        const num_counters: i32;
        /// When the driver was asked for all of them, in jiffies.
        guarded timestamp: usize, set_timestamp => Locked<'_>;
        /// How long values are new enough, in jiffies.
        guarded lifespan_jiffies at lifespan: usize, set_lifespan_jiffies => Locked<'_>;
    }
}

// SAFETY: What changes is guarded by the mutex in it, or changed by whole words.
unsafe impl Send for HwStats {}
// SAFETY: See `Send`.
unsafe impl Sync for HwStats {}

/// The current time, in jiffies.
pub(super) fn now() -> usize {
    // SAFETY: A number that changes by whole words.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// Jiffies as milliseconds.
pub(super) fn to_msecs(jiffies: usize) -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::rdma_helper_jiffies_to_msecs(jiffies) }
}

impl HwStats {
    /// # Safety
    ///
    /// `raw` fulfils the type invariant, and lives for `'a`.
    pub(crate) unsafe fn from_raw<'a>(raw: NonNull<bindings::rdma_hw_stats>) -> &'a Self {
        // SAFETY: Contract of this function.
        unsafe { Self::view(raw.as_ptr()) }
    }

    /// How many counters there are.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.num_counters()).unwrap_or(0)
    }

    /// The description of a counter.
    pub(crate) fn desc(&self, index: usize) -> Option<&bindings::rdma_stat_desc> {
        if index >= self.count() {
            return None;
        }
        // SAFETY: There are so many descriptions (type invariant), constants of the driver's.
        unsafe {
            let descs = (*self.raw()).descs;
            (!descs.is_null()).then(|| &*descs.add(index))
        }
    }

    /// The name of a counter.
    pub(crate) fn name(&self, index: usize) -> Option<&CStr> {
        let name = self.desc(index)?.name;
        // SAFETY: Names are constant strings of the driver's (`struct rdma_stat_desc`).
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// A value, which is read and added to without the lock. Any context.
    pub(crate) fn shared(&self, index: usize) -> Option<&Atomic<u64>> {
        if index >= self.count() {
            return None;
        }
        // SAFETY: Below the count there is a value (type invariant), aligned as a `u64`; on the
        // machines that Rust is built for it is written whole.
        Some(unsafe { Atomic::from_ptr((*self.raw()).value.as_mut_ptr().add(index)) })
    }

    /// The word with the bit that says whether a counter is switched off, and the bit. It changes
    /// under the lock only, whole.
    pub(super) fn disabled(&self, index: usize) -> Option<(&Atomic<usize>, usize)> {
        if index >= self.count() {
            return None;
        }
        let bits = usize::BITS as usize;
        let bit = 1 << (index % bits);
        // SAFETY: There is a bit for each counter: type invariant.
        let word = unsafe { Atomic::from_ptr((*self.raw()).is_disabled.add(index / bits)) };
        Some((word, bit))
    }

    /// Asks the driver for a counter, or for all if `index` is the count. Returns how many it read.
    ///
    /// # Errors
    ///
    /// The driver's; `EOPNOTSUPP` if it cannot.
    pub(super) fn ask(
        &self,
        _lock: &mut Locked<'_>,
        device: &Device,
        port: u32,
        index: usize,
    ) -> Result<usize> {
        let get = device.ops().get_hw_stats.ok_or_else(unsupported)?;
        let index = i32::try_from(index)?;
        // SAFETY: The method is the device's, of counters that its driver made, whose lock is held.
        let told = unsafe { get(device.as_raw(), self.raw(), port, index) };
        usize::try_from(told).map_err(|_| Error::from_errno(told))
    }
}

/// Counters that are ours to free.
///
/// # Invariants
///
/// `0` fulfils the invariant of [`HwStats`] and has no other owner.
pub(crate) struct Owned(NonNull<bindings::rdma_hw_stats>);

// SAFETY: It stands for a `HwStats`, which is `Send` and `Sync`.
unsafe impl Send for Owned {}
// SAFETY: See `Send`.
unsafe impl Sync for Owned {}

// SAFETY: Drivers' methods that allocate counters give them to the caller (`ib_verbs.h`).
unsafe impl FromC for Owned {
    type C = *mut bindings::rdma_hw_stats;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Not null. INVARIANT: They are given to us. Both: contract of this function.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl Owned {
    /// Takes what a field of a C structure holds; none for null.
    ///
    /// # Safety
    ///
    /// `raw` is null or from `rdma_alloc_hw_stats_struct`, and given to the caller.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::rdma_hw_stats) -> Option<Self> {
        // INVARIANT: Contract of this function.
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
}

impl core::ops::Deref for Owned {
    type Target = HwStats;

    fn deref(&self) -> &HwStats {
        // SAFETY: Counters that are ours: type invariant.
        unsafe { HwStats::from_raw(self.0) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: Ours to free: type invariant.
        unsafe { super::abi::rdma_free_hw_stats_struct(self.0.as_ptr()) };
    }
}
