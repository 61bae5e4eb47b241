// SPDX-License-Identifier: GPL-2.0

//! The verbs objects: a C structure of the core, followed by the driver's data.
//!
//! The core allocates `size_ib_*` zeroed bytes, fills in the C structure, which is at offset 0, and
//! calls the driver's create method; it frees the memory after the destroy method has succeeded. So
//! each object here is `#[repr(C)]`: first the C structure, then the upcall handle if the object
//! has one, then the driver's data.
//!
//! ```text
//!   core: kzalloc ---> New (C part, upcall) --initialiser--> Object (all parts)
//!                        |                                     |
//!                        +-- create fails                      +-- destroy succeeds
//!                        v                                     v
//!   core: kfree <----- upcall closed <---------- upcall closed, data dropped
//! ```
//!
//! The memory of memory regions is allocated and freed here, not by the core.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::device::Device;
use super::upcall::CqUpcall;
use super::upcall::QpUpcall;
use super::upcall::SrqUpcall;
use super::upcall::Upcall;
use super::wc::QpToken;
use super::Provider;
use crate::bindings;
use crate::edge::uverbs;
use crate::edge::verbs;
use crate::edge::View;
use crate::features::init_slot;
use core::convert::Infallible;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

/// The second part of an object: the handle for upcalls, if the object has them.
pub(crate) trait Uplink<C>: Sized {
    /// # Safety
    ///
    /// `object` must be a live object of the core until [`Self::close`] has returned.
    unsafe fn open(object: NonNull<C>) -> Result<Self>;

    /// Ends all upcalls of the object. May sleep.
    fn close(&self);
}

impl<C> Uplink<C> for () {
    unsafe fn open(_: NonNull<C>) -> Result {
        Ok(())
    }

    fn close(&self) {}
}

impl<C> Uplink<C> for Upcall<C> {
    unsafe fn open(object: NonNull<C>) -> Result<Self> {
        // SAFETY: The contract of `new` is that of this function.
        unsafe { Upcall::new(object) }
    }

    fn close(&self) {
        Upcall::close(self);
    }
}

/// Layout of all objects.
#[repr(C)]
pub(crate) struct Layout<C, U, D> {
    c: Opaque<C>,
    up: U,
    data: D,
}

mod private {
    /// Properties of an object for the adapter.
    ///
    /// # Safety
    ///
    /// `Self` must be transparent over `Layout<Self::C, Self::Up, Self::Data>`.
    pub(crate) unsafe trait Parts {
        /// The C structure.
        type C;
        /// The table of its fields.
        type View: crate::edge::View<C = Self::C>;
        /// The handle for upcalls.
        type Up: super::Uplink<Self::C>;
        /// The driver's data.
        type Data;
    }
}

pub(crate) use self::private::Parts;

/// A verbs object. This trait cannot be implemented outside.
#[expect(private_bounds)]
pub trait Object: Parts {}

impl<T: Parts> Object for T {}

/// # Safety
///
/// `c` must point to an object of type `O` of which at least the C part is initialised.
unsafe fn layout<O: Parts>(c: *mut O::C) -> *mut Layout<O::C, O::Up, O::Data> {
    // CAST: Such an object (contract of this function); the C part is at offset 0 of a `repr(C)`
    // type.
    c.cast()
}

/// Ends an object: closes the upcall and drops the driver's data. The memory is not freed.
///
/// # Safety
///
/// `c` must point to an object of type `O` with all parts, which has no other users except through
/// its upcall, and none after this call.
pub(crate) unsafe fn end<O: Parts>(c: *mut O::C) {
    // SAFETY: All parts are initialised and not used otherwise (contract of this function). The
    // upcall is closed before the data is dropped.
    unsafe {
        let this = layout::<O>(c);
        (*this).up.close();
        core::ptr::drop_in_place(&raw mut (*this).data);
        core::ptr::drop_in_place(&raw mut (*this).up);
    }
}

/// A verbs object under construction: only the driver's data is missing.
///
/// # Invariants
///
/// `c` points to an object of type `O` in which the C part and the upcall are initialised. Its device
/// outlives `'a`.
pub struct New<'a, O: Object> {
    c: NonNull<<O as Parts>::C>,
    _p: PhantomData<(&'a (), O)>,
}

impl<O: Object> New<'_, O> {
    /// Takes memory in which the C part is initialised, and opens the upcall. Sleeps only for
    /// objects with an upcall.
    ///
    /// # Safety
    ///
    /// `c` must point to memory of `size_of::<O>()` bytes in which the C part is initialised, and
    /// which is not freed before the result is dropped or, if it is finished, [`end`] is called. The
    /// device of the object must outlive the lifetime of the result.
    pub(crate) unsafe fn begin(c: *mut <O as Parts>::C) -> Result<Self> {
        let c = NonNull::new(c).ok_or(EINVAL)?;
        // SAFETY: Both the drop of `New` and `end` close the upcall before the object is freed.
        let up = unsafe { <O as Parts>::Up::open(c) }?;
        // SAFETY: The memory is large enough (contract of this function), and this part of it is
        // not used otherwise.
        unsafe { (&raw mut (*layout::<O>(c.as_ptr())).up).write(up) };
        // INVARIANT: The C part was initialised by the caller, the upcall above; the device outlives
        // the result (contract of this function).
        Ok(Self { c, _p: PhantomData })
    }

    /// Initialises the driver's data. `data` may borrow the [`New`] of the object.
    ///
    /// # Safety
    ///
    /// `c` must be the pointer that [`Self::begin`] was called with. Must be called once, followed by
    /// [`Self::finish`].
    pub(crate) unsafe fn init(
        c: *mut <O as Parts>::C,
        data: impl PinInit<<O as Parts>::Data, Infallible>,
    ) {
        // SAFETY: The field is uninitialised memory of the right size, which does not move until
        // `end` drops it.
        match unsafe { init_slot(&raw mut (*layout::<O>(c)).data, data) } {
            Ok(()) => (),
            Err(never) => match never {},
        }
    }

    /// Ends the construction: the object is complete.
    pub(crate) fn finish(self) {
        core::mem::forget(self);
    }

    #[inline]
    fn up(&self) -> &<O as Parts>::Up {
        // SAFETY: The upcall is initialised (type invariant).
        unsafe { &(*layout::<O>(self.c.as_ptr())).up }
    }
}

impl<O: Object> Drop for New<'_, O> {
    fn drop(&mut self) {
        self.up().close();
        // SAFETY: The upcall is initialised (type invariant), and the object is not used after
        // this. The memory returns to the core, which does not use the upcall.
        unsafe { core::ptr::drop_in_place(&raw mut (*layout::<O>(self.c.as_ptr())).up) };
    }
}

/// Defines an object: `Name: c_struct as table, upcall`.
macro_rules! object {
    ($($(#[$doc:meta])* $name:ident: $c:ident as $view:ty, $up:ty;)*) => { $(
        $(#[$doc])*
        ///
        /// Dereferences to the driver's data.
        ///
        /// # Invariants
        ///
        /// A reference to it is to a live object of a device of `P` whose parts are all
        /// initialised.
        #[repr(transparent)]
        pub struct $name<P: Provider>(Layout<bindings::$c, $up, P::$name>);

        // SAFETY: The type is transparent over this `Layout`.
        unsafe impl<P: Provider> Parts for $name<P> {
            type C = bindings::$c;
            type View = $view;
            type Up = $up;
            type Data = P::$name;
        }

        // SAFETY: The C part is accessed only under the rules of the core, field by field; the
        // other parts are `Send`.
        unsafe impl<P: Provider> Send for $name<P> {}
        // SAFETY: As for `Send`, and the other parts are `Sync`.
        unsafe impl<P: Provider> Sync for $name<P> {}

        impl<P: Provider> $name<P> {
            /// # Safety
            ///
            /// `c` must point to a live object of a device of `P`: its create method has succeeded,
            /// and its destroy method does not within `'a`.
            #[inline]
            pub unsafe fn from_raw<'a>(c: *mut bindings::$c) -> &'a Self {
                // SAFETY: A live object with all parts (contract of this function); the C part is
                // at offset 0.
                unsafe { &*c.cast() }
            }

            /// # Safety
            ///
            /// `c` must be null or as for [`Self::from_raw`].
            #[inline]
            #[allow(dead_code)]
            pub(crate) unsafe fn from_raw_opt<'a>(c: *mut bindings::$c) -> Option<&'a Self> {
                // SAFETY: Null or a live object with all parts (contract of this function); the C
                // part is at offset 0.
                unsafe { c.cast::<Self>().as_ref() }
            }

            /// Returns the C structure, for code at the edge to C.
            #[inline]
            pub fn as_raw(&self) -> *mut bindings::$c {
                self.0.c.get()
            }

            /// Returns the fields of the C structure.
            #[inline(always)]
            fn c(&self) -> &$view {
                // SAFETY: The C part is a live object of the core (type invariant).
                unsafe { View::view(self.as_raw()) }
            }

            /// Returns the device.
            #[inline]
            pub fn device(&self) -> &Device<P> {
                // SAFETY: The object is of a device of `P` (type invariant), which outlives it.
                unsafe { Device::from_raw(self.c().dev().raw()) }
            }
        }

        impl<'a, P: Provider> New<'a, $name<P>> {
            /// Returns the C structure, for code at the edge to C.
            #[inline]
            pub fn as_raw(&self) -> *mut bindings::$c {
                self.c.as_ptr()
            }

            /// Returns the fields of the C structure.
            #[inline(always)]
            fn c(&self) -> &$view {
                // SAFETY: The C part is a live object of the core (type invariant).
                unsafe { View::view(self.as_raw()) }
            }

            /// Returns the device, also while the object is mutably borrowed.
            #[inline]
            pub fn device(&self) -> &'a Device<P> {
                // SAFETY: The object is of a device of `P`, which outlives `'a` (type invariant).
                unsafe { Device::from_raw(self.c().dev().raw()) }
            }
        }

        impl<P: Provider> Deref for $name<P> {
            type Target = P::$name;

            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.0.data
            }
        }
    )* };
}

object! {
    /// A user context: a process's, or an open file's, view of the device.
    UContext: ib_ucontext as uverbs::UContext, Upcall<bindings::ib_ucontext>;
    /// A protection domain.
    Pd: ib_pd as verbs::Pd, ();
    /// An address handle.
    Ah: ib_ah as verbs::Ah, ();
    /// A completion queue.
    Cq: ib_cq as verbs::Cq, Upcall<bindings::ib_cq>;
    /// A queue pair.
    Qp: ib_qp as verbs::Qp, Upcall<bindings::ib_qp>;
    /// A shared receive queue.
    Srq: ib_srq as verbs::Srq, Upcall<bindings::ib_srq>;
    /// A memory region.
    Mr: ib_mr as verbs::Mr, ();
    /// A memory window.
    Mw: ib_mw as verbs::Mw, ();
    /// An XRC domain (extended reliable connections).
    Xrcd: ib_xrcd as verbs::Xrcd, ();
}

/// Defines the same methods for an object and for the object under construction.
macro_rules! both {
    ($name:ident { $($body:tt)* }) => {
        impl<P: Provider> $name<P> { $($body)* }
        impl<P: Provider> New<'_, $name<P>> { $($body)* }
    };
}

impl<P: Provider> Pd<P> {
    /// # Safety
    ///
    /// The domain must be of a device of `P`.
    #[inline]
    unsafe fn of(pd: &verbs::Pd) -> &Self {
        // SAFETY: Views are of live, complete objects; the domain is of a device of `P` (contract
        // of this function).
        unsafe { Self::from_raw(pd.raw()) }
    }
}

both!(Ah {
    /// Returns the protection domain.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: An object and its domain are of one device, which is of `P` (type invariant).
        unsafe { Pd::of(self.c().pd()) }
    }
});

both!(Srq {
    /// Returns the protection domain.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: An object and its domain are of one device, which is of `P` (type invariant).
        unsafe { Pd::of(self.c().pd()) }
    }

    /// Returns whether it belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        !self.c().uobject().as_ptr().is_null()
    }
});

both!(Mr {
    /// Returns the protection domain. The core changes it only while no other verb runs on the
    /// region.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: An object and its domain are of one device, which is of `P` (type invariant).
        unsafe { Pd::of(self.c().pd()) }
    }

    /// Sets the keys of the region.
    #[inline]
    pub fn set_keys(&self, lkey: u32, rkey: u32) {
        self.c().set_lkey(lkey);
        self.c().set_rkey(rkey);
    }
});

impl<P: Provider> Mr<P> {
    /// Returns the local key.
    #[inline]
    pub fn lkey(&self) -> u32 {
        self.c().lkey()
    }

    /// Returns the remote key. The consumer changes its last byte for each fast registration.
    #[inline]
    pub fn rkey(&self) -> u32 {
        self.c().rkey()
    }

    /// Returns the address of the first byte, as set by the last mapping of pages.
    #[inline]
    pub fn iova(&self) -> u64 {
        self.c().iova()
    }

    /// Returns the length in bytes, as set by the last mapping of pages.
    #[inline]
    pub fn length(&self) -> u64 {
        self.c().length()
    }

    /// Returns the page size in bytes.
    #[inline]
    pub fn page_size(&self) -> u32 {
        self.c().page_size()
    }
}

both!(Mw {
    /// Returns the protection domain.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: An object and its domain are of one device, which is of `P` (type invariant).
        unsafe { Pd::of(self.c().pd()) }
    }

    /// Returns the remote key.
    #[inline]
    pub fn rkey(&self) -> u32 {
        self.c().rkey()
    }

    /// Sets the remote key.
    #[inline]
    pub fn set_rkey(&self, rkey: u32) {
        self.c().set_rkey(rkey);
    }

    /// Returns whether it is of type 2, bound by a queue pair; otherwise it is of type 1.
    #[inline]
    pub fn is_type_2(&self) -> bool {
        self.c().kind() == bindings::ib_mw_type_IB_MW_TYPE_2
    }
});

both!(Cq {
    /// Sets the actual number of entries.
    #[inline]
    pub fn set_entries(&self, entries: u32) {
        self.c().set_cqe(i32::try_from(entries).unwrap_or(i32::MAX));
    }

    /// Returns the number of entries.
    #[inline]
    pub fn entries(&self) -> u32 {
        u32::try_from(self.c().cqe()).unwrap_or(0)
    }

    /// Returns whether it belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        self.c().uobject().is_some()
    }
});

both!(Qp {
    /// Returns the protection domain; `None` for the receiving side of an XRC connection.
    #[inline]
    pub fn pd(&self) -> Option<&Pd<P>> {
        let pd = self.c().pd()?;
        // SAFETY: An object and its domain are of one device, which is of `P` (type invariant).
        Some(unsafe { Pd::of(pd) })
    }

    /// Returns the number of the queue pair.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.c().qp_num()
    }

    /// Returns the type, `IB_QPT_*`; see [`super::QpType`].
    #[inline]
    pub fn raw_type(&self) -> u32 {
        self.c().qp_type()
    }

    /// Returns whether it belongs to user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        self.c().uobject().is_some()
    }

    /// Returns the token that identifies the queue pair in completions of kernel consumers.
    #[inline]
    pub fn token(&self) -> QpToken {
        QpToken::new(self.as_raw())
    }
});

impl<P: Provider> New<'_, Qp<P>> {
    /// Sets the number of the queue pair.
    #[inline]
    pub fn set_qp_num(&mut self, number: u32) {
        // SAFETY: The object under construction is mutably borrowed, and the core reads the number
        // only when it is complete.
        unsafe { (*self.as_raw()).qp_num = number }
    }
}

/// Defines the method that returns an object's upcall handle.
macro_rules! upcalls {
    ($($name:ident: $up:ident;)*) => { $(
        impl<P: Provider> $name<P> {
            /// Returns a handle for upcalls, which may outlive the object.
            pub fn upcall(&self) -> $up {
                $up(self.0.up.clone())
            }
        }

        impl<P: Provider> New<'_, $name<P>> {
            /// Returns a handle for upcalls, which may outlive the object.
            pub fn upcall(&self) -> $up {
                $up(self.up().clone())
            }
        }
    )* };
}

upcalls! {
    Cq: CqUpcall;
    Qp: QpUpcall;
    Srq: SrqUpcall;
}

impl<P: Provider> UContext<P> {
    pub(crate) fn upcall(&self) -> &Upcall<bindings::ib_ucontext> {
        &self.0.up
    }
}

/// The argument of [`Provider::map_mr_sg`]: memory as a scatter list.
pub struct SgList<'a> {
    sg: *mut bindings::scatterlist,
    entries: i32,
    offset: *mut u32,
    _p: PhantomData<&'a mut bindings::scatterlist>,
}

impl SgList<'_> {
    /// # Safety
    ///
    /// The arguments must be those of a call of `map_mr_sg`.
    pub(crate) unsafe fn from_raw(
        sg: *mut bindings::scatterlist,
        entries: i32,
        offset: *mut u32,
    ) -> Self {
        Self {
            sg,
            entries,
            offset,
            _p: PhantomData,
        }
    }

    /// Splits the list into pages of [`Mr::page_size`] bytes, calls [`Provider::set_page`] for
    /// each, and sets [`Mr::iova`] and [`Mr::length`]. Stops at a gap or when the region is full.
    /// Returns the number of entries that fit. Does not sleep.
    pub fn to_pages<P: Provider>(self, mr: &Mr<P>) -> Result<u32> {
        /// # Safety
        ///
        /// `mr` must be a live region of a device of `P`.
        unsafe extern "C" fn set_page<P: Provider>(mr: *mut bindings::ib_mr, addr: u64) -> i32 {
            // SAFETY: `ib_sg_to_pages` passes the region with which it was called.
            from_result(|| P::set_page(unsafe { Mr::from_raw(mr) }, addr).map(|()| 0))
        }

        // SAFETY: The region is live, the list is an argument of the core's call (contract of
        // `from_raw`), and the callback has the type of the region.
        let n = unsafe {
            bindings::ib_sg_to_pages(
                mr.as_raw(),
                self.sg,
                self.entries,
                self.offset,
                Some(set_page::<P>),
            )
        };
        to_result(n)?;
        u32::try_from(n).map_err(|_| EINVAL)
    }
}
