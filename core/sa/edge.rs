// SPDX-License-Identifier: GPL-2.0

//! The C interface of subnet administration: records and arguments of exported functions.
//!
//! | file | what |
//! |---|---|
//! | `user` | clients (`struct ib_sa_client`) and their callbacks |
//! | this file | records and other arguments; objects published in statics |
//! | `datagram` | MADs of queries, and their address handle |
//! | `member` | multicast memberships as seen by their owners (`struct ib_sa_multicast`) |
//!
//! C headers: `include/rdma/ib_sa.h` and `include/rdma/ib_mad.h`.

pub(super) mod datagram;
pub(super) mod member;
pub(super) mod user;

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::error::Error;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::Within;
use rdma::sync::rcu;

rdma::import! { in rdma::bindings;
    /// Returns a random number. Any context.
    pub(super) fn random() -> u32 = get_random_u32;
}

/// A static reference to an object of the module, set while the object exists.
///
/// # Invariants
///
/// Null, or a pointer that owns a reference to an object. The reference is dropped a grace period
/// after the pointer was replaced.
pub(super) struct Published<T>(Atomic<*const T>);

impl<T: Send + Sync + 'static> Published<T> {
    /// No object.
    pub(super) const fn new() -> Self {
        // INVARIANT: Null.
        Self(Atomic::<*const T>::new(ptr::null()))
    }

    /// Replaces the object. May sleep.
    pub(super) fn set(&self, object: Option<Arc<T>>) {
        let new = object.map_or(ptr::null(), Arc::into_raw);
        let old = self.0.xchg(new, Full);
        if old.is_null() {
            return;
        }
        rcu::synchronize();
        // SAFETY: The pointer owned a reference (type invariant), which the exchange gives to one
        // caller only. Readers that loaded it have left their read sections.
        drop(unsafe { Arc::from_raw(old) });
    }

    /// Returns the object, if there is one. Any context.
    pub(super) fn get(&self) -> Option<Arc<T>> {
        let _rcu = rcu::read_lock();
        let object = self.0.load(Acquire);
        // SAFETY: The pointer's reference is not dropped before the read section ends (type
        // invariant).
        (!object.is_null()).then(|| unsafe { ArcBorrow::from_raw(object) }.into())
    }
}

/// A structure of plain numbers, arrays of numbers, and unions of such.
///
/// # Safety
///
/// Any initialised bytes must be a valid value, and the type must not own anything, so that a copy
/// is as good as the original.
pub(super) unsafe trait Plain {}

// SAFETY: The fields are numbers, arrays of numbers, and a union of such.
unsafe impl Plain for bindings::sa_path_rec {}
// SAFETY: All fields are numbers.
unsafe impl Plain for bindings::sa_path_rec_ib {}
// SAFETY: All fields are numbers.
unsafe impl Plain for bindings::sa_path_rec_opa {}
// SAFETY: The fields are numbers and arrays of numbers.
unsafe impl Plain for bindings::sa_service_rec {}
// SAFETY: The fields are numbers and an array of numbers.
unsafe impl Plain for bindings::ib_sa_guidinfo_rec {}
// SAFETY: The fields are numbers and unions of numbers.
unsafe impl Plain for bindings::ib_sa_mcmember_rec {}
// SAFETY: All fields are bytes.
unsafe impl Plain for Roce {}
// SAFETY: A union of plain structures: any bytes are valid until a member is read.
unsafe impl Plain for bindings::sa_path_rec__bindgen_ty_1 {}
// SAFETY: A union of arrays of numbers.
unsafe impl Plain for bindings::ib_gid {}
// SAFETY: An array of bytes.
unsafe impl Plain for [u8; 16] {}

/// A record that C lends for reading. Accessed only by [`read`](Self::read), after all checks that
/// do not need it.
pub(super) struct LentRecord<'a, T>(*const T, PhantomData<&'a T>);

impl<T: Plain> LentRecord<'_, T> {
    /// Copies the record. The caller of the export may write to its record as soon as its callback
    /// runs, which may be before the export returns.
    #[inline]
    pub(super) fn read(self) -> T {
        // SAFETY: The record is valid and initialised (contract of `from_c`); it may be copied
        // (`Plain`).
        unsafe { self.0.read() }
    }
}

// SAFETY: `from_c` is for an initialised record that nobody writes to before the callee starts the
// query or join that it is for.
unsafe impl<T> FromC for LentRecord<'_, T> {
    type C = *mut T;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a, T> Within<'a> for LentRecord<'a, T> {}

/// A packed record of `N` bytes that C lends for reading.
pub(super) struct Packed<'a, const N: usize>(pub(super) &'a [u8; N]);

// SAFETY: `from_c` is for `N` bytes that do not change during the call.
unsafe impl<const N: usize> FromC for Packed<'_, N> {
    type C = *mut c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The `N` bytes are valid (contract of `from_c`); bytes need no alignment.
        Self(unsafe { &*c.cast() })
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a, const N: usize> Within<'a> for Packed<'a, N> {}

/// A buffer for a packed record of `N` bytes.
pub(super) struct Room<'a, const N: usize>(pub(super) &'a mut [u8; N]);

// SAFETY: `from_c` is for `N` bytes that nobody else uses during the call.
unsafe impl<const N: usize> FromC for Room<'_, N> {
    type C = *mut c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The `N` bytes are valid and exclusive (contract of `from_c`); bytes need no
        // alignment.
        Self(unsafe { &mut *c.cast() })
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a, const N: usize> Within<'a> for Room<'a, N> {}

/// Id of a query; not negative.
pub(super) struct QueryId(pub(super) c_int);

impl AnswerOk for QueryId {
    type C = c_int;

    #[inline(always)]
    fn ok(self) -> c_int {
        self.0
    }

    #[inline(always)]
    fn error(error: Error) -> c_int {
        error.to_errno()
    }
}

/// Link fields of a RoCE path (`struct sa_path_rec_roce`), as bytes: C's `bool` may hold any byte,
/// since the union may have been written as another kind of path.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Roce {
    resolved: u8,
    dmac: [u8; 6],
}

const _: () = {
    type C = bindings::sa_path_rec_roce;
    assert!(size_of::<Roce>() == size_of::<C>());
    assert!(core::mem::offset_of!(C, route_resolved) == 0);
    assert!(core::mem::offset_of!(C, dmac) == 1);
};

impl Roce {
    /// Whether the route of the path has been resolved.
    pub(super) fn is_resolved(self) -> bool {
        self.resolved != 0
    }

    /// The destination MAC address.
    pub(super) fn dmac(self) -> [u8; 6] {
        self.dmac
    }

    /// Returns a copy with the route marked as resolved.
    pub(super) fn resolved(self) -> ManuallyDrop<bindings::sa_path_rec_roce> {
        ManuallyDrop::new(bindings::sa_path_rec_roce {
            route_resolved: true,
            dmac: self.dmac,
        })
    }
}

/// Reads a union of plain members as one of them, whichever member was written last.
#[inline]
pub(super) fn read_as<T: Plain, U: Plain>(union: &U) -> T {
    const { assert!(size_of::<T>() <= size_of::<U>() && align_of::<T>() <= align_of::<U>()) };
    // SAFETY: `U` has at least as many bytes as `T`, which C has initialised, and any bytes are a
    // valid `T` (`Plain`).
    unsafe { ptr::from_ref(union).cast::<T>().read() }
}
