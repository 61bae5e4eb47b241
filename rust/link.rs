// SPDX-License-Identifier: GPL-2.0

//! RDMA links: devices that `rdma link add NAME type TYPE netdev DEV` makes.
//!
//! A module names its type by a static [`LinkSlot`], registers it, and puts
//! [`LinkSlot::as_raw`] into `link_ops` of each device that may be deleted again
//! by `rdma link delete`.
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

/// The identity of a link type. A static of the module that registers it.
///
/// # Invariants
///
/// - `ops` has the methods of `T`; only its list head changes, by C, under its lock.
/// - `taken` is set while it is registered.
pub struct LinkSlot<T: LinkOps> {
    ops: UnsafeCell<bindings::rdma_link_ops>,
    taken: Atomic<bool>,
    _type: PhantomData<fn() -> T>,
}

// SAFETY: By the type invariant, Rust does not write it while others use it.
unsafe impl<T: LinkOps> Sync for LinkSlot<T> {}

impl<T: LinkOps> LinkSlot<T> {
    /// A slot that nothing is registered under. A device may have it in its `link_ops` all the
    /// same.
    #[allow(clippy::new_without_default, reason = "for a static only")]
    #[allow(clippy::disallowed_methods, reason = "`as_char_ptr` is not const")]
    pub const fn new() -> Self {
        // SAFETY: Zeros are an empty one.
        let mut ops: bindings::rdma_link_ops = unsafe { MaybeUninit::zeroed().assume_init() };
        ops.type_ = T::NAME.as_ptr().cast();
        ops.newlink = Some(LinkRegistration::<T>::new_link);
        ops.dellink = Some(LinkRegistration::<T>::del_link);
        // INVARIANT: It has the methods of `T`.
        Self {
            ops: UnsafeCell::new(ops),
            taken: Atomic::new(false),
            _type: PhantomData,
        }
    }

    /// The C object, for `link_ops` of a device.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::rdma_link_ops {
        self.ops.get()
    }
}

/// A type of link.
pub trait LinkOps: 'static {
    /// The name of the type, `rxe` for instance.
    const NAME: &'static CStr;

    /// Makes a device called `name` on `ndev`. Process context, may sleep; RTNL is
    /// not held.
    ///
    /// # Errors
    ///
    /// Go to the user as they are.
    fn new_link(name: &CStr, ndev: &NetDevice) -> Result;

    /// A device that has the slot in its `link_ops` is about to be unregistered at
    /// the user's request. It is valid for the call. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// Go to the user as they are, and keep the device.
    fn del_link(device: NonNull<bindings::ib_device>) -> Result;
}

/// A registration. The module cannot go before it is dropped.
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
    /// If another module has a type of that name, the C core complains in the log
    /// and never calls this one.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is registered.
    pub fn register(slot: &'static LinkSlot<T>, resident: Resident) -> Result<Self> {
        if slot.taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        let ops = slot.as_raw();
        // SAFETY: `taken` was not set, so that it is in no list; it is static, so it
        // outlives the registration. The list head is made to point to itself: if C
        // refuses, taking it off a list does no harm.
        unsafe {
            let list = core::ptr::addr_of_mut!((*ops).list);
            (*list).next = list;
            (*list).prev = list;
            bindings::rdma_link_register(ops);
        }
        // INVARIANT: Just registered.
        Ok(Self {
            slot,
            _resident: resident,
        })
    }

    /// # Safety
    ///
    /// For C only, as `newlink` of `struct rdma_link_ops`.
    unsafe extern "C" fn new_link(name: *const c_char, ndev: *mut bindings::net_device) -> c_int {
        // SAFETY: C calls with a terminated string and a device that it holds.
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
    /// May sleep. Waits for calls that are under way.
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_link_unregister(self.slot.as_raw()) };
        self.slot.taken.store(false, Release);
    }
}
