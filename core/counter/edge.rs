// SPDX-License-Identifier: GPL-2.0

//! Counters at the edge: the structures field by field, and who owns them.
//!
//! To be held against `include/rdma/rdma_counter.h`.

use crate::device::Device;
use crate::edge::device::Unregistered;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::restrack::Kind;
use crate::restrack::Entry;
use crate::restrack::Held;
use crate::stats;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::static_lock_class;
use kernel::sync::Mutex;
use kernel::sync::Refcount;
use rdma::bindings;
use rdma::edge::verbs::CounterLock;
use rdma::edge::Init;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::sync::init_mutex;
use rdma::sync::IncNotZero;

/// A lock of a counter or of a port, held.
pub(super) type Locked<'a> = Guard<'a, (), MutexBackend>;

/// Held while a queue pair of a device gets or loses a counter.
pub(crate) struct Binding<'a> {
    _guard: Locked<'a>,
    proof: CounterLock<'a>,
}

impl<'a> Binding<'a> {
    pub(super) fn of(device: &'a Device) -> Self {
        Self {
            _guard: device.slot::<super::Bindings>().lock.lock(),
            // SAFETY: The guard is kept beside the proof, and is of this device's lock.
            proof: unsafe { CounterLock::held() },
        }
    }
}

impl<'a> Deref for Binding<'a> {
    type Target = CounterLock<'a>;

    fn deref(&self) -> &CounterLock<'a> {
        &self.proof
    }
}

impl core::ops::DerefMut for Binding<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.proof
    }
}

rdma::c_struct! {
    /// How queue pairs of a port get counters. A reference promises that the device was set up
    /// ([`set_up`]).
    pub(crate) struct PortCounter: bindings::rdma_port_counter;
    fields {
        /// Guards the mode and the number of counters.
        embed mutex at lock: Mutex<()>;
        /// `enum rdma_nl_counter_mode`.
        guarded raw_mode at mode.mode: u32, set_raw_mode => Locked<'_>;
        /// In auto mode, what queue pairs of one counter have in common.
        guarded mask at mode.mask: u32, set_mask => Locked<'_>;
        /// Whether optional counters are bound as well.
        guarded bind_opcnt at mode.bind_opcnt: bool, set_bind_opcnt => Locked<'_>;
        /// How many counters there are.
        guarded num_counters: u32, set_num_counters => Locked<'_>;
        /// What counters counted that are gone, if the driver has counters for ports. Written
        /// before the device is registered; there as long as the device.
        const history at hstats: Option<&stats::HwStats>;
    }
}

/// Prepares a port of a device that is about to be registered.
pub(super) fn set_up(
    _alone: &mut Unregistered<'_>,
    port: &PortCounter,
    history: Option<stats::Owned>,
) {
    let raw = port.raw();
    let history = history.map_or(core::ptr::null_mut(), stats::Owned::into_raw);
    // SAFETY: One thread registers the device, and there is no counter yet (`Unregistered`). If
    // it was to be registered before, what that left is freed.
    unsafe {
        drop(stats::Owned::from_raw((*raw).hstats));
        (*raw).hstats = history;
        (*raw).num_counters = 0;
        (*raw).mode = bindings::rdma_counter_mode::default();
        init_mutex(
            &raw mut (*raw).lock,
            c"Counters::port",
            static_lock_class!(),
        );
    }
}

/// Frees what [`set_up`] and later bindings made: the device's memory is about to go.
pub(crate) fn release(device: &Device) {
    for port in device.ports() {
        let Some(data) = device.port(port) else {
            return;
        };
        let raw = data.counter().raw();
        // SAFETY: `Hooks::released`, the only caller, has the last reference to the device. There
        // are no counters, since there are no queue pairs.
        drop(unsafe {
            stats::Owned::from_raw(core::ptr::replace(
                &raw mut (*raw).hstats,
                core::ptr::null_mut(),
            ))
        });
    }
}

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
        /// How many queue pairs have it, and who makes it.
        embed count at kref.refcount: Refcount;
        /// Held around the driver's methods of it. Initialised when it is made.
        embed mutex at lock: Mutex<()>;
        /// Its number, which the driver gives it when the first queue pair is bound.
        racy id: u32;
        /// Its values; up to date after [`query_stats`](Self::query_stats).
        const stats: Option<&stats::HwStats>, set_stats;
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

/// A counter that nobody else has, but for readers that find it by its entry. Dropping it frees the
/// counter and its values. Its entry has been ended before (`counted::abandon`, `counted::end`).
///
/// # Invariants
///
/// `0` is such a counter, of kmalloc.
pub(super) struct Sole(NonNull<bindings::rdma_counter>);

impl Sole {
    /// A counter of a port, at the driver's size, without values.
    pub(super) fn alloc(device: &Device, port: u32) -> Option<Self> {
        let size = device.ops().size_rdma_counter;
        if size < size_of::<bindings::rdma_counter>() {
            return None;
        }
        let raw: *mut bindings::rdma_counter = stats::abi::zalloc(size)?.cast();
        // SAFETY: Zeroed memory of the driver's size, that nobody else has.
        unsafe {
            CounterInit { device, port }.fill(raw);
            init_mutex(
                &raw mut (*raw).lock,
                c"Counter::driver",
                static_lock_class!(),
            );
        }
        // INVARIANT: As just made.
        NonNull::new(raw).map(Self)
    }

    /// Says that a queue pair has it, which may lose it at once. The result is the count of who
    /// makes it.
    pub(super) fn share(self) -> Counted {
        // INVARIANT: One of the two counts that `set_counts` began with.
        Counted(ManuallyDrop::new(self).0.cast())
    }

    /// Counts the queue pair that it is about to be bound to, and who makes it.
    pub(super) fn set_counts(&mut self) {
        self.count().set(2);
    }
}

impl Deref for Sole {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: The counter is there (type invariant).
        unsafe { Counter::view(self.0.as_ptr()) }
    }
}

// SAFETY: Nobody else has the counter (type invariant); references come from a borrow of this.
unsafe impl SoleOwner for Sole {
    type Of = Counter;

    fn sole(&mut self) -> *mut bindings::rdma_counter {
        self.0.as_ptr()
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        let raw = self.0.as_ptr();
        // SAFETY: Nobody else has the counter, nor its values (type invariant).
        unsafe {
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
    pub(super) fn try_count(held: &Held) -> Option<Self> {
        let counter = Counter::of_entry(held)?;
        // INVARIANT: Just counted.
        counter
            .count()
            .inc_not_zero()
            .then(|| Self(NonNull::from(counter)))
    }

    /// Gives the count to a queue pair, whose driver has bound it.
    pub(super) fn give(self) {
        let _: ManuallyDrop<Self> = ManuallyDrop::new(self);
    }

    /// Takes the count that a queue pair has of its counter, if `unbind` succeeds.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair has no counter; that of `unbind`.
    pub(super) fn take(
        qp: &Qp,
        binding: &mut Binding<'_>,
        unbind: impl FnOnce(&Counter) -> Result,
    ) -> Result<Self> {
        let counter = NonNull::from(qp.bound(binding).ok_or(EINVAL)?);
        // INVARIANT: The count is the queue pair's until the field is cleared below; the lock of
        // bindings is held, so nobody else clears it.
        let counted = ManuallyDrop::new(Self(counter.cast()));
        unbind(&counted)?;
        qp.set_bound(binding, None);
        Ok(ManuallyDrop::into_inner(counted))
    }
}

impl Deref for Counted {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: The count keeps the counter (type invariant).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.count().dec_and_test() {
            // INVARIANT: That was the last count.
            super::counted::end(Sole(self.0.cast()));
        }
    }
}
