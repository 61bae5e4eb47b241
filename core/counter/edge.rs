// SPDX-License-Identifier: GPL-2.0

//! C structures of counters, and their ownership.
//!
//! Must match `include/rdma/rdma_counter.h`.

use crate::device::Device;
use crate::device::LastReference;
use crate::edge::counter::Counter;
use crate::edge::counter::CounterInit;
use crate::edge::device::Unregistered;
use crate::edge::tracked::Tracked;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::restrack::Kind;
use crate::restrack::Entry;
use crate::restrack::Held;
use crate::restrack::MaybeTracked;
use crate::stats;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::static_lock_class;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::edge::verbs::CounterLock;
use rdma::edge::Init;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::sync::init_mutex;

/// Guard of the lock of a counter or of a port.
pub(super) type Locked<'a> = Guard<'a, (), MutexBackend>;

/// Held while a queue pair of a device is bound to a counter or unbound.
pub(crate) struct Binding<'a> {
    _guard: Locked<'a>,
    proof: CounterLock<'a>,
}

impl<'a> Binding<'a> {
    pub(super) fn of(device: &'a Device) -> Self {
        Self {
            _guard: device.slot::<super::Bindings>().lock.lock(),
            // SAFETY: The guard, stored next to the proof, holds the lock of this device.
            proof: unsafe { CounterLock::held(device) },
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
    /// Counter state of a port. A reference implies that the device was set up ([`set_up`]).
    pub(crate) struct PortCounter: bindings::rdma_port_counter;
    fields {
        /// Guards the mode and the number of counters.
        embed mutex at lock: Mutex<()>;
        /// `enum rdma_nl_counter_mode`.
        guarded raw_mode at mode.mode: u32, set_raw_mode => Locked<'_>;
        /// In auto mode, the attributes that queue pairs of one counter share.
        guarded mask at mode.mask: u32, set_mask => Locked<'_>;
        /// Whether optional counters are bound as well.
        guarded bind_opcnt at mode.bind_opcnt: bool, set_bind_opcnt => Locked<'_>;
        /// Number of counters.
        guarded num_counters: u32, set_num_counters => Locked<'_>;
        /// Sums of freed counters, if the driver has port counters. Written before the device is
        /// registered; valid as long as the device.
        const history at hstats: Option<&stats::HwStats>;
    }
}

/// Prepares a port of a device that is about to be registered, if there is such a port.
pub(super) fn set_up(alone: &mut Unregistered<'_>, port: u32, history: Option<stats::Owned>) {
    let Some(data) = alone.device().port(port) else {
        return;
    };
    let raw = data.counter().raw();
    let history = history.map_or(core::ptr::null_mut(), stats::Owned::into_raw);
    // SAFETY: Only one thread registers the device, and there is no counter yet (`Unregistered`). A
    // history left by an earlier attempt to register is freed.
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

/// Frees what [`set_up`] and later bindings allocated, before the device's memory is freed.
pub(crate) fn release(last: &LastReference<'_>) {
    let device = last.device();
    for port in device.ports() {
        let Some(data) = device.port(port) else {
            return;
        };
        let raw = data.counter().raw();
        // SAFETY: Nobody else has a reference to the device (`LastReference`), so there are no
        // queue pairs and no counters.
        drop(unsafe {
            stats::Owned::from_raw(core::ptr::replace(
                &raw mut (*raw).hstats,
                core::ptr::null_mut(),
            ))
        });
    }
}

// SAFETY: The entry is only ever initialised as a counter's (`counted::alloc`).
unsafe impl MaybeTracked for Counter {
    const TRACKED: Option<Kind> = Some(Kind::Counter);

    fn tracked(&self) -> Option<&Entry> {
        Some(self.entry())
    }
}

// SAFETY: A counter uses no other object.
unsafe impl Object for Counter {
    fn device(&self) -> &Device {
        Counter::device(self)
    }
}

/// A counter without users, except for readers that find it by its entry. Dropping it frees the
/// counter and its values. The entry must have been deleted before (`counted::abandon`,
/// `counted::end`).
///
/// # Invariants
///
/// `0` is such a counter, allocated by kmalloc.
pub(super) struct Sole(NonNull<bindings::rdma_counter>);

impl Sole {
    /// Allocates a counter of a port, of the driver's size and without values.
    pub(super) fn alloc(device: &Device, port: u32) -> Option<Self> {
        let size = device.ops().size_rdma_counter;
        if size < size_of::<bindings::rdma_counter>() {
            return None;
        }
        let raw: *mut bindings::rdma_counter = stats::abi::zalloc(size)?.cast();
        // SAFETY: The memory is zeroed, of the driver's size and not shared yet.
        unsafe {
            CounterInit { device, port }.fill(raw);
            init_mutex(
                &raw mut (*raw).lock,
                c"Counter::driver",
                static_lock_class!(),
            );
        }
        // INVARIANT: Just allocated and initialised.
        NonNull::new(raw).map(Self)
    }

    /// Publishes the counter as bound to a queue pair, which may drop its reference at once.
    /// Returns the creator's reference.
    pub(super) fn share(self) -> Counted {
        // INVARIANT: One of the two references that `set_counts` set.
        Counted(ManuallyDrop::new(self).0.cast())
    }

    /// Sets two references: the queue pair's and the creator's.
    pub(super) fn set_counts(&mut self) {
        // SAFETY: Nobody else uses the counter (type invariant). `share` returns one of the
        // references; the other one is given to the queue pair.
        unsafe { self.count().init(2) };
    }
}

impl Deref for Sole {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: The counter is valid (type invariant).
        unsafe { Counter::view(self.0.as_ptr()) }
    }
}

// SAFETY: The counter has no other user (type invariant); references come from a borrow of `self`.
unsafe impl SoleOwner for Sole {
    type Of = Counter;

    fn sole(&mut self) -> *mut bindings::rdma_counter {
        self.0.as_ptr()
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        let raw = self.0.as_ptr();
        // SAFETY: Neither the counter nor its values have other users (type invariant).
        unsafe {
            drop(stats::Owned::from_raw((*raw).stats));
            bindings::kfree(raw.cast());
        }
    }
}

/// A reference to a counter, held by a queue pair or by the task that binds one. The last one frees
/// the counter, which may sleep.
///
/// # Invariants
///
/// `0` is a counter on which this holds a reference.
pub(super) struct Counted(NonNull<Counter>);

impl Counted {
    /// Takes a reference to a counter, unless it has none left.
    pub(super) fn try_count(held: &Held) -> Option<Self> {
        let counter = Counter::of_entry(held)?;
        // INVARIANT: The reference was just taken.
        counter
            .count()
            .inc_not_zero()
            .then(|| Self(NonNull::from(counter)))
    }

    /// Passes the reference to a queue pair that the driver has bound.
    pub(super) fn give(self) {
        let _: ManuallyDrop<Self> = ManuallyDrop::new(self);
    }

    /// Takes the reference of a queue pair to its counter if `unbind` succeeds.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair has no counter; errors of `unbind`.
    pub(super) fn take(
        qp: &Qp,
        binding: &mut Binding<'_>,
        unbind: impl FnOnce(&Counter) -> Result,
    ) -> Result<Self> {
        let counter = NonNull::from(qp.bound(binding).ok_or(EINVAL)?);
        // INVARIANT: The queue pair holds the reference until the field is cleared below. The lock
        // of bindings is held, so nobody else clears it.
        let counted = ManuallyDrop::new(Self(counter.cast()));
        unbind(&counted)?;
        qp.clear_bound(binding);
        Ok(ManuallyDrop::into_inner(counted))
    }
}

impl Deref for Counted {
    type Target = Counter;

    fn deref(&self) -> &Counter {
        // SAFETY: The reference keeps the counter alive (type invariant).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's (type invariant).
        if unsafe { self.count().put() } {
            // INVARIANT: That was the last reference.
            super::counted::end(Sole(self.0.cast()));
        }
    }
}
