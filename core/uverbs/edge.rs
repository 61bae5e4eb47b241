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
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::Present;
use rdma::edge::verbs::Bundle;
use rdma::edge::Answer;
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
        let to = self.0.wrapping_byte_add(skip);
        // SAFETY: The user's address is checked.
        let failed = unsafe { bindings::rdma_helper_clear_user(to, rest) };
        (failed == 0).then_some(()).ok_or(EFAULT)
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

/// A call by `ioctl` that runs.
pub(super) struct IoctlCall<'a>(pub(super) &'a PrivateCall);

// SAFETY: `uverbs_ioctl.h`: such functions get the call that runs, which came by `ioctl` and
// therefore is a field of a `struct bundle_priv`.
unsafe impl FromC for IoctlCall<'_> {
    type C = *mut bindings::uverbs_attr_bundle;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A call by `ioctl`: contract of this function.
        Self(unsafe { View::view(private_of(View::view(c))) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for IoctlCall<'a> {}

/// As [`IoctlCall`], declared `const`.
pub(super) struct ConstIoctlCall<'a>(pub(super) IoctlCall<'a>);

// SAFETY: See `IoctlCall`; C declares the part that is shared with drivers `const`, not the rest.
unsafe impl FromC for ConstIoctlCall<'_> {
    type C = *const bindings::uverbs_attr_bundle;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: See `IoctlCall`.
        Self(unsafe { IoctlCall::from_c(c.cast_mut()) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for ConstIoctlCall<'a> {}

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
        // given away yet.
        let at = unsafe { (&raw mut (*self.raw()).internal_buffer).byte_add(used) };
        // SAFETY: The bytes are the call's own; the helper has no requirements.
        unsafe {
            if bindings::rdma_helper_want_init_on_alloc(flags) {
                at.cast::<u8>().write_bytes(0, size);
            }
        }
        Some(CallMemory(at.cast()))
    }

    /// Allocates memory, which `ib_uverbs` frees at the end of the call. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn allocate(&self, size: usize, flags: bindings::gfp_t) -> Result<CallMemory> {
        let header = size_of::<private::bundle_alloc_head>();
        let whole = size.checked_add(header).ok_or(ENOMEM)?;
        // SAFETY: No preconditions.
        let made = unsafe { bindings::rdma_helper_kvmalloc(whole, flags) };
        let head: NonNull<private::bundle_alloc_head> = NonNull::new(made.cast()).ok_or(ENOMEM)?;
        let before = self.allocated_mem().into_c();
        // SAFETY: The memory begins with a head, and is nobody else's.
        unsafe { (*head.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next = before };
        // SAFETY: The pointer is not followed here.
        self.set_allocated_mem(unsafe { Passed::from_c(head.as_ptr()) });
        Ok(CallMemory(made.wrapping_byte_add(header)))
    }
}

/// A number that is taken if the user sent none; null in C, if the attribute is required.
pub(super) struct Fallback<T>(pub(super) Option<T>);

// SAFETY: It is read at once.
unsafe impl<T: Copy> FromC for Fallback<T> {
    type C = *mut T;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Null or a number of the caller's: contract of this function.
        Self(NonNull::new(c).map(|c| unsafe { c.read() }))
    }
}

// SAFETY: The value is a copy.
unsafe impl<T: Copy> Within<'_> for Fallback<T> {}

/// The eight bytes of an attribute, or fewer and zeros. May sleep.
///
/// # Errors
///
/// `ENOENT` without the attribute, `EINVAL` if it has more bytes, `EFAULT`.
pub(crate) fn copy_number(call: &Bundle, attr: usize) -> Result<u64> {
    let mut value = 0_u64;
    let to = ptr::from_mut(&mut value).cast();
    // SAFETY: The call's attributes exist while it runs (`Bundle`); there is room for eight bytes.
    to_result(unsafe { bindings::rdma_helper_uverbs_copy_from(to, call.raw(), attr, 8) })?;
    Ok(value)
}

/// The descriptor of memory in an attribute, as the user sent it. May sleep.
///
/// # Errors
///
/// Those of [`copy_number`].
pub(super) fn copy_descriptor(call: &Bundle, attr: u16) -> Result<bindings::ib_uverbs_buffer_desc> {
    let mut desc = bindings::ib_uverbs_buffer_desc::default();
    let (to, size) = (ptr::from_mut(&mut desc).cast(), size_of_val(&desc));
    // SAFETY: The call's attributes exist while it runs (`Bundle`); there is room for a descriptor, of
    // which every value is valid.
    to_result(unsafe {
        bindings::rdma_helper_uverbs_copy_from(to, call.raw(), attr.into(), size)
    })?;
    Ok(desc)
}

/// See [`super::attrs::copy_to`].
///
/// # Safety
///
/// The call runs; `from` has `size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_copy_to(
    bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: Contract of this function. INVARIANT (of `Source`): likewise.
    let (bundle, source) = unsafe { (Bundle::view(bundle.cast_mut()), source(from, size)) };
    super::attrs::copy_to(bundle, idx, source).answer()
}

/// See [`super::attrs::copy_to_or_zero`].
///
/// # Safety
///
/// The call runs; `from` has `size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_copy_to_struct_or_zero(
    bundle: *const bindings::uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: Contract of this function. INVARIANT (of `Source`): likewise.
    let (bundle, source) = unsafe { (Bundle::view(bundle.cast_mut()), source(from, size)) };
    super::attrs::copy_to_or_zero(bundle, idx, source).answer()
}

/// See [`super::udata::copy_in`].
///
/// # Safety
///
/// `udata` is the driver's part of a call that runs; `req` has room for `kernel_size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn _ib_copy_validate_udata_in(
    udata: *mut bindings::ib_udata,
    req: *mut c_void,
    kernel_size: usize,
    minimum_size: usize,
) -> c_int {
    // INVARIANT: Contract of this function.
    let room = Room {
        to: req,
        len: kernel_size,
        _bytes: PhantomData,
    };
    // SAFETY: The call runs: contract of this function.
    super::udata::copy_in(unsafe { View::view(udata) }, room, minimum_size).answer()
}

/// See [`super::udata::respond`].
///
/// # Safety
///
/// `udata` is the driver's part of a call that runs; `src` has `len` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn _ib_respond_udata(
    udata: *mut bindings::ib_udata,
    src: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: The call runs: contract of this function. INVARIANT (of `Source`): likewise.
    let (udata, source) = unsafe { (View::view(udata), source(src, len)) };
    super::udata::respond(udata, source).answer()
}

/// # Safety
///
/// For `'a`, there are `len` bytes at `from`.
unsafe fn source<'a>(from: *const c_void, len: usize) -> Source<'a> {
    // INVARIANT: Contract of this function.
    Source {
        from,
        len,
        _bytes: PhantomData,
    }
}

rdma::exported!(
    _ib_copy_validate_udata_in,
    _ib_respond_udata,
    uverbs_copy_to,
    uverbs_copy_to_struct_or_zero,
);

/// Empties the driver's part of a call, for what the driver is asked to undo.
pub(super) fn clear_udata(call: ClearedCall<'_>) -> *mut bindings::ib_udata {
    let udata = call.0.driver_udata().raw();
    // SAFETY: Nobody else uses the call's attributes: `ClearedCall`.
    unsafe { udata.write(bindings::ib_udata::default()) };
    udata
}

/// A call whose attributes nobody else uses.
pub(super) struct ClearedCall<'a>(&'a Bundle);

// SAFETY: `rdma_core.h`: `uverbs_get_cleared_udata` is called by the thread that handles the call.
unsafe impl FromC for ClearedCall<'_> {
    type C = *mut bindings::uverbs_attr_bundle;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A call that runs: contract of this function.
        Self(unsafe { View::view(c) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for ClearedCall<'a> {}
