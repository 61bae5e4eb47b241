// SPDX-License-Identifier: GPL-2.0

//! A counter and its life: it is made for its first queue pair, and goes with its last.

use super::Mode;
use super::Port;
use super::PortMode;
use crate::device::Device;
use crate::proto::restrack::Kind;
use crate::restrack::Entry;
use crate::restrack::Held;
use crate::stats;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::lock::Lock;
use kernel::sync::static_lock_class;
use kernel::sync::Refcount;
use kernel::task::Task;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::provider::unsupported;

/// A counter (`struct rdma_counter`, the beginning of a driver's structure).
///
/// # Invariants
///
/// It was made by [`Counter::make`]; `device`, `port`, `stats` do not change after, and `lock` is
/// initialised. While it is in the device's table, whoever has its entry can use it.
#[repr(transparent)]
pub(crate) struct Counter(Opaque<bindings::rdma_counter>);

impl Counter {
    /// The counter of an entry in the table of counters.
    ///
    /// # Safety
    ///
    /// It is such an entry, and held for `'a`.
    pub(crate) unsafe fn from_entry<'a>(entry: &'a Entry) -> &'a Self {
        // SAFETY: By this function's duty; the type is transparent.
        unsafe { &*container_of!(entry.raw(), bindings::rdma_counter, res).cast() }
    }

    /// The C structure.
    pub(crate) fn as_raw(&self) -> *mut bindings::rdma_counter {
        self.0.get()
    }

    /// What is tracked of it.
    pub(crate) fn entry(&self) -> &Entry {
        // SAFETY: A field of the structure, which was begun before others see the counter.
        unsafe { Entry::from_raw(&raw mut (*self.as_raw()).res) }
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: By the type invariant; the device outlives its counters.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The port whose queue pairs it counts.
    pub(crate) fn port(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).port }
    }

    /// Its number, which the driver gave it.
    pub(crate) fn id(&self) -> u32 {
        // SAFETY: The driver sets it when the first queue pair is bound.
        unsafe { (*self.as_raw()).id }
    }

    /// Its values; up to date after [`query_stats`](Self::query_stats).
    pub(crate) fn stats(&self) -> Option<&stats::HwStats> {
        // SAFETY: By the type invariant.
        unsafe { NonNull::new((*self.as_raw()).stats).map(|raw| stats::HwStats::from_raw(raw)) }
    }

    /// How it came to be, and what its queue pairs have in common.
    pub(crate) fn mode(&self) -> PortMode {
        // SAFETY: Set before others see the counter.
        let mode = unsafe { &(*self.as_raw()).mode };
        PortMode {
            mode: Mode::from_raw(mode.mode),
            mask: mode.mask,
            bind_opcnt: mode.bind_opcnt,
        }
    }

    /// In auto mode by type, the type of its queue pairs (`enum ib_qp_type`).
    pub(crate) fn qp_type(&self) -> u32 {
        // SAFETY: Set before others see the counter.
        // CAST: C keeps the type in an `int`.
        unsafe { (*self.as_raw()).mode.param.qp_type as u32 }
    }

    fn count(&self) -> &Refcount {
        // SAFETY: A `struct kref` is a `refcount_t`, and so is `Refcount`.
        unsafe { &*(&raw mut (*self.as_raw()).kref.refcount).cast() }
    }

    fn lock(&self) -> Guard<'_, (), MutexBackend> {
        // SAFETY: By the type invariant.
        unsafe { Lock::<(), MutexBackend>::from_raw(&raw mut (*self.as_raw()).lock) }.lock()
    }

    /// Has the driver bring the values up to date. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the driver cannot, else its own.
    pub(crate) fn query_stats(&self) -> Result {
        let update = self.device().ops().counter_update_stats.ok_or(EINVAL)?;
        let _guard = self.lock();
        // SAFETY: The method is the device's, of a counter of its own; we hold the lock.
        to_result(unsafe { update(self.as_raw()) })
    }

    /// One value, up to date. May sleep.
    pub(super) fn read(&self, index: usize) -> Result<u64> {
        self.query_stats()?;
        self.stats()
            .and_then(|stats| stats.shared(index))
            .map(|value| value.load(Relaxed))
            .ok_or(EINVAL)
    }

    /// Calls `f` for each counter of a device. May sleep.
    pub(super) fn for_each(device: &Device, mut f: impl FnMut(&Counter)) {
        let table = device.state().restrack.of(Kind::Counter);
        let mut from = Some(0);
        while let Some((id, held)) = from.and_then(|from| table.next_from(from, true)) {
            // SAFETY: It is of the table of counters.
            f(unsafe { Counter::from_entry(&held) });
            from = id.checked_add(1);
        }
    }

    /// Makes a counter and binds a queue pair to it. Returns its number, or none if the driver or
    /// the memory do not allow it. May sleep.
    ///
    /// # Safety
    ///
    /// The queue pair is one of the device, and stays meanwhile.
    pub(super) unsafe fn make(
        port: Port<'_>,
        qp: *mut bindings::ib_qp,
        mode: Mode,
        bind_opcnt: bool,
    ) -> Option<u32> {
        // SAFETY: By this function's duty.
        let new = unsafe { New::alloc(port) }?;
        let counter: &Counter = new.counter();
        let raw = counter.as_raw();
        let mut locked = port.lock();
        let mask = match mode {
            Mode::Manual => {
                // Somebody may have set auto mode since the caller looked.
                if locked.mode().mode == Mode::Auto {
                    return None;
                }
                locked.set(PortMode {
                    mode,
                    mask: 0,
                    bind_opcnt,
                });
                0
            }
            Mode::Auto => locked.mode().mask,
            Mode::None => return None,
        };
        let all = locked.raw();
        all.num_counters = all.num_counters.saturating_add(1);
        drop(locked);
        // SAFETY: Nobody else has the counter yet.
        unsafe {
            (*raw).mode.mode = mode.to_raw();
            (*raw).mode.mask = mask;
            (*raw).mode.bind_opcnt = bind_opcnt;
            if mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0 {
                // CAST: C keeps the type in an `int`.
                (*raw).mode.param.qp_type = (*qp).qp_type as i32;
            }
        }
        // SAFETY: By this function's duty.
        if unsafe { counter.attach(qp, port.port) }.is_err() {
            port.lock().forget_counter();
            return None;
        }
        // INVARIANT: One of the two counts that it began with. The other is the queue pair's now,
        // which may lose it at once.
        let counted = Counted(NonNull::from(counter));
        let _: ManuallyDrop<New> = ManuallyDrop::new(new);
        // SAFETY: By this function's duty the queue pair stays, and with it its owner.
        counted
            .entry()
            .set_parent(unsafe { Entry::from_raw(&raw mut (*qp).res) });
        counted.entry().add();
        Some(counted.id())
    }

    /// Has the driver count a queue pair with this.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has a counter, `EOPNOTSUPP`, that of the driver.
    ///
    /// # Safety
    ///
    /// The queue pair is one of the device, and stays meanwhile. If it succeeds, the caller gives
    /// the queue pair a count of this.
    unsafe fn attach(&self, qp: *mut bindings::ib_qp, port: u32) -> Result {
        let _bindings = self.device().state().counters.lock.lock();
        // SAFETY: By this function's duty; the field is the driver's, which changes it under this
        // lock.
        if !unsafe { (*qp).counter }.is_null() {
            return Err(EINVAL);
        }
        let bind = self
            .device()
            .ops()
            .counter_bind_qp
            .ok_or_else(unsupported)?;
        let _guard = self.lock();
        // SAFETY: The method is the device's; the counter and the queue pair are its own.
        let bound = to_result(unsafe { bind(self.as_raw(), qp, port) });
        if bound.is_err() {
            // It may have failed to take back what it set.
            // SAFETY: By this function's duty, under the lock; it was null.
            unsafe { (*qp).counter = ptr::null_mut() };
        }
        bound
    }
}

/// A counter that no queue pair has yet. Dropping it frees it.
///
/// # Invariants
///
/// Nobody else has the counter; its entry is begun and not added.
struct New(NonNull<bindings::rdma_counter>);

impl New {
    /// Has memory and values for a counter allocated.
    ///
    /// # Safety
    ///
    /// The device is registered.
    unsafe fn alloc(port: Port<'_>) -> Option<Self> {
        let device = port.device;
        let ops = device.ops();
        ops.counter_dealloc?;
        let alloc_stats = ops.counter_alloc_stats?;
        let init = ops.counter_init?;
        if ops.size_rdma_counter < size_of::<bindings::rdma_counter>() {
            return None;
        }
        let raw: *mut bindings::rdma_counter = stats::abi::zalloc(ops.size_rdma_counter)?.cast();
        let counter = NonNull::new(raw)?;
        // SAFETY: Zeroed memory of the driver's size, that nobody else has; the methods are the
        // device's. The key is static.
        unsafe {
            (*raw).device = device.as_raw();
            (*raw).port = port.port;
            bindings::__mutex_init(
                &raw mut (*raw).lock,
                c"Counter::driver".to_bytes_with_nul().as_ptr().cast(),
                static_lock_class!().as_ptr(),
            );
            init(raw);
            Entry::from_raw(&raw mut (*raw).res).init(Kind::Counter);
        }
        // INVARIANT: The entry is begun.
        let new = Self(counter);
        // SAFETY: As above.
        unsafe {
            (*raw).stats = alloc_stats(raw);
            if (*raw).stats.is_null() {
                return None;
            }
        }
        // One for the first queue pair, and one for who makes it.
        new.counter().count().set(2);
        Some(new)
    }

    fn counter(&self) -> &Counter {
        // SAFETY: By the type invariant.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Drop for New {
    fn drop(&mut self) {
        let raw = self.0.as_ptr();
        // Nobody could see the entry, so there is nobody to wait for.
        self.counter().entry().del();
        // SAFETY: By the type invariant it is ours alone. A driver that refused to bind has given
        // back what it took for that; what it took with the values it gives back now. Its failure
        // changes nothing.
        unsafe {
            match self.counter().device().ops().counter_dealloc {
                Some(dealloc) if !(*raw).stats.is_null() => {
                    let _: i32 = dealloc(raw);
                }
                Some(_) | None => {}
            }
            drop(stats::Owned::from_raw((*raw).stats));
            bindings::kfree(raw.cast());
        }
    }
}

/// A count of a counter: that of a queue pair, or of who binds one. The last one ends the counter,
/// for which it may sleep.
///
/// # Invariants
///
/// `0` is a counter of which this has a count.
pub(super) struct Counted(NonNull<Counter>);

impl Counted {
    /// Counts a counter that is held, unless its last count has gone.
    fn try_count(held: &Held<'_>) -> Option<Self> {
        // SAFETY: Callers have it from the table of counters.
        let counter = unsafe { Counter::from_entry(held) };
        // SAFETY: A `struct kref` is a `refcount_t`.
        let counted = unsafe {
            bindings::rdma_helper_refcount_inc_not_zero(&raw mut (*counter.as_raw()).kref.refcount)
        };
        // INVARIANT: Just counted.
        counted.then(|| Self(NonNull::from(counter)))
    }

    /// The counter with this number.
    pub(super) fn find(device: &Device, id: u32) -> Option<Self> {
        Self::try_count(&device.state().restrack.of(Kind::Counter).get(id)?)
    }

    /// The counter of the port for queue pairs that have in common with `qp` what `mask` says.
    ///
    /// # Safety
    ///
    /// The queue pair is one of the device, and a user's.
    pub(super) unsafe fn for_kind(
        port: Port<'_>,
        qp: *mut bindings::ib_qp,
        mask: u32,
    ) -> Option<Self> {
        // SAFETY: By this function's duty.
        let (qp_type, task) = unsafe { ((*qp).qp_type, pid_of(&raw mut (*qp).res)) };
        let by_type = mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0;
        let by_pid = mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID != 0;
        let table = port.device.state().restrack.of(Kind::Counter);
        let mut from = Some(0);
        while let Some((id, held)) = from.and_then(|from| table.next_from(from, true)) {
            // SAFETY: It is of the table of counters.
            let counter = unsafe { Counter::from_entry(&held) };
            // SAFETY: The counter is held, and so is its owner.
            if counter.port() == port.port
                && (!by_type || counter.qp_type() == qp_type)
                && (!by_pid || unsafe { pid_of(held.raw()) } == task)
            {
                return Self::try_count(&held);
            }
            from = id.checked_add(1);
        }
        None
    }

    /// Binds a queue pair, which takes this count over.
    ///
    /// # Errors
    ///
    /// As [`Counter::attach`].
    ///
    /// # Safety
    ///
    /// The queue pair is one of the device, and stays meanwhile.
    pub(super) unsafe fn bind(self, qp: *mut bindings::ib_qp, port: u32) -> Result {
        // SAFETY: By this function's duty.
        unsafe { self.attach(qp, port) }?;
        // The count is the queue pair's now.
        let _: ManuallyDrop<Self> = ManuallyDrop::new(self);
        Ok(())
    }

    /// Takes a queue pair from its counter; if `expected` is given, only from that. With `force`
    /// its count goes even if the driver refuses: the queue pair goes, too.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not have the counter, `EOPNOTSUPP`, that of the driver.
    ///
    /// # Safety
    ///
    /// The queue pair stays meanwhile.
    pub(super) unsafe fn unbind(
        qp: *mut bindings::ib_qp,
        port: u32,
        expected: Option<u32>,
        force: bool,
    ) -> Result {
        // SAFETY: By this function's duty.
        let device = unsafe { Device::from_raw((*qp).device) };
        let bindings = device.state().counters.lock.lock();
        // SAFETY: By this function's duty. A queue pair with a counter has a count of it.
        let counter = NonNull::new(unsafe { (*qp).counter }).ok_or(EINVAL)?.cast();
        // INVARIANT: The count is the queue pair's, until the driver has let it go.
        let counted = ManuallyDrop::new(Self(counter));
        if expected.is_some_and(|id| id != counted.id()) {
            return Err(EINVAL);
        }
        let unbound = match device.ops().counter_unbind_qp {
            Some(unbind) => {
                let _guard = counted.lock();
                // SAFETY: The method is the device's, and the queue pair its own.
                to_result(unsafe { unbind(qp, port) })
            }
            None => Err(unsupported()),
        };
        if unbound.is_err() && !force {
            return unbound;
        }
        // The count is nobody's now, whatever the driver made of the field.
        // SAFETY: By this function's duty, under the lock.
        unsafe { (*qp).counter = ptr::null_mut() };
        drop(bindings);
        drop(ManuallyDrop::into_inner(counted));
        Ok(())
    }
}

/// The number of the task that owns an object, if one does.
///
/// # Safety
///
/// The entry is there, and its owner does not change meanwhile.
unsafe fn pid_of(entry: *mut bindings::rdma_restrack_entry) -> Option<kernel::task::Pid> {
    // SAFETY: By this function's duty; an entry holds its task.
    unsafe { (*entry).task.cast::<Task>().as_ref() }.map(Task::pid)
}

impl Deref for Counted {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.count().dec_and_test() {
            return;
        }
        let device = self.device();
        let Some(port) = Port::of(device, self.port()) else {
            return;
        };
        // What it counted stays the port's; what it had when it was last read, if the driver does
        // not say more.
        let _: Result = self.query_stats();
        if let (Some(history), Some(stats)) = (port.history(), self.stats()) {
            for index in 0..stats.count() {
                if let (Some(sum), Some(value)) = (history.shared(index), stats.shared(index)) {
                    let _: u64 = sum.fetch_add(value.load(Relaxed), Relaxed);
                }
            }
        }
        self.entry().del();
        let raw = self.as_raw();
        if let Some(dealloc) = device.ops().counter_dealloc {
            // SAFETY: The method is the device's; nobody has the counter any more. Its failure
            // changes nothing.
            let _: i32 = unsafe { dealloc(raw) };
        }
        port.lock().forget_counter();
        // SAFETY: As above.
        unsafe {
            drop(stats::Owned::from_raw((*raw).stats));
            bindings::kfree(raw.cast());
        }
    }
}
