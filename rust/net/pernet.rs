// SPDX-License-Identifier: GPL-2.0

//! Data that each network namespace has.
//!
//! A module names its data by a static [`PernetSlot`]. While a [`Pernet`] is
//! registered, every namespace has one `T`, made when the registration or the
//! namespace came to be and dropped when either goes.
//!
//! C headers: `include/net/net_namespace.h`, `include/net/netns/generic.h`.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::pin::Pin;

use kernel::error::from_result;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;

use super::device::Net;
use crate::bindings;

/// The identity of one kind of data. A static of the module that registers it.
///
/// # Invariants
///
/// Written by C only, while nothing is registered under it.
pub struct PernetSlot {
    id: UnsafeCell<c_uint>,
    ops: UnsafeCell<core::mem::MaybeUninit<bindings::pernet_operations>>,
}

// SAFETY: By the type invariant, there are no readers while it is written.
unsafe impl Sync for PernetSlot {}

impl PernetSlot {
    /// A slot that nothing is registered under.
    pub const fn new() -> Self {
        Self {
            id: UnsafeCell::new(0),
            ops: UnsafeCell::new(core::mem::MaybeUninit::uninit()),
        }
    }

    #[inline]
    fn id(&self) -> c_uint {
        // SAFETY: By the type invariant, nobody writes while anything is registered.
        unsafe { *self.id.get() }
    }
}

impl Default for PernetSlot {
    fn default() -> Self {
        Self::new()
    }
}

/// Data of a namespace.
pub trait PernetData: Sized + Send + Sync + 'static {
    /// Whether a namespace that goes drops the data before its network devices leave it,
    /// and before data of modules without this.
    const DEVICES: bool = false;

    /// The slot of this type; each type has its own, used by one registration.
    fn slot() -> &'static PernetSlot;

    /// The data of a new namespace. May sleep.
    fn new(net: &Net) -> impl PinInit<Self, Error>;
}

/// A registration, dropped at the end of the module at the latest.
///
/// # Invariants
///
/// The operations in `T`'s slot are registered.
pub struct Pernet<T: PernetData>(PhantomData<T>);

impl<T: PernetData> Pernet<T> {
    /// Gives every namespace a `T`. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `T::new`, and `ENOMEM`.
    ///
    /// # Safety
    ///
    /// No other registration of `T` may exist meanwhile: there is one slot.
    pub unsafe fn register() -> Result<Self> {
        // C allocates the data, with this alignment at least.
        const { assert!(align_of::<T>() <= 8 && size_of::<T>() > 0) };
        let slot = T::slot();
        let ops = slot.ops.get().cast::<bindings::pernet_operations>();
        // SAFETY: By the caller's promise, nobody uses the slot; it is static, so it
        // outlives the registration.
        unsafe {
            ops.write(bindings::pernet_operations {
                init: Some(Self::init),
                exit: Some(Self::exit),
                id: slot.id.get(),
                size: size_of::<T>(),
                ..Default::default()
            });
            to_result(if T::DEVICES {
                bindings::rdma_helper_register_pernet_device(ops)
            } else {
                bindings::rdma_helper_register_pernet_subsys(ops)
            })?;
        }
        // INVARIANT: Just registered.
        Ok(Self(PhantomData))
    }

    /// The data of `net`. Any context.
    #[inline]
    pub fn of<'a>(&'a self, net: &'a Net) -> Pin<&'a T> {
        // SAFETY: By the type invariant and that of `Net`, the namespace has its data
        // now, and keeps it while either reference lives: one that goes waits for RCU
        // before it drops any. It does not move.
        unsafe { Pin::new_unchecked(&*Self::data(net.as_raw())) }
    }

    /// As [`of`](Self::of), for functions that are not given the registration.
    ///
    /// # Safety
    ///
    /// `T` is registered while the reference lives.
    #[inline]
    pub unsafe fn get(net: &Net) -> Pin<&T> {
        // SAFETY: As in `of`, by the caller's promise.
        unsafe { Pin::new_unchecked(&*Self::data(net.as_raw())) }
    }

    #[inline]
    fn data(net: *mut bindings::net) -> *mut T {
        // SAFETY: Callers have a valid namespace, and the slot has its number.
        unsafe { bindings::rdma_helper_net_generic(net, T::slot().id()) }.cast()
    }

    /// # Safety
    ///
    /// For C only, as `init` of `struct pernet_operations`.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        from_result(|| {
            // SAFETY: C calls with a namespace that is coming to be.
            let init = T::new(unsafe { Net::from_raw(net) });
            // SAFETY: C has allocated `size` bytes for us, and does not move them.
            unsafe { init.__pinned_init(Self::data(net)) }?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// For C only, as `exit` of `struct pernet_operations`.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: C calls once for each namespace whose `init` succeeded, frees the
        // memory later, and nobody can reach the data any more.
        unsafe { core::ptr::drop_in_place(Self::data(net)) };
    }
}

impl<T: PernetData> Drop for Pernet<T> {
    /// May sleep.
    fn drop(&mut self) {
        let ops = T::slot().ops.get().cast();
        // SAFETY: By the type invariant.
        unsafe {
            if T::DEVICES {
                bindings::rdma_helper_unregister_pernet_device(ops);
            } else {
                bindings::rdma_helper_unregister_pernet_subsys(ops);
            }
        }
    }
}
