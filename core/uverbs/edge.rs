// SPDX-License-Identifier: GPL-2.0

//! A user's call, its memory, and mappings, as C has them.
//!
//! Tables of structures that other modules use as well are in [`rdma::edge::uverbs`]; here are those
//! that only the core's modules know (`drivers/infiniband/core/uverbs.h`, `rdma_core.h`), and what
//! goes between the kernel's memory and the user's.

mod entries;

pub(super) use self::entries::*;

use crate::private;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::Present;
use rdma::edge::verbs::Bundle;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;

/// Bytes of the kernel's that go to a user.
///
/// # Invariants
///
/// For `'a`, there are `len` bytes at `from`. They may be padding.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    from: *const c_void,
    len: usize,
    _bytes: PhantomData<&'a ()>,
}

impl Source<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies the first bytes, as many as `room`, to a user's address. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn copy_to(&self, to: UserAddr, room: usize) -> Result {
        // SAFETY: There are as many bytes: type invariant. The user's address is checked.
        let failed = unsafe { bindings::copy_to_user(to.0, self.from, self.len.min(room)) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }
}

/// Where bytes are that go to a user. Only C makes one, for a call.
pub(super) struct SourceAt<'a>(*const c_void, PhantomData<&'a ()>);

/// Where memory is for what a user sent. Only C makes one, for a call.
pub(super) struct RoomAt<'a>(*mut c_void, PhantomData<&'a mut ()>);

/// How many bytes there are at a [`SourceAt`] or [`RoomAt`]. Only C makes one, for a call.
pub(super) struct Len<'a>(usize, PhantomData<&'a ()>);

rdma::argument! {
    /// There are as many bytes as the [`Len`] of the same call says.
    impl<'a> SourceAt<'a> = |bytes: *const c_void| SourceAt(bytes, PhantomData);
    /// As many bytes as the [`Len`] of the same call says may be written.
    impl<'a> RoomAt<'a> = |room: Passed<c_void>| RoomAt(room.into_c(), PhantomData);
    /// What [`SourceAt`] and [`RoomAt`] say of it.
    impl<'a> Len<'a> = |len: usize| Len(len, PhantomData);
}

impl<'a> SourceAt<'a> {
    /// The bytes; `len` is of the same call.
    pub(super) fn with(self, len: Len<'a>) -> Source<'a> {
        // INVARIANT: The contract of `from_c`.
        Source {
            from: self.0,
            len: len.0,
            _bytes: PhantomData,
        }
    }
}

impl<'a> RoomAt<'a> {
    /// The memory; `len` is of the same call.
    pub(super) fn with(self, len: Len<'a>) -> Room<'a> {
        // INVARIANT: The contract of `from_c`.
        Room {
            to: self.0,
            len: len.0,
            _bytes: PhantomData,
        }
    }
}

rdma::import! { in rdma::bindings;
    /// Writes zeros to a user, if the address is the user's; how many are left. May sleep.
    fn clear_user(to: UserAddr, len: usize) -> usize = rdma_helper_clear_user;
}

/// An address that a user gave. The functions that use it check it.
#[derive(Clone, Copy)]
pub(super) struct UserAddr(*mut c_void);

impl UserAddr {
    /// The address in a field of a call.
    pub(super) fn of(field: Passed<c_void>) -> Self {
        Self(field.into_c())
    }

    /// Writes zeros behind the first `skip` bytes of `room`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn clear_rest(self, skip: usize, room: usize) -> Result {
        let rest = room.saturating_sub(skip);
        if rest == 0 {
            return Ok(());
        }
        let failed = clear_user(Self(self.0.wrapping_byte_add(skip)), rest);
        (failed == 0).then_some(()).ok_or(EFAULT)
    }
}

impl IntoC<*mut c_void> for UserAddr {
    fn into_c(self) -> *mut c_void {
        self.0
    }
}

/// Memory of the kernel's for what a user sent.
///
/// # Invariants
///
/// For `'a`, `len` bytes at `to` may be written.
pub(super) struct Room<'a> {
    to: *mut c_void,
    len: usize,
    _bytes: PhantomData<&'a mut ()>,
}

impl Room<'_> {
    /// Copies a structure of `len` bytes from a user. What the user's structure lacks becomes
    /// zero. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `E2BIG` if the user's structure has more bytes that are not all zero.
    pub(super) fn copy_struct_from(self, from: rdma::edge::uverbs::UserPtr, len: usize) -> Result {
        // SAFETY: So many bytes may be written: type invariant. The user's address is checked.
        to_result(unsafe {
            bindings::rdma_helper_copy_struct_from_user(self.to, self.len, from.0, len)
        })
    }
}

/// An attribute of a call that is present: a number, or bytes of the user's.
///
/// # Invariants
///
/// It is an attribute of `of`, which therefore is a field of a `struct bundle_priv`.
pub(super) struct PtrAttr<'a> {
    /// The number, or the user's address.
    pub(super) data: u64,
    /// Bytes of it.
    pub(super) len: u16,
    /// Which of the user's attributes it is.
    index: u16,
    of: &'a Bundle,
}

impl<'a> PtrAttr<'a> {
    /// The attribute of a bit (`attrs::place`), if the user sent it.
    pub(super) fn of(bundle: &'a Bundle, bit: usize) -> Option<Self> {
        if !bundle.attr_present().has(bit) {
            return None;
        }
        // SAFETY: `ib_uverbs` has filled the attributes that are marked as present, and the array
        // has as many elements as marks may be set. It does not change while the method runs.
        unsafe {
            let attr = &raw const (*(*bundle.raw()).attrs.as_ptr().add(bit)).__bindgen_anon_1;
            let attr = &raw const (*attr).ptr_attr;
            // INVARIANT: It is present.
            Some(Self {
                data: ptr::read((&raw const (*attr).__bindgen_anon_1.data).cast()),
                len: ptr::read(&raw const (*attr).len),
                index: ptr::read(&raw const (*attr).uattr_idx),
                of: bundle,
            })
        }
    }

    /// The number as a user's address.
    pub(super) fn addr(&self) -> UserAddr {
        // CAST: A user's address, which is checked where it is used.
        UserAddr(ptr::without_provenance_mut(self.data as usize))
    }

    /// Marks the attribute as answered, in the user's memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn set_answered(&self) -> Result {
        let private = private_of(self.of);
        let index = usize::from(self.index);
        // CAST: a small flag.
        let mark = bindings::UVERBS_ATTR_F_VALID_OUTPUT as u16;
        // SAFETY: The call has a private part (type invariant) with as many attributes as the
        // index counts. The user's address is checked.
        to_result(unsafe {
            let flags = (*(*private).uattrs.add(index)).flags | mark;
            let to = (*private).user_attrs.wrapping_add(index);
            bindings::rdma_helper_put_user_u16(flags, &raw mut (*to).flags)
        })
    }
}

/// Where the private part of a call is, if it has one.
fn private_of(bundle: &Bundle) -> *mut private::bundle_priv {
    bundle
        .raw()
        .wrapping_byte_sub(offset_of!(private::bundle_priv, bundle))
        .cast()
}

rdma::c_struct! {
    /// What `ib_uverbs` keeps of a call by `ioctl`. To be held against `struct bundle_priv` in
    /// `rdma_core.h`.
    pub(super) struct PrivateCall: private::bundle_priv;
    fields {
        /// Bytes of the internal buffer, all of them.
        cell internal_avail: usize;
        /// Bytes of it that are given away.
        cell internal_used: usize, set_internal_used;
        /// Memory to be freed when the call ends, a chain.
        cell allocated_mem: Passed<private::bundle_alloc_head>, set_allocated_mem;
        /// Objects that are made, by attribute: an abort has them destroyed by their type.
        cell made at uobj_hw_obj_valid: Present, set_made;
    }
}

// SAFETY: One thread handles a call; `Opaque` is not `Sync`.
unsafe impl OfCall for PrivateCall {}

/// A call by `ioctl` that runs, at a `P`. C declares the part that is shared with drivers `const` to
/// some functions, not the rest.
pub(super) struct IoctlCall<'a, P>(pub(super) &'a PrivateCall, PhantomData<P>);

/// A pointer to a call.
pub(super) trait ToCall {
    /// The call.
    fn call(self) -> *mut bindings::uverbs_attr_bundle;
}

impl ToCall for *mut bindings::uverbs_attr_bundle {
    fn call(self) -> *mut bindings::uverbs_attr_bundle {
        self
    }
}

impl ToCall for *const bindings::uverbs_attr_bundle {
    fn call(self) -> *mut bindings::uverbs_attr_bundle {
        self.cast_mut()
    }
}

// SAFETY: `uverbs_ioctl.h`: such functions get the call that runs, which came by `ioctl` and
// therefore is a field of a `struct bundle_priv`.
unsafe impl<P: ToCall> FromC for IoctlCall<'_, P> {
    type C = P;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A call by `ioctl`: contract of this function.
        let call = unsafe { View::view(private_of(View::view(c.call()))) };
        Self(call, PhantomData)
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a, P: ToCall> Within<'a> for IoctlCall<'a, P> {}

/// Memory that is freed when its call ends.
pub(super) struct CallMemory(*mut c_void);

impl AnswerOk for CallMemory {
    type C = *mut c_void;

    fn ok(self) -> Self::C {
        self.0
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

impl PrivateCall {
    /// Takes the bytes from `used` on of the internal buffer, and lets others begin at `next`;
    /// none if it has not so many left.
    pub(super) fn take(
        &self,
        size: usize,
        flags: bindings::gfp_t,
        next: usize,
    ) -> Option<CallMemory> {
        let used = self.internal_used();
        let end = used.checked_add(size)?;
        if end > self.internal_avail() || next < end {
            return None;
        }
        self.set_internal_used(next);
        // SAFETY: The buffer has `internal_avail` bytes, and those from `used` to `end` are not
        // given away yet: they are the call's own.
        unsafe {
            let at = (&raw mut (*self.raw()).internal_buffer).byte_add(used);
            if bindings::rdma_helper_want_init_on_alloc(flags) {
                at.cast::<u8>().write_bytes(0, size);
            }
            Some(CallMemory(at.cast()))
        }
    }

    /// Allocates memory, which `ib_uverbs` frees at the end of the call. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn allocate(&self, size: usize, flags: bindings::gfp_t) -> Result<CallMemory> {
        let header = size_of::<private::bundle_alloc_head>();
        let whole = size.checked_add(header).ok_or(ENOMEM)?;
        let before = self.allocated_mem().into_c();
        // SAFETY: Any size and flags are fine. The memory begins with a head, is nobody else's, and
        // becomes the first of the call's chain.
        unsafe {
            let made = bindings::rdma_helper_kvmalloc(whole, flags);
            let head: NonNull<private::bundle_alloc_head> =
                NonNull::new(made.cast()).ok_or(ENOMEM)?;
            (*head.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next = before;
            self.set_allocated_mem(Passed::from_c(head.as_ptr()));
            Ok(CallMemory(made.wrapping_byte_add(header)))
        }
    }
}

/// A structure of which all bytes may have any value.
///
/// # Safety
///
/// That is so.
unsafe trait AnyBytes: Default {}
// SAFETY: A number.
unsafe impl AnyBytes for u64 {}
// SAFETY: Numbers.
unsafe impl AnyBytes for bindings::ib_uverbs_buffer_desc {}

/// The bytes of an attribute, or fewer and zeros. May sleep.
fn copy<T: AnyBytes>(call: &Bundle, attr: usize) -> Result<T> {
    let mut value = T::default();
    let to = ptr::from_mut(&mut value).cast();
    // SAFETY: The call's attributes exist while it runs (`Bundle`); there is room for so many bytes,
    // which may have any value.
    to_result(unsafe {
        bindings::rdma_helper_uverbs_copy_from(to, call.raw(), attr, size_of::<T>())
    })?;
    Ok(value)
}

/// The eight bytes of an attribute, or fewer and zeros. May sleep.
///
/// # Errors
///
/// `ENOENT` without the attribute, `EINVAL` if it has more bytes, `EFAULT`.
pub(crate) fn copy_number(call: &Bundle, attr: usize) -> Result<u64> {
    copy(call, attr)
}

/// The descriptor of memory in an attribute, as the user sent it. May sleep.
///
/// # Errors
///
/// Those of [`copy_number`].
pub(super) fn copy_descriptor(call: &Bundle, attr: u16) -> Result<bindings::ib_uverbs_buffer_desc> {
    copy(call, attr.into())
}

/// Empties the driver's part of a call, for what the driver is asked to undo.
pub(super) fn clear_udata(call: ClearedCall<'_>) -> *mut bindings::ib_udata {
    let udata = call.0.driver_udata().raw();
    // SAFETY: Nobody else uses the call's attributes: `ClearedCall`.
    unsafe { udata.write(bindings::ib_udata::default()) };
    udata
}

/// A call whose attributes nobody else uses.
pub(super) struct ClearedCall<'a>(&'a Bundle);

rdma::argument! {
    /// `rdma_core.h`: `uverbs_get_cleared_udata` is called by the thread that handles the call.
    impl<'a> ClearedCall<'a> = |call: &'a Bundle| ClearedCall(call);
}
