// SPDX-License-Identifier: GPL-2.0

//! FFI of devices: the C structure, references to it and use counts, the table of a driver's
//! methods, and the module's workqueues as C finds them.
//!
//! Must match `include/rdma/ib_verbs.h`.

mod uses;

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
use rdma::features::DEVICE_OPS_WORDS;
use rdma::net::Net;
use rdma::sync::rcu;
use rdma::workqueue::OwnedQueue;

pub(crate) use self::uses::Uses;
use super::DeviceName;
use super::State;
use crate::edge::device::Unregistered;

/// A device (`struct ib_device`), of this or any driver.
///
/// # Invariants
///
/// A reference points to memory that [`alloc`](super::alloc) allocated and that is not freed while
/// the reference exists; `res` points to its [`State`], which lives as long.
#[repr(transparent)]
pub(crate) struct Device(rdma::edge::device::Device);

/// A device whose last reference is being dropped.
///
/// # Invariants
///
/// Nobody has a reference to the device, except readers under RCU of its ports, use count and
/// methods.
pub(crate) struct LastReference<'a>(&'a Device);

impl<'a> LastReference<'a> {
    /// # Safety
    ///
    /// The driver model has dropped the last reference to the device.
    pub(crate) unsafe fn of(device: &'a Device) -> Self {
        // INVARIANT: Contract of this function.
        Self(device)
    }

    /// The device.
    pub(crate) fn device(&self) -> &'a Device {
        self.0
    }
}

impl Deref for Device {
    type Target = rdma::edge::device::Device;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// SAFETY: The type is transparent over the structure.
unsafe impl rdma::edge::View for Device {
    type C = bindings::ib_device;
}

impl Device {
    /// # Safety
    ///
    /// For `'a`, `ptr` must point to a device that satisfies the type invariant.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: This function's contract; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Converts from the view of a device that all modules share to the core's.
    #[inline]
    pub(crate) fn of(device: &rdma::edge::device::Device) -> &Self {
        // SAFETY: `alloc` creates every `struct ib_device`, so `res` points to its `State`; the
        // reference guarantees that its memory is valid.
        unsafe { Self::from_raw(rdma::edge::View::raw(device)) }
    }

    /// The C structure.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::ib_device {
        rdma::edge::View::raw(&self.0)
    }

    /// Core state of the device.
    #[inline]
    pub(super) fn state(&self) -> &State {
        // SAFETY: By the type invariant, `res` points to the state, which lives as long as the
        // device.
        unsafe { &*(*self.as_raw()).res.cast::<State>() }
    }

    /// Returns the current name; empty before the device has one. Any context.
    // Not inline: it has many callers, none on a fast path.
    #[inline(never)]
    pub(crate) fn name(&self) -> DeviceName {
        const {
            assert!(offset_of!(bindings::ib_device, name) % align_of::<u64>() == 0);
        }
        // SAFETY: The array is valid as long as the device, and aligned (asserted above). A
        // concurrent rename is tolerated, as each word is read on its own.
        DeviceName(unsafe {
            let words = (&raw const (*self.as_raw()).name).cast::<[u64; 8]>();
            core::mem::transmute::<[u64; 8], [u8; 64]>(words.read_volatile())
        })
    }

    /// The device's own `struct device`. Each copy in another namespace has its own.
    pub(crate) fn dev(&self) -> *mut bindings::device {
        self.model().dev().raw()
    }

    /// The `struct ib_core_device`, which copies in other namespaces also have.
    pub(crate) fn core_device(&self) -> *mut bindings::ib_core_device {
        self.model().raw()
    }

    /// Returns the current namespace, without a reference: the device may be moved to another one,
    /// and the namespace freed after the RCU section. Any context.
    pub(crate) fn net<'a>(&'a self, _rcu: &'a rcu::Guard) -> &'a Net {
        // SAFETY: Set at allocation. A namespace that is removed moves its devices to the initial
        // one and then waits for RCU (`netns::leave`), so it is valid as long as the guard.
        unsafe {
            Net::from_raw(bindings::rdma_helper_read_pnet(
                &raw const (*self.core_device()).rdma_net,
            ))
        }
    }

    /// Enables or disables adaptive moderation of the device's completion queues.
    pub(crate) fn set_dim(&self, on: bool) {
        // SAFETY: The other bits of the word are written only before registration.
        unsafe { (*self.as_raw()).set_use_cq_dim(u16::from(on)) };
    }
}

impl Device {
    /// Takes a use count that keeps the device registered; `None` if it is not registered or is
    /// being unregistered. Any context.
    pub(crate) fn live(&self) -> Option<Registered> {
        if self.uses().try_get() {
            // INVARIANT: The use count was just taken.
            Some(Registered(NonNull::from(self)))
        } else {
            None
        }
    }
}

// SAFETY: `get_device` and `put_device` count the references to the memory, which is freed with the
// last one, after `alloc::released`.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: `self` is a valid device (type invariant).
        unsafe { bindings::get_device(self.dev()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller passes a reference that it owns (`dec_ref`'s contract).
        unsafe { bindings::put_device(obj.as_ref().dev()) };
    }
}

/// A device that stays registered while this exists. Hold it briefly: unregistration waits for it.
///
/// # Invariants
///
/// `0` is a device of whose `refcount` this holds one count.
pub(crate) struct Registered(NonNull<Device>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl Send for Registered {}
// SAFETY: Same as for `Send`.
unsafe impl Sync for Registered {}

impl Registered {
    /// Takes over a use count from C.
    ///
    /// # Safety
    ///
    /// The caller must own a use count of the device `ptr`, which it gives up.
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::ib_device>) -> Self {
        // INVARIANT: The caller passes its use count (contract of this function).
        Self(ptr.cast())
    }

    /// Passes the use count to C.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_device {
        ManuallyDrop::new(self).as_raw()
    }
}

impl Deref for Registered {
    type Target = Device;

    fn deref(&self) -> &Device {
        // SAFETY: The use count keeps the device valid (type invariant).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: The use count is this value's (type invariant).
        unsafe { self.uses().put() };
    }
}

/// Entry of the registry's list.
pub(super) struct Entry {
    index: u32,
    /// The use count of the registry, while the device is registered. Dropped before `device`, whose
    /// memory it uses.
    own: Option<Registered>,
    device: ARef<Device>,
}

impl Entry {
    /// Creates the entry of a device that is not registered yet.
    pub(super) fn new(index: u32, device: ARef<Device>) -> Self {
        Self {
            index,
            device,
            own: None,
        }
    }

    /// Index of the device.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// The device.
    pub(super) fn device(&self) -> &ARef<Device> {
        &self.device
    }

    /// Returns whether the device is registered.
    pub(super) fn is_registered(&self) -> bool {
        self.own.is_some()
    }

    /// Marks the device as registered, and gives the registry a use count. Returns another one;
    /// `None` if the device has uses already.
    pub(super) fn enable(&mut self) -> Option<Registered> {
        let uses = self.device.uses();
        if warn_on!(!uses.none()) {
            return None;
        }
        // SAFETY: There are no uses, and only this function adds the first one, while the list is
        // locked for writing.
        unsafe { uses.open() };
        // INVARIANT: The use count was just set.
        self.own = Some(Registered(NonNull::from(&*self.device)));
        self.device.live()
    }

    /// Marks the device as not registered. Returns the use count of the registry.
    pub(super) fn disable(&mut self) -> Option<Registered> {
        self.own.take()
    }

    /// Name of the device. Changes only under the registry's write lock.
    pub(super) fn name(&self) -> &[u8] {
        let raw = self.device.as_raw();
        // SAFETY: Entries are borrowed from the list under its lock, so no rename runs. The name is
        // NUL-terminated and in the device's memory.
        unsafe { CStr::from_char_ptr((*raw).name.as_ptr()) }.to_bytes()
    }
}

rdma::c_struct! {
    /// Table of a driver's methods.
    pub(super) struct DriverOps: Ops;
    fields {}
}

/// After the header of the table come attribute groups, methods and object sizes. Each is one word,
/// which is zero if unset.
const FIRST: usize = offset_of!(Ops, device_group) / size_of::<usize>();
const WORDS: usize = size_of::<Ops>() / size_of::<usize>();

const _: () =
    assert!(WORDS - FIRST == DEVICE_OPS_WORDS && size_of::<Ops>() % size_of::<usize>() == 0);

/// Sets the methods of `into` that are unset from `from`. A driver that consists of several parts
/// calls this for each.
pub(super) fn merge(into: &mut Unregistered<'_>, from: &DriverOps) {
    // SAFETY: Nobody else uses the table of an unregistered device; the other table is the
    // driver's, which does not change during the call.
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

    // SAFETY: Both tables have `WORDS` words and are aligned to words. Each word from `FIRST` on is
    // a pointer, a method or a size, all of which may be copied as words.
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

/// Variable with a workqueue of the module, set while there is a
/// [`Subsystem`](super::queues::Subsystem).
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// `ib_wq`, which other modules use.
    Events,
    /// Workqueue for deferred unregistration.
    Unregister,
}

static UNREGISTER: Atomic<*mut bindings::workqueue_struct> = Atomic::new(core::ptr::null_mut());

impl Place {
    fn word(self) -> &'static Atomic<*mut bindings::workqueue_struct> {
        match self {
            // SAFETY: A variable of `exports.c` that is only accessed as a whole word.
            Self::Events => unsafe { Atomic::from_ptr(&raw mut bindings::ib_wq) },
            Self::Unregister => &UNREGISTER,
        }
    }

    /// Sets or clears the workqueue.
    pub(super) fn set(self, queue: Option<&OwnedQueue>) {
        let raw = queue.map_or(core::ptr::null_mut(), OwnedQueue::as_raw);
        self.word().store(raw, Relaxed);
    }

    /// Returns the workqueue.
    pub(super) fn queue(self) -> &'static Queue {
        // SAFETY: Set when the module is loaded, until it is unloaded.
        unsafe { Queue::from_raw(self.word().load(Relaxed)) }
    }

    /// Waits for all work items that are queued now. Must not be called from a work item of this
    /// queue. May sleep.
    pub(super) fn flush(self) {
        // SAFETY: Set when the module is loaded, until it is unloaded.
        unsafe { bindings::__flush_workqueue(self.word().load(Relaxed)) };
    }
}
