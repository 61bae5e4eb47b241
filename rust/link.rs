// SPDX-License-Identifier: GPL-2.0

//! RDMA links: devices created by `rdma link add NAME type TYPE netdev DEV`.
//!
//! A module declares its type as a static [`LinkSlot`], registers it, and stores
//! [`LinkSlot::as_raw`] in `link_ops` of each device that `rdma link delete` may delete.
//!
//! C header: `include/rdma/rdma_netlink.h`.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use kernel::error::from_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;

use crate::bindings;
use crate::module::Resident;
use crate::net::NetDevice;

/// A link type: a static of the module that registers it.
///
/// # Invariants
///
/// - `ops` has the methods of `T`. Only its list head changes; C does that, under its own lock.
/// - `taken` is set while the type is registered.
pub struct LinkSlot<T: LinkOps> {
    ops: UnsafeCell<bindings::rdma_link_ops>,
    taken: Atomic<bool>,
    _type: PhantomData<fn() -> T>,
}

// SAFETY: Rust writes `ops` only in `register`, before C knows it (type invariant).
unsafe impl<T: LinkOps> Sync for LinkSlot<T> {}

impl<T: LinkOps> LinkSlot<T> {
    /// Creates a slot whose type is not registered. Devices may refer to it in `link_ops` already.
    #[allow(clippy::new_without_default, reason = "for a static only")]
    #[allow(clippy::disallowed_methods, reason = "`as_char_ptr` is not const")]
    pub const fn new() -> Self {
        // SAFETY: A C structure of integers and pointers, for which zero is valid.
        let mut ops: bindings::rdma_link_ops = unsafe { MaybeUninit::zeroed().assume_init() };
        ops.type_ = T::NAME.as_ptr().cast();
        ops.newlink = Some(LinkRegistration::<T>::new_link);
        ops.dellink = Some(LinkRegistration::<T>::del_link);
        // INVARIANT: The methods are those of `T`.
        Self {
            ops: UnsafeCell::new(ops),
            taken: Atomic::new(false),
            _type: PhantomData,
        }
    }

    /// Returns the C structure, for `link_ops` of a device.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::rdma_link_ops {
        self.ops.get()
    }
}

/// Methods of a link type (`struct rdma_link_ops`).
pub trait LinkOps: 'static {
    /// Name of the type, for instance `rxe`.
    const NAME: &'static CStr;

    /// Creates a device called `name` on `ndev`. Process context, may sleep; RTNL is not held.
    ///
    /// # Errors
    ///
    /// Returned to the user.
    fn new_link(name: &CStr, ndev: &NetDevice) -> Result;

    /// Deletes a device that refers to the slot in `link_ops`, at the request of the user: the
    /// device is about to be unregistered. It is valid during the call. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// Returned to the user; the device is not deleted then.
    fn del_link(device: NonNull<bindings::ib_device>) -> Result;
}

/// A registered link type. The module cannot be unloaded before it is dropped.
///
/// # Invariants
///
/// The operations in the slot are registered.
pub struct LinkRegistration<T: LinkOps> {
    slot: &'static LinkSlot<T>,
    _resident: Resident,
}

impl<T: LinkOps> LinkRegistration<T> {
    /// Registers the type. May sleep. `resident` is [`resident!()`](crate::resident).
    ///
    /// If another module has a type of the same name, the C core warns in the log and never calls
    /// this one.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the slot is registered.
    pub fn register(slot: &'static LinkSlot<T>, resident: Resident) -> Result<Self> {
        if slot.taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        let ops = slot.as_raw();
        // SAFETY: This call has set `taken`, so `ops` is in no list (type invariant of `LinkSlot`).
        // It is static, so it outlives the registration. The list head is initialised to point to
        // itself: if C refuses the registration, unregistration is harmless.
        unsafe {
            let list = core::ptr::addr_of_mut!((*ops).list);
            (*list).next = list;
            (*list).prev = list;
            bindings::rdma_link_register(ops);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            slot,
            _resident: resident,
        })
    }

    /// # Safety
    ///
    /// For C only, as `newlink` of `struct rdma_link_ops`.
    unsafe extern "C" fn new_link(name: *const c_char, ndev: *mut bindings::net_device) -> c_int {
        // SAFETY: C calls with a NUL-terminated string and a device that it holds a reference to.
        let (name, ndev) = unsafe { (CStr::from_char_ptr(name), NetDevice::from_raw(ndev)) };
        from_result(|| T::new_link(name, ndev).map(|()| 0))
    }

    /// # Safety
    ///
    /// For C only, as `dellink` of `struct rdma_link_ops`.
    unsafe extern "C" fn del_link(device: *mut bindings::ib_device) -> c_int {
        from_result(|| T::del_link(NonNull::new(device).ok_or(EINVAL)?).map(|()| 0))
    }
}

impl<T: LinkOps> Drop for LinkRegistration<T> {
    /// May sleep. Waits for running calls.
    fn drop(&mut self) {
        // SAFETY: The operations are registered (type invariant).
        unsafe { bindings::rdma_link_unregister(self.slot.as_raw()) };
        self.slot.taken.store(false, Release);
    }
}
