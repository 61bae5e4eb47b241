// SPDX-License-Identifier: GPL-2.0

//! The C structures of a user's call and of its memory.
//!
//! Structures that other modules also use are in [`rdma::edge::uverbs`]. This file has those
//! private to the core's modules (`drivers/infiniband/core/uverbs.h`, `rdma_core.h`), and copies
//! between kernel and user memory.

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
use rdma::edge::Tied;
use rdma::edge::View;
use rdma::edge::Within;

/// Kernel bytes to be copied to a user.
///
/// # Invariants
///
/// `len` bytes at `from` are readable for `'a`. They may be padding.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    from: *const c_void,
    len: usize,
    _bytes: PhantomData<&'a ()>,
}

impl Source<'_> {
    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies the bytes, at most `room`, to a user address. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn copy_to(&self, to: UserAddr, room: usize) -> Result {
        // SAFETY: `self.len` bytes are readable: type invariant. `copy_to_user` checks the user
        // address.
        let failed = unsafe { bindings::copy_to_user(to.0, self.from, self.len.min(room)) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }
}

/// Tag of C arguments: the address of bytes to be copied to a user, which are readable, and their
/// number.
pub(super) enum Readable {}
/// Tag of C arguments: the address of a buffer for user input, which is writable, and its size.
pub(super) enum Writable {}
/// Address of bytes to be copied to a user.
pub(super) type SourceAt<'a> = Tied<'a, Readable, *const c_void>;
/// Address of a buffer for user input.
pub(super) type RoomAt<'a> = Tied<'a, Writable, Passed<c_void>>;
/// Number of bytes at a [`SourceAt`] or [`RoomAt`].
pub(super) type Len<'a, Of> = Tied<'a, Of, usize>;

impl<'a> Source<'a> {
    /// The bytes that are arguments of a call.
    pub(super) fn of_call(at: SourceAt<'a>, len: Len<'a, Readable>) -> Self {
        // INVARIANT: Both arguments have the same tag, so `len` bytes at `at` are readable.
        Self {
            from: at.get(),
            len: len.get(),
            _bytes: PhantomData,
        }
    }
}

impl<'a> Room<'a> {
    /// The buffer that is an argument of a call.
    pub(super) fn of_call(at: RoomAt<'a>, len: Len<'a, Writable>) -> Self {
        // INVARIANT: Both arguments have the same tag, so `len` bytes at `at` are writable.
        Self {
            to: at.get().into_c(),
            len: len.get(),
            _bytes: PhantomData,
        }
    }
}

rdma::import! { in rdma::bindings;
    /// Zeroes user memory, after checking the address. Returns the number of bytes not zeroed. May
    /// sleep.
    fn clear_user(to: UserAddr, len: usize) -> usize = rdma_helper_clear_user;
}

/// An address from a user. The functions that use it check it.
#[derive(Clone, Copy)]
pub(super) struct UserAddr(*mut c_void);

impl UserAddr {
    /// The address in a field of a call.
    pub(super) fn of(field: Passed<c_void>) -> Self {
        Self(field.into_c())
    }

    /// Zeroes a user buffer of `room` bytes except the first `skip`. May sleep.
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

/// Kernel buffer for user input.
///
/// # Invariants
///
/// `len` bytes at `to` are writable for `'a`.
pub(super) struct Room<'a> {
    to: *mut c_void,
    len: usize,
    _bytes: PhantomData<&'a mut ()>,
}

impl Room<'_> {
    /// Copies a structure of `len` bytes from a user. Missing bytes become zero. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `E2BIG` if the user's structure is longer and the extra bytes are not all zero.
    pub(super) fn copy_struct_from(self, from: rdma::edge::uverbs::UserPtr, len: usize) -> Result {
        // SAFETY: `self.len` bytes are writable: type invariant. The function checks the user
        // address.
        to_result(unsafe {
            bindings::rdma_helper_copy_struct_from_user(self.to, self.len, from.0, len)
        })
    }
}

/// An attribute of a call that is present: a number, or a buffer of the user.
///
/// # Invariants
///
/// It is an attribute of `of`, which is therefore a field of a `struct bundle_priv`.
pub(super) struct PtrAttr<'a> {
    /// The number, or the user address.
    pub(super) data: u64,
    /// Size in bytes.
    pub(super) len: u16,
    /// Index in the user's array of attributes.
    index: u16,
    of: &'a Bundle,
}

impl<'a> PtrAttr<'a> {
    /// Returns the attribute with this bit (`attrs::place`), if the user sent it.
    pub(super) fn of(bundle: &'a Bundle, bit: usize) -> Option<Self> {
        if !bundle.attr_present().has(bit) {
            return None;
        }
        // SAFETY: `ib_uverbs` has filled the attributes that are marked as present, and the array
        // has an element for each bit that can be set. It does not change while the method runs.
        unsafe {
            let attr = &raw const (*(*bundle.raw()).attrs.as_ptr().add(bit)).__bindgen_anon_1;
            let attr = &raw const (*attr).ptr_attr;
            // INVARIANT: The attribute is present.
            Some(Self {
                data: ptr::read((&raw const (*attr).__bindgen_anon_1.data).cast()),
                len: ptr::read(&raw const (*attr).len),
                index: ptr::read(&raw const (*attr).uattr_idx),
                of: bundle,
            })
        }
    }

    /// The number as a user address.
    pub(super) fn addr(&self) -> UserAddr {
        // CAST: A user address; checked where it is used.
        UserAddr(ptr::without_provenance_mut(self.data as usize))
    }

    /// Marks the attribute as valid output, in the user's memory. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(super) fn set_answered(&self) -> Result {
        let private = private_of(self.of);
        let index = usize::from(self.index);
        // CAST: The flag fits in 16 bits.
        let mark = bindings::UVERBS_ATTR_F_VALID_OUTPUT as u16;
        // SAFETY: The call has a private part (type invariant), whose `uattrs` has more elements
        // than `index`. `put_user` checks the user address.
        to_result(unsafe {
            let flags = (*(*private).uattrs.add(index)).flags | mark;
            let to = (*private).user_attrs.wrapping_add(index);
            bindings::rdma_helper_put_user_u16(flags, &raw mut (*to).flags)
        })
    }
}

/// Address of the private part of a call; valid only if the call has one.
fn private_of(bundle: &Bundle) -> *mut private::bundle_priv {
    bundle
        .raw()
        .wrapping_byte_sub(offset_of!(private::bundle_priv, bundle))
        .cast()
}

rdma::c_struct! {
    /// Private part of an `ioctl` call. C header: `struct bundle_priv` in `rdma_core.h`.
    pub(super) struct PrivateCall: private::bundle_priv;
    fields {
        /// Size of the internal buffer in bytes.
        cell internal_avail: usize;
        /// Bytes of the internal buffer that are in use.
        cell internal_used: usize, set_internal_used;
        /// Linked list of allocations that are freed when the call ends.
        cell allocated_mem: Passed<private::bundle_alloc_head>, set_allocated_mem;
        /// Completed objects, by attribute: if the call fails, they are destroyed through their
        /// types.
        cell made at uobj_hw_obj_valid: Present, set_made;
    }
}

// SAFETY: One thread handles a call; `Opaque` is not `Sync`.
unsafe impl OfCall for PrivateCall {}

/// A running `ioctl` call, from a pointer of type `P`. Some functions declare the part shared with
/// drivers `const`; the private part is mutable anyway.
pub(super) struct IoctlCall<'a, P>(pub(super) &'a PrivateCall, PhantomData<P>);

/// A pointer to a call.
pub(super) trait ToCall {
    /// Returns the pointer.
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

// SAFETY: `uverbs_ioctl.h`: such functions are called with the running call, which is an `ioctl`
// call and therefore a field of a `struct bundle_priv`.
unsafe impl<P: ToCall> FromC for IoctlCall<'_, P> {
    type C = P;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The pointer is to a running `ioctl` call: contract of this function.
        let call = unsafe { View::view(private_of(View::view(c.call()))) };
        Self(call, PhantomData)
    }
}

// SAFETY: The reference is limited to `'a`.
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
    /// Allocates `size` bytes from the internal buffer, and sets its used part to `next` bytes.
    /// Returns `None` if the buffer is too small.
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
        // SAFETY: The buffer has `internal_avail` bytes, and those from `used` to `end` are not in
        // use: the caller gets exclusive access.
        unsafe {
            let at = (&raw mut (*self.raw()).internal_buffer).byte_add(used);
            if bindings::rdma_helper_want_init_on_alloc(flags) {
                at.cast::<u8>().write_bytes(0, size);
            }
            Some(CallMemory(at.cast()))
        }
    }

    /// Allocates memory that `ib_uverbs` frees at the end of the call. May sleep as `flags` permit.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn allocate(&self, size: usize, flags: bindings::gfp_t) -> Result<CallMemory> {
        let header = size_of::<private::bundle_alloc_head>();
        let whole = size.checked_add(header).ok_or(ENOMEM)?;
        let before = self.allocated_mem().into_c();
        // SAFETY: Any size and flags are valid. The new memory is exclusive, has room for a head,
        // and becomes the first of the call's list.
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

/// A structure whose bytes may all have any value.
///
/// # Safety
///
/// Any bytes must be a valid value.
unsafe trait AnyBytes: Default {}
// SAFETY: A plain number.
unsafe impl AnyBytes for u64 {}
// SAFETY: All fields are numbers.
unsafe impl AnyBytes for bindings::ib_uverbs_buffer_desc {}

/// Copies the bytes of an attribute, and zeroes the rest of the value. May sleep.
fn copy<T: AnyBytes>(call: &Bundle, attr: usize) -> Result<T> {
    let mut value = T::default();
    let to = ptr::from_mut(&mut value).cast();
    // SAFETY: The call's attributes exist while it runs (`Bundle`). `to` has `size_of::<T>()`
    // bytes, which may have any value (`AnyBytes`).
    to_result(unsafe {
        bindings::rdma_helper_uverbs_copy_from(to, call.raw(), attr, size_of::<T>())
    })?;
    Ok(value)
}

/// Copies an attribute of up to eight bytes, and zeroes the rest of the number. May sleep.
///
/// # Errors
///
/// `ENOENT` without the attribute; `EINVAL` if it is longer; `EFAULT`.
pub(crate) fn copy_number(call: &Bundle, attr: usize) -> Result<u64> {
    copy(call, attr)
}

/// Copies the buffer descriptor in an attribute, unchecked. May sleep.
///
/// # Errors
///
/// Those of [`copy_number`].
pub(super) fn copy_descriptor(call: &Bundle, attr: u16) -> Result<bindings::ib_uverbs_buffer_desc> {
    copy(call, attr.into())
}

/// Clears the driver's part of a call, before the driver is called to undo something.
pub(super) fn clear_udata(call: ClearedCall<'_>) -> *mut bindings::ib_udata {
    let udata = call.0.driver_udata().raw();
    // SAFETY: Nobody else uses the call's attributes: `ClearedCall`.
    unsafe { udata.write(bindings::ib_udata::default()) };
    udata
}

/// A call whose attributes are not in use.
pub(super) struct ClearedCall<'a>(&'a Bundle);

rdma::argument! {
    /// `rdma_core.h`: `uverbs_get_cleared_udata` is called by the thread that handles the call.
    impl<'a> ClearedCall<'a> = |call: &'a Bundle| ClearedCall(call);
}
