// SPDX-License-Identifier: GPL-2.0

//! A counter and its life: it is made for its first queue pair, and goes with its last.

use super::Binding;
use super::Mode;
use super::Port;
use super::PortMode;
use crate::device::Device;
use crate::proto::restrack::Kind;
use crate::restrack::Entry;
use crate::restrack::Held;
use crate::restrack::OwnerRef;
use crate::stats;
use crate::verbs::object::Object;
use crate::verbs::object::Qp;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::lock::Lock;
use kernel::sync::static_lock_class;
use kernel::sync::Refcount;
use rdma::bindings;
use rdma::edge::Init;
use rdma::edge::SoleOwner;
use rdma::edge::View;

rdma::c_struct! {
    /// A counter, the beginning of a driver's structure. While it is in the device's table, whoever
    /// has its entry can use it. C header: `include/rdma/rdma_counter.h`.
    pub(crate) struct Counter: bindings::rdma_counter;
    init CounterInit<'a> {
        /// The device.
        device: &'a Device,
        /// The port whose queue pairs it counts.
        port: u32,
    }
    fields {
        /// What is tracked of it.
        embed entry at res: Entry;
        embed count at kref.refcount: Count;
        /// Its number, which the driver gives it when the first queue pair is bound.
        racy id: u32;
        /// Its values; up to date after [`query_stats`](Self::query_stats).
        const stats: Option<&stats::HwStats>;
        const raw_mode at mode.mode: u32, set_raw_mode;
        const mask at mode.mask: u32, set_mask;
        const bind_opcnt at mode.bind_opcnt: bool, set_bind_opcnt;
        const raw_qp_type at mode.param.qp_type: i32, set_raw_qp_type;
    }
}

// SAFETY: The offset is taken from the structure.
unsafe impl Object for Counter {
    const TRACKED: Option<Kind> = Some(Kind::Counter);
    const RES: usize = core::mem::offset_of!(bindings::rdma_counter, res);

    fn device(&self) -> &Device {
        Counter::device(self)
    }

    fn tracked(&self) -> Option<&Entry> {
        Some(self.entry())
    }
}

rdma::c_struct! {
    /// How many queue pairs have it, and who makes it. A `struct kref` is a `refcount_t`, and so is
    /// [`Refcount`].
    pub(crate) struct Count: bindings::refcount_t;
    fields {}
}

impl Count {
    fn get(&self) -> &Refcount {
        // SAFETY: A `struct kref` is a `refcount_t`, and so is `Refcount` (see `Count`).
        unsafe { &*self.raw().cast() }
    }

    /// Counts, unless the last count has gone.
    fn try_inc(&self) -> bool {
        // SAFETY: The counter is there.
        unsafe { bindings::rdma_helper_refcount_inc_not_zero(self.raw()) }
    }
}

impl Counter {
    /// How it came to be, and what its queue pairs have in common.
    pub(crate) fn mode(&self) -> PortMode {
        PortMode {
            mode: Mode::from_raw(self.raw_mode()),
            mask: self.mask(),
            bind_opcnt: self.bind_opcnt(),
        }
    }

    /// In auto mode by type, the type of its queue pairs (`enum ib_qp_type`).
    pub(crate) fn qp_type(&self) -> u32 {
        // CAST: C keeps the type in an `int`.
        self.raw_qp_type() as u32
    }

    fn lock(&self) -> Guard<'_, (), MutexBackend> {
        // SAFETY: Initialised when it was made.
        unsafe { Lock::<(), MutexBackend>::from_raw(&raw mut (*self.raw()).lock) }.lock()
    }

    /// Has the driver bring the values up to date. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the driver cannot, else its own.
    pub(crate) fn query_stats(&self) -> Result {
        let missing = |_| EINVAL;
        self.device()
            .needs(|ops| ops.counter_update_stats)
            .map_err(missing)?;
        let _guard = self.lock();
        self.driver().counter_update_stats()
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
        let table = device.slot::<crate::restrack::Tables>().of(Kind::Counter);
        let mut from = Some(0);
        while let Some((id, held)) = from.and_then(|from| table.next_from(from, true)) {
            if let Some(counter) = Counter::of_entry(&held) {
                f(counter);
            }
            from = id.checked_add(1);
        }
    }

    /// Makes a counter and binds a queue pair of the device to it. Returns its number, or none if
    /// the driver or the memory do not allow it. May sleep.
    pub(super) fn make(port: Port<'_>, qp: &Qp, mode: Mode, bind_opcnt: bool) -> Option<u32> {
        let mut new = New::alloc(port)?;
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
        Counter::set_raw_mode(&mut new, mode.to_raw());
        Counter::set_mask(&mut new, mask);
        Counter::set_bind_opcnt(&mut new, bind_opcnt);
        if mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0 {
            // CAST: C keeps the type in an `int`.
            Counter::set_raw_qp_type(&mut new, qp.qp_type() as i32);
        }
        if new.attach(qp, port.port).is_err() {
            port.lock().forget_counter();
            return None;
        }
        let counted = new.counted();
        // SAFETY: Whoever makes a counter owns its entry until this function returns. The last
        // count, of which `counted` is one, ends it in `Counted::drop`.
        let mut entry = unsafe { OwnerRef::new(counted.entry()) };
        entry.set_parent(Entry::of(qp.res()));
        entry.add();
        Some(counted.id())
    }

    /// Has the driver count a queue pair with this. If it succeeds, the caller gives the queue pair
    /// a count of this.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has a counter, `EOPNOTSUPP`, that of the driver.
    fn attach(&self, qp: &Qp, port: u32) -> Result {
        let mut binding = Binding::of(self.device());
        if qp.bound(&binding).is_some() {
            return Err(EINVAL);
        }
        self.device().needs(|ops| ops.counter_bind_qp)?;
        let _guard = self.lock();
        self.driver().counter_bind_qp(qp, port).inspect_err(|_| {
            // It may have failed to take back what it set.
            qp.set_bound(&mut binding, None);
        })
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
    fn alloc(port: Port<'_>) -> Option<Self> {
        let device = port.device;
        let ops = device.ops();
        ops.counter_dealloc?;
        ops.counter_alloc_stats?;
        ops.counter_init?;
        if ops.size_rdma_counter < size_of::<bindings::rdma_counter>() {
            return None;
        }
        let raw: *mut bindings::rdma_counter = stats::abi::zalloc(ops.size_rdma_counter)?.cast();
        let init = CounterInit {
            device,
            port: port.port,
        };
        // SAFETY: Zeroed memory of the driver's size, that nobody else has. The key is static.
        unsafe {
            init.fill(raw);
            bindings::__mutex_init(
                &raw mut (*raw).lock,
                c"Counter::driver".to_bytes_with_nul().as_ptr().cast(),
                static_lock_class!().as_ptr(),
            );
        }
        // INVARIANT: The entry is begun below, before anything can fail.
        let mut new = Self(NonNull::new(raw)?);
        new.driver().counter_init();
        if let Some(mut entry) = OwnerRef::of(&mut new) {
            entry.begin(Kind::Counter);
        }
        let stats = new.driver().counter_alloc_stats().ok()?;
        // SAFETY: As above.
        unsafe { (*raw).stats = stats.into_raw() };
        // One for the first queue pair, and one for who makes it.
        new.count().get().set(2);
        Some(new)
    }

    /// It has a queue pair, whose the other of its two counts is, and which may lose it at once.
    fn counted(self) -> Counted {
        // INVARIANT: One of the two counts that it began with.
        Counted(ManuallyDrop::new(self).0.cast())
    }
}

impl Deref for New {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: By the type invariant.
        unsafe { self.0.cast().as_ref() }
    }
}

// SAFETY: By the type invariant; references come from a borrow of this.
unsafe impl SoleOwner for New {
    type Of = Counter;

    fn sole(&mut self) -> *mut bindings::rdma_counter {
        self.0.as_ptr()
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // Nobody could see the entry, so there is nobody to wait for.
        if let Some(mut entry) = OwnerRef::of(self) {
            entry.del();
        }
        // A driver that refused to bind has given back what it took for that; what it took with the
        // values it gives back now. Its failure changes nothing.
        if self.stats().is_some() {
            let _: Result = self.driver().counter_dealloc();
        }
        free(self.0);
    }
}

/// Frees a counter and its values.
fn free(counter: NonNull<bindings::rdma_counter>) {
    let raw = counter.as_ptr();
    // SAFETY: Callers have the last of it.
    unsafe {
        drop(stats::Owned::from_raw((*raw).stats));
        bindings::kfree(raw.cast());
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
    fn try_count(held: &Held) -> Option<Self> {
        let counter = Counter::of_entry(held)?;
        // INVARIANT: Just counted.
        counter
            .count()
            .try_inc()
            .then(|| Self(NonNull::from(counter)))
    }

    /// The counter with this number.
    pub(super) fn find(device: &Device, id: u32) -> Option<Self> {
        Self::try_count(
            &device
                .slot::<crate::restrack::Tables>()
                .of(Kind::Counter)
                .get(id)?,
        )
    }

    /// The counter of the port for queue pairs that have in common with `qp`, a user's, what `mask`
    /// says.
    pub(super) fn for_kind(port: Port<'_>, qp: &Qp, mask: u32) -> Option<Self> {
        let task = Entry::of(qp.res()).pid();
        let by_type = mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_QP_TYPE != 0;
        let by_pid = mask & bindings::rdma_nl_counter_mask_RDMA_COUNTER_MASK_PID != 0;
        let table = port
            .device
            .slot::<crate::restrack::Tables>()
            .of(Kind::Counter);
        let mut from = Some(0);
        while let Some((id, held)) = from.and_then(|from| table.next_from(from, true)) {
            if let Some(counter) = Counter::of_entry(&held) {
                if counter.port() == port.port
                    && (!by_type || counter.qp_type() == qp.qp_type())
                    && (!by_pid || held.pid() == task)
                {
                    return Self::try_count(&held);
                }
            }
            from = id.checked_add(1);
        }
        None
    }

    /// Binds a queue pair of the device, which takes this count over.
    ///
    /// # Errors
    ///
    /// As [`Counter::attach`].
    pub(super) fn bind(self, qp: &Qp, port: u32) -> Result {
        self.attach(qp, port)?;
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
    pub(super) fn unbind(qp: &Qp, port: u32, expected: Option<u32>, force: bool) -> Result {
        let mut binding = Binding::of(qp.device());
        let counter: NonNull<rdma::edge::verbs::Counter> =
            NonNull::from(qp.bound(&binding).ok_or(EINVAL)?);
        // INVARIANT: The count is the queue pair's, until the driver has let it go.
        let counted = ManuallyDrop::new(Self(counter.cast()));
        if expected.is_some_and(|id| id != counted.id()) {
            return Err(EINVAL);
        }
        let guard = counted.lock();
        let unbound = qp.driver().counter_unbind_qp(port);
        drop(guard);
        if unbound.is_err() && !force {
            return unbound;
        }
        // The count is nobody's now, whatever the driver made of the field.
        qp.set_bound(&mut binding, None);
        drop(binding);
        drop(ManuallyDrop::into_inner(counted));
        Ok(())
    }
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
        if !self.count().get().dec_and_test() {
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
        // SAFETY: The last count is gone, so this is the counter's owner, and frees it below.
        unsafe { OwnerRef::new(self.entry()) }.del();
        // Nobody has the counter any more. Its failure changes nothing.
        let _: Result = self.driver().counter_dealloc();
        port.lock().forget_counter();
        free(self.0.cast());
    }
}
