// SPDX-License-Identifier: GPL-2.0

//! Data that each network namespace has.
//!
//! A module names its data by a static [`PernetSlot`]. While a [`Pernet`] is
//! registered, every namespace has one `T`, made when the registration or the
//! namespace came to be and dropped when either goes: so only who keeps a namespace, by its
//! count or by a device that is in it, gets at the data.
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

use super::device::CountedNet;
use super::device::Net;
use super::device::NetDevice;
use crate::bindings;
use crate::features::init_slot;
use crate::module::Resident;

/// The identity of one kind of data. A static of the module that registers it, made by
/// [`impl_pernet_slot!`](crate::impl_pernet_slot).
///
/// # Invariants
///
/// Written by C and by the one who set `taken`, only while nothing is registered under it.
pub struct PernetSlot {
    taken: Atomic<bool>,
    id: UnsafeCell<c_uint>,
    ops: UnsafeCell<MaybeUninit<bindings::pernet_operations>>,
}

// SAFETY: By the type invariant, there are no readers while it is written.
unsafe impl Sync for PernetSlot {}

impl PernetSlot {
    /// A slot that nothing is registered under.
    pub const fn new() -> Self {
        Self {
            taken: Atomic::new(false),
            id: UnsafeCell::new(0),
            ops: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// # Safety
    ///
    /// Data are registered under it.
    #[inline]
    unsafe fn id(&self) -> c_uint {
        // SAFETY: By the type invariant, nobody writes while anything is registered.
        unsafe { *self.id.get() }
    }
}

impl Default for PernetSlot {
    fn default() -> Self {
        Self::new()
    }
}

/// Says where a type has its [`PernetSlot`].
///
/// # Safety
///
/// It is the same slot each time.
pub unsafe trait HasPernetSlot {
    /// The slot.
    fn slot() -> &'static PernetSlot;
}

/// Implements [`HasPernetSlot`](crate::net::pernet::HasPernetSlot). A generic type has one slot
/// for all its instances, of which one at a time can be registered.
///
/// # Examples
///
/// ```ignore
/// impl_pernet_slot!(impl for Socket);
/// impl_pernet_slot!(impl{S: RxSink} for PernetState<S>);
/// ```
#[macro_export]
macro_rules! impl_pernet_slot {
    (impl$({$($generics:tt)*})? for $self:ty) => {
        // SAFETY: The slot is a static.
        unsafe impl$(<$($generics)*>)? $crate::net::pernet::HasPernetSlot for $self {
            fn slot() -> &'static $crate::net::PernetSlot {
                static SLOT: $crate::net::PernetSlot = $crate::net::PernetSlot::new();
                &SLOT
            }
        }
    };
}
pub use crate::impl_pernet_slot;

/// When a namespace that goes drops data: [`BeforeDevices`] or [`AfterDevices`].
pub trait DropOrder: order::Sealed {
    /// Whether it is before.
    const BEFORE_DEVICES: bool;
}

/// Before its network devices leave it, and before data that are [`AfterDevices`].
pub enum BeforeDevices {}

/// After its network devices have left it, so that they lead to the data.
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

/// Data of a namespace.
pub trait PernetData: HasPernetSlot + Sized + Send + Sync + 'static {
    /// When a namespace that goes drops the data.
    type Dropped: DropOrder;

    /// The data of a new namespace. May sleep.
    fn new(net: &Net) -> impl PinInit<Self, Error>;
}

/// What C keeps in a namespace for us.
///
/// # Invariants
///
/// While `ready` is set, `data` is initialised.
#[repr(C)]
struct Block<T> {
    ready: Atomic<bool>,
    data: MaybeUninit<T>,
}

/// A registration. The module cannot go before it is dropped.
///
/// # Invariants
///
/// The operations in `slot`, which is `T`'s, are registered, for `T`.
pub struct Pernet<T: PernetData> {
    slot: &'static PernetSlot,
    _data: PhantomData<T>,
    _resident: Resident,
}

impl<T: PernetData> Pernet<T> {
    /// Gives every namespace a `T`. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if something is registered in this type's slot; those of `T::new`; `ENOMEM`.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let sockets = Pernet::<Socket>::register(rdma::resident!())?;
    /// ```
    pub fn register(resident: Resident) -> Result<Self> {
        // C allocates the data, with this alignment at least.
        const { assert!(align_of::<Block<T>>() <= 8) };
        let slot = T::slot();
        if slot.taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        let ops = slot.ops.get().cast::<bindings::pernet_operations>();
        // SAFETY: `taken` was not set, so that nobody else uses the slot; it is static, so it
        // outlives the registration.
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
        // INVARIANT: Just registered.
        Ok(Self {
            slot,
            _data: PhantomData,
            _resident: resident,
        })
    }

    /// The data of `net`. `None` while the namespace is being set up and has none yet. Any
    /// context.
    #[inline]
    pub fn of<'a>(&'a self, net: &'a CountedNet) -> Option<Pin<&'a T>> {
        // SAFETY: By the type invariant of this the slot has a number.
        let block = unsafe { Self::block(net.as_raw(), self.slot.id()) };
        // SAFETY: By the type invariant of `CountedNet` the namespace does not go while it is
        // borrowed, nor the registration while `self` is: its block stays.
        unsafe { Self::data(block) }
    }

    /// As [`of`](Self::of), for functions that are not given the registration.
    ///
    /// # Safety
    ///
    /// `T` is registered while the reference lives.
    #[inline]
    pub unsafe fn get(net: &CountedNet) -> Option<Pin<&T>> {
        // SAFETY: As in `of`; the caller promises that there is a registration.
        unsafe { Self::data(Self::block(net.as_raw(), T::slot().id())) }
    }

    /// Null if the namespace has none.
    ///
    /// # Safety
    ///
    /// `net` is a namespace, and `id` the number of `T`'s slot, under which `T` is registered.
    #[inline]
    unsafe fn block(net: *mut bindings::net, id: c_uint) -> *mut Block<T> {
        // SAFETY: By the caller's promise.
        unsafe { bindings::rdma_helper_net_generic(net, id) }.cast()
    }

    /// # Safety
    ///
    /// `block` is null, or a block that stays for `'a`.
    #[inline]
    unsafe fn data<'a>(block: *const Block<T>) -> Option<Pin<&'a T>> {
        // SAFETY: By the caller's promise. C zeroes the memory that it gives to a namespace.
        let block = unsafe { block.as_ref() }?;
        if !block.ready.load(Acquire) {
            return None;
        }
        // SAFETY: By the invariant of `Block`. It does not move.
        Some(unsafe { Pin::new_unchecked(block.data.assume_init_ref()) })
    }

    /// # Safety
    ///
    /// For C only, as `init` of `struct pernet_operations`.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        from_result(|| {
            // SAFETY: C calls with a namespace that is coming to be.
            let init = T::new(unsafe { Net::from_raw(net) });
            // SAFETY: C calls for a registration of `T`, and has allocated `size` zeroed bytes
            // for us, which do not move.
            unsafe {
                let block = Self::block(net, T::slot().id());
                init_slot((&raw mut (*block).data).cast::<T>(), init)?;
                // INVARIANT: It is initialised. Release: before who finds it reads it.
                (*block).ready.store(true, Release);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// For C only, as `exit` of `struct pernet_operations`.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: C calls once for each namespace whose `init` succeeded, frees the
        // memory later, and nobody can reach the data any more.
        unsafe {
            let block = Self::block(net, T::slot().id());
            (*block).ready.store(false, Relaxed);
            core::ptr::drop_in_place((&raw mut (*block).data).cast::<T>());
        }
    }
}

impl<T: PernetData<Dropped = AfterDevices>> Pernet<T> {
    /// The data of the namespace that a device is in, which may be going: its devices leave it
    /// first. Any context.
    #[inline]
    pub fn of_device<'a>(&'a self, dev: &'a NetDevice, rcu: &'a rcu::Guard) -> Option<Pin<&'a T>> {
        // SAFETY: By the type invariant of this the slot has a number.
        let block = unsafe { Self::block(dev.net(rcu).as_raw(), self.slot.id()) };
        // SAFETY: Each device that leaves a namespace, or is unregistered there, waits for RCU,
        // and for those who have a reference to it; a namespace drops these data after that.
        unsafe { Self::data(block) }
    }
}

impl<T: PernetData> Drop for Pernet<T> {
    /// May sleep.
    fn drop(&mut self) {
        let ops = self.slot.ops.get().cast();
        // SAFETY: By the type invariant.
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
