// SPDX-License-Identifier: GPL-2.0

//! Devices at the edge: the C structure, references to it and use counts, the table of a driver's
//! methods, the queues and lists of C.
//!
//! To be held against `include/rdma/ib_verbs.h`.

use core::mem::offset_of;
use core::mem::size_of;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::warn_on;
use kernel::workqueue::Queue;
use rdma::bindings;
use rdma::bindings::ib_device_ops as Ops;
use rdma::edge::View;
use rdma::net::Net;
use rdma::sync::rcu;
use rdma::workqueue::OwnedQueue;

use super::DeviceName;
use super::State;
use crate::edge::device::Unregistered;

/// A device (`struct ib_device`), of this or any driver.
///
/// # Invariants
///
/// A reference is to memory that [`alloc`](super::alloc) made and that is not freed
/// while the reference exists; `res` points to its [`State`], which lives as long.
#[repr(transparent)]
pub(crate) struct Device(rdma::edge::device::Device);

impl Deref for Device {
    type Target = rdma::edge::device::Device;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// SAFETY: Transparent over the structure.
unsafe impl rdma::edge::View for Device {
    type C = bindings::ib_device;
}

impl Device {
    /// # Safety
    ///
    /// For `'a`, `ptr` is a device that fulfils the type invariant.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: This function's contract; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// A device as all modules know it, as the core does.
    #[inline]
    pub(crate) fn of(device: &rdma::edge::device::Device) -> &Self {
        // SAFETY: Every `struct ib_device` is made by `alloc`, so `res` points to its `State`; the
        // reference promises that its memory is there.
        unsafe { Self::from_raw(rdma::edge::View::raw(device)) }
    }

    /// The C structure.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        rdma::edge::View::raw(&self.0)
    }

    /// What the core keeps of it.
    #[inline]
    pub(super) fn state(&self) -> &State {
        // SAFETY: By the type invariant `res` points to the state, which lives as long.
        unsafe { &*(*self.as_raw()).res.cast::<State>() }
    }

    /// Its name as it is now; empty before it has one. Any context.
    // Not inline: it has many callers, of which none is fast.
    #[inline(never)]
    pub(crate) fn name(&self) -> DeviceName {
        const {
            assert!(offset_of!(bindings::ib_device, name) % align_of::<u64>() == 0);
        }
        // SAFETY: The array is there as long as the device, and aligned (see above). A rename may
        // change it meanwhile, which words that are read for themselves tolerate.
        DeviceName(unsafe {
            let words = (&raw const (*self.as_raw()).name).cast::<[u64; 8]>();
            core::mem::transmute::<[u64; 8], [u8; 64]>(words.read_volatile())
        })
    }

    /// Its own `struct device`. Copies in other namespaces have one each.
    pub(crate) fn dev(&self) -> *mut bindings::device {
        self.model().dev().raw()
    }

    /// The part of it that copies in other namespaces have, too.
    pub(crate) fn core_device(&self) -> *mut bindings::ib_core_device {
        self.model().raw()
    }

    /// The namespace it is in. It does not count that; so the device may be moved out of it, and
    /// it may go. Any context.
    pub(crate) fn net<'a>(&'a self, _rcu: &'a rcu::Guard) -> &'a Net {
        // SAFETY: Set at allocation. A namespace that goes moves its devices to the first one,
        // and then waits for RCU (`netns::leave`), so that it is there as long as the guard.
        unsafe {
            Net::from_raw(bindings::rdma_helper_read_pnet(
                &raw const (*self.core_device()).rdma_net,
            ))
        }
    }

    /// Turns adaptive moderation of its completion queues on or off.
    pub(crate) fn set_dim(&self, on: bool) {
        // SAFETY: The bits beside it are written before registration only.
        unsafe { (*self.as_raw()).set_use_cq_dim(u16::from(on)) };
    }
}

impl Device {
    /// Keeps the device registered, unless it is not, or is being unregistered. Any context.
    pub(crate) fn live(&self) -> Option<Registered> {
        if self.uses().try_get() {
            // INVARIANT: Just counted.
            Some(Registered(NonNull::from(self)))
        } else {
            None
        }
    }
}

// SAFETY: `get_device` and `put_device` count the memory, which alloc::release frees with
// the last.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: The device is there.
        unsafe { bindings::get_device(self.dev()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives a reference up.
        unsafe { bindings::put_device(obj.as_ref().dev()) };
    }
}

/// A device that stays registered as long as this exists; hold it briefly, since whoever
/// unregisters the device waits.
///
/// # Invariants
///
/// `0` is a device of which this holds one count of `refcount`.
pub(crate) struct Registered(NonNull<Device>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Registered {}
// SAFETY: As for `Send`.
unsafe impl Sync for Registered {}

impl Registered {
    /// One more count of a device that has one.
    pub(super) fn another(device: &Device) -> Self {
        device.uses().get();
        // INVARIANT: Just counted.
        Self(NonNull::from(device))
    }

    /// Takes over a count that C counted.
    ///
    /// # Safety
    ///
    /// `ptr` is a device of which the caller has a count to give away.
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::ib_device>) -> Self {
        // INVARIANT: The count is the caller's to give (contract of this function).
        Self(ptr.cast())
    }

    /// Leaves the count to somebody who gives it back with `uses().put()`.
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }

    /// Gives the count to C.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_device {
        ManuallyDrop::new(self).as_raw()
    }
}

impl Deref for Registered {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: By the type invariant the device is there.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.uses().put();
    }
}

/// A device in the list of the registry.
pub(super) struct Entry {
    pub(super) index: u32,
    pub(super) device: ARef<Device>,
    pub(super) registered: bool,
}

impl Entry {
    /// The name. It changes under the write side of the registry's lock only.
    pub(super) fn name(&self) -> &[u8] {
        let raw = self.device.as_raw();
        // SAFETY: An entry is borrowed from the list, under the lock, so no rename runs; the name
        // is terminated, and the memory is the device's.
        unsafe { CStr::from_char_ptr((*raw).name.as_ptr()) }.to_bytes()
    }
}

rdma::c_struct! {
    /// A table of a driver's methods.
    pub(super) struct DriverOps: Ops;
    fields {}
}

/// Behind the head of the table come groups of attributes, methods and sizes of objects,
/// each one word that is zero where there is none.
const FIRST: usize = offset_of!(Ops, device_group) / size_of::<usize>();
const WORDS: usize = size_of::<Ops>() / size_of::<usize>();

// So many in the kernel that this was written for. With another number: see that the new
// ones are words, too.
const _: () = assert!(WORDS - FIRST == 141 && size_of::<Ops>() % size_of::<usize>() == 0);

/// Adds what `from` has and `into` has not; what `into` has stays. A driver that comes in
/// parts calls this several times.
pub(super) fn merge(into: &mut Unregistered<'_>, from: &DriverOps) {
    // SAFETY: Nobody else uses the table of such a device; the other one is the driver's, and does
    // not change during the call.
    let (into, from) = unsafe { (&mut (*into.device().as_raw()).ops, &*from.raw()) };
    if from.driver_id != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN {
        warn_on!(
            into.driver_id != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN
                && into.driver_id != from.driver_id
        );
        into.driver_id = from.driver_id;
    }
    if !from.owner.is_null() {
        warn_on!(!into.owner.is_null() && into.owner != from.owner);
        into.owner = from.owner;
    }
    if from.uverbs_abi_ver != 0 {
        into.uverbs_abi_ver = from.uverbs_abi_ver;
    }
    into.set_uverbs_no_driver_id_binding(
        into.uverbs_no_driver_id_binding() | from.uverbs_no_driver_id_binding(),
    );
    into.set_uverbs_robust_udata(into.uverbs_robust_udata() | from.uverbs_robust_udata());

    // SAFETY: The tables are this many words long, aligned to words; each from `FIRST` on
    // is a pointer, a method or a size, for which a copy of the other's word is valid.
    let (into, from) = unsafe {
        (
            core::slice::from_raw_parts_mut((&raw mut *into).cast::<*const ()>(), WORDS),
            core::slice::from_raw_parts((&raw const *from).cast::<*const ()>(), WORDS),
        )
    };
    for (into, from) in into.iter_mut().zip(from).skip(FIRST) {
        if into.is_null() {
            *into = *from;
        }
    }
}

/// Where a queue of the module is found, while there is a [`Subsystem`](super::queues::Subsystem).
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// `ib_wq`, which other modules use.
    Events,
    /// Of unregistrations.
    Unregister,
}

static UNREGISTER: Atomic<*mut bindings::workqueue_struct> = Atomic::new(core::ptr::null_mut());

impl Place {
    fn word(self) -> &'static Atomic<*mut bindings::workqueue_struct> {
        match self {
            // SAFETY: A variable of `exports.c`, which is changed by whole words.
            Self::Events => unsafe { Atomic::from_ptr(&raw mut bindings::ib_wq) },
            Self::Unregister => &UNREGISTER,
        }
    }

    /// Has the queue be found, or none.
    pub(super) fn set(self, queue: Option<&OwnedQueue>) {
        let raw = queue.map_or(core::ptr::null_mut(), OwnedQueue::as_raw);
        self.word().store(raw, Relaxed);
    }

    /// The queue.
    pub(super) fn queue(self) -> &'static Queue {
        // SAFETY: Set when the module came, for as long as it is there.
        unsafe { Queue::from_raw(self.word().load(Relaxed)) }
    }

    /// Waits for all that is queued now. May sleep; not from that queue.
    pub(super) fn flush(self) {
        // SAFETY: As in `queue`.
        unsafe { bindings::__flush_workqueue(self.word().load(Relaxed)) };
    }
}
