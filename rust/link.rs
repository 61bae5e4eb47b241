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

use crate::bindings;
use crate::net::NetDevice;

/// The identity of a link type. A static of the module that registers it.
///
/// # Invariants
///
/// Written only while nothing is registered under it, and then by C.
pub struct LinkSlot(UnsafeCell<MaybeUninit<bindings::rdma_link_ops>>);

// SAFETY: By the type invariant, Rust does not write it while others use it.
unsafe impl Sync for LinkSlot {}

impl LinkSlot {
    /// A slot that nothing is registered under.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// The C object, for `link_ops` of a device.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::rdma_link_ops {
        self.0.get().cast()
    }
}

impl Default for LinkSlot {
    fn default() -> Self {
        Self::new()
    }
}

/// A type of link.
pub trait LinkOps: 'static {
    /// The name of the type, `rxe` for instance.
    const NAME: &'static CStr;

    /// The slot of this type, used by one registration.
    fn slot() -> &'static LinkSlot;

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

/// A registration, dropped at the end of the module at the latest.
///
/// # Invariants
///
/// The operations in `T`'s slot are registered.
pub struct LinkRegistration<T: LinkOps>(PhantomData<T>);

impl<T: LinkOps> LinkRegistration<T> {
    /// Registers the type. May sleep.
    ///
    /// If another module has a type of that name, the C core complains in the log
    /// and never calls this one.
    ///
    /// # Safety
    ///
    /// No other registration of `T` may exist meanwhile: there is one slot.
    pub unsafe fn register() -> Self {
        let ops = T::slot().as_raw();
        // SAFETY: By the caller's promise, nobody uses the slot; it is static, so it
        // outlives the registration. The list head is made to point to itself: if C
        // refuses, taking it off a list does no harm.
        unsafe {
            ops.write(bindings::rdma_link_ops {
                type_: T::NAME.as_char_ptr(),
                newlink: Some(Self::new_link),
                dellink: Some(Self::del_link),
                ..Default::default()
            });
            let list = core::ptr::addr_of_mut!((*ops).list);
            (*list).next = list;
            (*list).prev = list;
            bindings::rdma_link_register(ops);
        }
        // INVARIANT: Just registered.
        Self(PhantomData)
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
        unsafe { bindings::rdma_link_unregister(T::slot().as_raw()) };
    }
}
