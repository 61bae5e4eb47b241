// SPDX-License-Identifier: GPL-2.0

//! Data of a module in each network namespace.
//!
//! A module identifies its data by a static [`PernetSlot`]. While a [`Pernet`] is registered, every
//! namespace has one `T`. It is created with the registration or the namespace, and dropped with
//! either. Therefore it can be accessed only by code that keeps the namespace, by a reference or by
//! a device in it.
//!
//! C headers: `include/net/net_namespace.h`, `include/net/netns/generic.h`.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::pin::Pin;

use kernel::error::from_result;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::rcu;
use kernel::types::Opaque;

use super::device::CountedNet;
use super::device::NetDevice;
use crate::bindings;
use crate::edge::View;
use crate::features::init_slot;
use crate::module::Resident;
use crate::slot::StaticSlot;

/// Identifies one type of data. A static of the module that registers it, created by
/// [`static_slot!`](crate::static_slot).
///
/// # Invariants
///
/// It is written by C and by the code that set `taken`, only while nothing is registered under it.
pub struct PernetSlot {
    taken: Atomic<bool>,
    id: UnsafeCell<c_uint>,
    ops: UnsafeCell<MaybeUninit<bindings::pernet_operations>>,
}

// SAFETY: There are no readers while it is written (type invariant).
unsafe impl Sync for PernetSlot {}

impl PernetSlot {
    /// Creates a slot under which nothing is registered.
    pub const fn new() -> Self {
        Self {
            taken: Atomic::new(false),
            id: UnsafeCell::new(0),
            ops: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// # Safety
    ///
    /// Data must be registered under it.
    #[inline]
    unsafe fn id(&self) -> c_uint {
        // SAFETY: It is not written while something is registered (type invariant).
        unsafe { *self.id.get() }
    }
}

impl Default for PernetSlot {
    fn default() -> Self {
        Self::new()
    }
}

/// When the data of a namespace that is being removed is dropped: [`BeforeDevices`] or
/// [`AfterDevices`].
pub trait DropOrder: order::Sealed {
    /// Whether it is dropped before the devices leave.
    const BEFORE_DEVICES: bool;
}

/// Before network devices leave the namespace, and before data that is [`AfterDevices`].
pub enum BeforeDevices {}

/// After network devices have left the namespace, so that the data can be found by a device.
pub enum AfterDevices {}

impl DropOrder for BeforeDevices {
    const BEFORE_DEVICES: bool = true;
}

impl DropOrder for AfterDevices {
    const BEFORE_DEVICES: bool = false;
}

mod order {
    pub trait Sealed {}
    impl Sealed for super::BeforeDevices {}
    impl Sealed for super::AfterDevices {}
}

/// A network namespace that is being set up. There is no way to count a reference to it: it is freed
/// if the set-up fails, whatever its count is.
#[repr(transparent)]
pub struct NewNet(Opaque<bindings::net>);

// SAFETY: Transparent over the structure.
unsafe impl View for NewNet {
    type C = bindings::net;
}

impl NewNet {
    /// Returns a number that distinguishes the namespace from others that exist.
    pub fn identity(&self) -> usize {
        self.raw().addr()
    }
}

/// Data of a namespace.
pub trait PernetData: StaticSlot<PernetSlot> + Sized + Send + Sync + 'static {
    /// When the data of a namespace that is being removed is dropped.
    type Dropped: DropOrder;

    /// Creates the data of a new namespace. May sleep.
    fn new(net: &NewNet) -> impl PinInit<Self, Error>;
}

/// The memory that C allocates in each namespace.
///
/// # Invariants
///
/// While `ready` is set, `data` is initialised, and is not written through this.
#[repr(C)]
struct Block<T> {
    ready: Atomic<bool>,
    data: MaybeUninit<T>,
}

/// A registration. The module is not unloaded before it is dropped.
///
/// # Invariants
///
/// The operations in `slot`, which is the slot of `T`, are registered, for `T`.
pub struct Pernet<T: PernetData> {
    slot: &'static PernetSlot,
    _data: PhantomData<T>,
    _resident: Resident,
}

impl<T: PernetData> Pernet<T> {
    /// Gives every namespace a `T`. May sleep. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EBUSY` if something is registered in the slot of this type; those of `T::new`; `ENOMEM`.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let sockets = Pernet::<Socket>::register(rdma::resident!())?;
    /// ```
    pub fn register(resident: Resident) -> Result<Self> {
        // C allocates the block with at least this alignment.
        const { assert!(align_of::<Block<T>>() <= 8) };
        let slot = T::slot();
        if slot.taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        let ops = slot.ops.get().cast::<bindings::pernet_operations>();
        // SAFETY: `taken` was not set, so no other code uses the slot; it is static, so it outlives
        // the registration.
        let done = unsafe {
            ops.write(bindings::pernet_operations {
                init: Some(Self::init),
                exit: Some(Self::exit),
                id: slot.id.get(),
                size: size_of::<Block<T>>(),
                ..Default::default()
            });
            to_result(if T::Dropped::BEFORE_DEVICES {
                bindings::rdma_helper_register_pernet_device(ops)
            } else {
                bindings::rdma_helper_register_pernet_subsys(ops)
            })
        };
        if let Err(error) = done {
            slot.taken.store(false, Release);
            return Err(error);
        }
        // INVARIANT: Registered above.
        Ok(Self {
            slot,
            _data: PhantomData,
            _resident: resident,
        })
    }

    /// Returns the data of `net`. `None` while the namespace is being set up. Any context.
    #[inline]
    pub fn of<'a>(&'a self, net: &'a CountedNet) -> Option<Pin<&'a T>> {
        // SAFETY: `T` is registered (type invariant), so its slot has a number.
        let block = unsafe { Self::block(net.as_raw(), self.slot.id()) };
        // SAFETY: The namespace is not removed while it is borrowed (invariant of `CountedNet`),
        // and the registration not while `self` is. So the block exists.
        unsafe { Self::data(block) }
    }

    /// [`of`](Self::of), for functions without access to the registration.
    ///
    /// # Safety
    ///
    /// `T` must be registered while the reference exists.
    #[inline]
    pub unsafe fn get(net: &CountedNet) -> Option<Pin<&T>> {
        // SAFETY: The namespace is not removed while it is borrowed (invariant of `CountedNet`),
        // and `T` is registered (contract of this function).
        unsafe { Self::data(Self::block(net.as_raw(), T::slot().id())) }
    }

    /// Returns the block; null if the namespace has none.
    ///
    /// # Safety
    ///
    /// `net` must be a namespace, and `id` the number of the slot of `T`, which must be registered.
    #[inline]
    unsafe fn block(net: *mut bindings::net, id: c_uint) -> *mut Block<T> {
        // SAFETY: Namespace and number are valid (contract of this function).
        unsafe { bindings::rdma_helper_net_generic(net, id) }.cast()
    }

    /// # Safety
    ///
    /// `block` must be null, or a block that exists for `'a`.
    #[inline]
    unsafe fn data<'a>(block: *const Block<T>) -> Option<Pin<&'a T>> {
        if block.is_null() {
            return None;
        }
        // SAFETY: The block is valid (contract of this function), and was zeroed by C. No reference
        // to the data is made before it is initialised (invariant of `Block`). It does not move.
        unsafe {
            if !(*block).ready.load(Acquire) {
                return None;
            }
            let data = (&raw const (*block).data).cast::<T>();
            Some(Pin::new_unchecked(&*data))
        }
    }

    /// # Safety
    ///
    /// Only for C, as `init` of `struct pernet_operations`.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        from_result(|| {
            // SAFETY: C passes a namespace that is being set up (contract of this function).
            let init = T::new(unsafe { View::view(net) });
            // SAFETY: C calls this for a registration of `T`, and has allocated `size` zeroed
            // bytes, which do not move.
            unsafe {
                let block = Self::block(net, T::slot().id());
                init_slot((&raw mut (*block).data).cast::<T>(), init)?;
                // INVARIANT: The data is initialised. Release: before a reader that finds it ready
                // reads it.
                (*block).ready.store(true, Release);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Only for C, as `exit` of `struct pernet_operations`.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: C calls this once for each namespace whose `init` succeeded, and frees the memory
        // later. Nothing can find the data any more.
        unsafe {
            let block = Self::block(net, T::slot().id());
            (*block).ready.store(false, Relaxed);
            core::ptr::drop_in_place((&raw mut (*block).data).cast::<T>());
        }
    }
}

impl<T: PernetData<Dropped = AfterDevices>> Pernet<T> {
    /// Returns the data of the namespace of a device. The namespace may be in removal: its devices
    /// leave first. Any context.
    #[inline]
    pub fn of_device<'a>(&'a self, dev: &'a NetDevice, rcu: &'a rcu::Guard) -> Option<Pin<&'a T>> {
        // SAFETY: `T` is registered (type invariant), so its slot has a number.
        let block = unsafe { Self::block(dev.net(rcu).as_raw(), self.slot.id()) };
        // SAFETY: The data is dropped after all devices have left the namespace. A device that
        // leaves, or is unregistered, waits for RCU and for references to it.
        unsafe { Self::data(block) }
    }
}

impl<T: PernetData> Drop for Pernet<T> {
    /// May sleep.
    fn drop(&mut self) {
        let ops = self.slot.ops.get().cast();
        // SAFETY: The operations are registered (type invariant).
        unsafe {
            if T::Dropped::BEFORE_DEVICES {
                bindings::rdma_helper_unregister_pernet_device(ops);
            } else {
                bindings::rdma_helper_unregister_pernet_subsys(ops);
            }
        }
        self.slot.taken.store(false, Release);
    }
}
