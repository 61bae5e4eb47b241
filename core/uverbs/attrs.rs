// SPDX-License-Identifier: GPL-2.0

//! The attributes of a call by `ioctl`, and memory that lives as long as the call.
//!
//! `ib_uverbs` has checked an attribute's kind and length against the method's description
//! before a handler runs. Up to eight bytes are in the attribute itself; of more there is the
//! user's address.

use crate::private;
use crate::private::bundle_priv;
use bindings::uverbs_attr_bundle;
use core::mem::offset_of;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

/// The attributes of a call that runs.
///
/// # Invariants
///
/// `0` is the part of a `struct bundle_priv`, unless none of its attributes is present.
#[derive(Clone, Copy)]
struct Call(*const uverbs_attr_bundle);

/// An attribute that is a number, or bytes of the user's.
struct Bytes {
    /// The number, or the user's address.
    data: u64,
    /// How many bytes.
    len: u16,
    /// Which of the user's attributes it is.
    index: u16,
}

impl Call {
    /// # Safety
    ///
    /// As long as the value is used, the call runs, and `attrs` fulfils the type invariant.
    unsafe fn from_raw(attrs: *const uverbs_attr_bundle) -> Self {
        // INVARIANT: By this function's duty.
        Self(attrs)
    }

    /// What `ib_uverbs` keeps of the call.
    fn private(self) -> *mut bundle_priv {
        // CAST: by the type invariant the attributes are that field's, at its end.
        self.0
            .wrapping_byte_sub(offset_of!(bundle_priv, bundle))
            .cast_mut()
            .cast()
    }

    /// An attribute; `ENOENT` if the user sent none.
    fn bytes(self, attr: usize) -> Result<Bytes> {
        let place = place(attr).ok_or(ENOENT)?;
        // SAFETY: By the type invariant; the array has as many attributes as bits are set, and
        // one that is present is filled in.
        unsafe {
            let hdr = &(*self.0).__bindgen_anon_1.__bindgen_anon_1;
            let [present] = hdr.attr_present;
            if present & (1 << place) == 0 {
                return Err(ENOENT);
            }
            let bytes = &(*(*self.0).attrs.as_ptr().add(place))
                .__bindgen_anon_1
                .ptr_attr;
            Ok(Bytes {
                data: *bytes.__bindgen_anon_1.data,
                len: bytes.len,
                index: bytes.uattr_idx,
            })
        }
    }

    /// A number; `default` if the user sent none.
    fn number(self, attr: usize, default: Option<u64>) -> Result<u64> {
        match (self.bytes(attr), default) {
            (Ok(bytes), _) => Ok(bytes.data),
            (Err(e), Some(default)) if e == ENOENT => Ok(default),
            (Err(e), _) => Err(e),
        }
    }

    /// Flags, all of which must be among `allowed`; none if the user sent none. Old libraries
    /// send four bytes, newer ones eight.
    fn flags(self, attr: usize, allowed: u64) -> Result<u64> {
        let Ok(bytes) = self.bytes(attr) else {
            return Ok(0);
        };
        let flags = match bytes.len {
            8 => bytes.data,
            4 => {
                // The first bytes of the field, in whichever order.
                let [a, b, c, d, ..] = bytes.data.to_ne_bytes();
                u32::from_ne_bytes([a, b, c, d]).into()
            }
            _ => return Err(EINVAL),
        };
        if flags & !allowed != 0 {
            return Err(EINVAL);
        }
        Ok(flags)
    }

    /// Copies to the user's bytes, or as much as they are, and tells the user that there is
    /// something. With `fill`, the rest of the user's bytes becomes zero.
    ///
    /// # Safety
    ///
    /// `from` has `size` bytes.
    unsafe fn answer(self, attr: usize, from: *const c_void, size: usize, fill: bool) -> Result {
        let bytes = self.bytes(attr)?;
        // CAST: a user's address, which is checked.
        let to = bytes.data as usize as *mut c_void;
        let room = usize::from(bytes.len);
        let copied = room.min(size);
        // OVERFLOW: not more is copied than there is room.
        let rest = room - copied;
        // SAFETY: By this function's duty; the user's addresses are checked.
        unsafe {
            if fill
                && rest != 0
                && bindings::rdma_helper_clear_user(to.wrapping_byte_add(copied), rest) != 0
            {
                return Err(EFAULT);
            }
            if bindings::copy_to_user(to, from, copied) != 0 {
                return Err(EFAULT);
            }
        }
        self.answered(bytes.index)
    }

    /// Marks one of the user's attributes as answered, in the user's memory.
    fn answered(self, index: u16) -> Result {
        let private = self.private();
        let index = usize::from(index);
        // CAST: a small flag.
        let mark = bindings::UVERBS_ATTR_F_VALID_OUTPUT as u16;
        // SAFETY: An attribute is present, so by the type invariant there is the rest; the
        // index is that of one of the call's attributes. The user's address is checked.
        let failed = unsafe {
            let flags = (*(*private).uattrs.add(index)).flags | mark;
            let to = (*private).user_attrs.wrapping_add(index);
            bindings::rdma_helper_put_user_u16(flags, &raw mut (*to).flags)
        };
        kernel::error::to_result(failed)
    }
}

/// Where an attribute is among those of a call, if there can be such a one: those of the core
/// and of the driver take turns. `rdma_helper_uverbs_attr_bit` sees to it at compile time that
/// the kernel's header has it so.
#[inline]
fn place(attr: usize) -> Option<usize> {
    const DRIVERS: usize = bindings::uapi_radix_data_UVERBS_API_NS_FLAG as usize;
    const MOST: usize = bindings::uapi_radix_data_UVERBS_API_ATTR_BKEY_LEN as usize;
    // OVERFLOW: of sixteen bits, since no longer identifiers come so far.
    let number = attr & 0xffff & !DRIVERS;
    let place = match attr & DRIVERS {
        0 => 2 * number,
        _ => 2 * number + 1,
    };
    (place < MOST).then_some(place)
}

/// Memory of `size` bytes that is freed when the call ends; an error pointer, `-EOVERFLOW` or
/// `-ENOMEM`. May sleep if `flags` allow it.
///
/// # Safety
///
/// The call has come by `ioctl` and runs; nobody else uses its attributes.
#[no_mangle]
pub(crate) unsafe extern "C" fn _uverbs_alloc(
    bundle: *mut uverbs_attr_bundle,
    size: usize,
    flags: bindings::gfp_t,
) -> *mut c_void {
    // SAFETY: By this function's duty.
    let private = unsafe { &mut *Call::from_raw(bundle).private() };
    let align = size_of::<u64>();
    // The end of what is used, and that rounded up for who comes next.
    let end = size.checked_add(private.internal_used);
    let next = end.and_then(|end| end.checked_next_multiple_of(align));
    let (Some(end), Some(next)) = (end, next) else {
        return EOVERFLOW.to_ptr();
    };
    if end <= private.internal_avail {
        let at: *mut c_void = (&raw mut private.internal_buffer)
            .cast::<c_void>()
            .wrapping_byte_add(private.internal_used);
        private.internal_used = next;
        // SAFETY: The bytes are the call's own, and not given away yet.
        unsafe {
            if bindings::rdma_helper_want_init_on_alloc(flags) {
                at.cast::<u8>().write_bytes(0, size);
            }
        }
        return at;
    }
    let header = size_of::<private::bundle_alloc_head>();
    let Some(whole) = size.checked_add(header) else {
        return ENOMEM.to_ptr();
    };
    // SAFETY: No preconditions.
    let made = unsafe { bindings::rdma_helper_kvmalloc(whole, flags) };
    if made.is_null() {
        return ENOMEM.to_ptr();
    }
    let head: *mut private::bundle_alloc_head = made.cast();
    // SAFETY: The memory begins with a head. `ib_uverbs` goes through the list at the end.
    unsafe { (*head).__bindgen_anon_1.__bindgen_anon_1.next = private.allocated_mem };
    private.allocated_mem = head;
    made.wrapping_byte_add(header)
}

/// Marks the object that the attribute `idx` makes as made: an abort will have it destroyed by
/// its type. Any context.
///
/// # Safety
///
/// The call has come by `ioctl` and runs; it has the attribute.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_finalize_uobj_create(
    bundle: *const uverbs_attr_bundle,
    idx: u16,
) {
    // SAFETY: By this function's duty; the helper reckons only.
    let (private, bit) = unsafe {
        let private = Call::from_raw(bundle).private();
        (&mut *private, bindings::rdma_helper_uverbs_attr_bit(idx))
    };
    let word = (bit / c_ulong::BITS) as usize;
    if let Some(word) = private.uobj_hw_obj_valid.get_mut(word) {
        *word |= 1 << (bit % c_ulong::BITS);
    }
}

/// Copies an answer to the user's bytes of an attribute, or as much as they are. 0, `-ENOENT`
/// without the attribute, `-EFAULT`. May sleep.
///
/// # Safety
///
/// The call runs; `from` has `size` bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_copy_to(
    bundle: *const uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        Call::from_raw(bundle)
            .answer(idx, from, size, false)
            .map(|()| 0)
    })
}

/// As [`uverbs_copy_to`]; the rest of the user's bytes becomes zero.
///
/// # Safety
///
/// That of [`uverbs_copy_to`].
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_copy_to_struct_or_zero(
    bundle: *const uverbs_attr_bundle,
    idx: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        Call::from_raw(bundle)
            .answer(idx, from, size, true)
            .map(|()| 0)
    })
}

/// A number of an attribute that is not above `upper_bound`; `def_val`, if not null, without
/// the attribute. 0, `-ENOENT`, `-EINVAL`. Any context.
///
/// # Safety
///
/// The call runs; `to` is ours to fill in, `def_val` null or readable.
#[no_mangle]
pub(crate) unsafe extern "C" fn _uverbs_get_const_unsigned(
    to: *mut u64,
    attrs_bundle: *const uverbs_attr_bundle,
    idx: usize,
    upper_bound: u64,
    def_val: *mut u64,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        let value = Call::from_raw(attrs_bundle).number(idx, def_val.as_ref().copied())?;
        // Callers use it whatever we return.
        *to = value;
        if value > upper_bound {
            return Err(EINVAL);
        }
        Ok(0)
    })
}

/// As [`_uverbs_get_const_unsigned`], for a number that may be negative and is not below
/// `lower_bound`. Any context.
///
/// # Safety
///
/// The call runs; `to` is ours to fill in, `def_val` null or readable.
#[no_mangle]
pub(crate) unsafe extern "C" fn _uverbs_get_const_signed(
    to: *mut i64,
    attrs_bundle: *const uverbs_attr_bundle,
    idx: usize,
    lower_bound: i64,
    upper_bound: u64,
    def_val: *mut i64,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        // CAST: the same bits.
        let default = def_val.as_ref().map(|&value| value as u64);
        let value = Call::from_raw(attrs_bundle).number(idx, default)? as i64;
        *to = value;
        if value < lower_bound || u64::try_from(value).is_ok_and(|value| value > upper_bound) {
            return Err(EINVAL);
        }
        Ok(0)
    })
}

/// Flags of an attribute, all among `allowed_bits`; none without the attribute. 0 or `-EINVAL`.
/// Any context.
///
/// # Safety
///
/// The call runs; `to` is ours to fill in.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_get_flags64(
    to: *mut u64,
    attrs_bundle: *const uverbs_attr_bundle,
    idx: usize,
    allowed_bits: u64,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        *to = Call::from_raw(attrs_bundle).flags(idx, allowed_bits)?;
        Ok(0)
    })
}

/// As [`uverbs_get_flags64`], of 32 bits.
///
/// # Safety
///
/// That of [`uverbs_get_flags64`].
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_get_flags32(
    to: *mut u32,
    attrs_bundle: *const uverbs_attr_bundle,
    idx: usize,
    allowed_bits: u64,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        let flags = Call::from_raw(attrs_bundle).flags(idx, allowed_bits)?;
        *to = u32::try_from(flags).map_err(|_| EINVAL)?;
        Ok(0)
    })
}

/// The descriptor of memory in an attribute. 0, `-ENOENT` without the attribute, `-EINVAL` for
/// flags that we do not know and would have to, `-EFAULT`. May sleep.
///
/// # Safety
///
/// The call runs; `desc` is ours to fill in.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_get_buffer_desc(
    attrs_bundle: *const uverbs_attr_bundle,
    attr_id: u16,
    desc: *mut bindings::ib_uverbs_buffer_desc,
) -> c_int {
    let size = size_of::<bindings::ib_uverbs_buffer_desc>();
    // SAFETY: By this function's duty.
    unsafe {
        let got =
            bindings::rdma_helper_uverbs_copy_from(desc.cast(), attrs_bundle, attr_id.into(), size);
        if got != 0 {
            return got;
        }
        // We know no flags of either sort (`IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK`).
        if (*desc).flags != 0 {
            return EINVAL.to_errno();
        }
        (*desc).optional_flags = 0;
    }
    0
}

rdma::exported!(
    _uverbs_alloc,
    _uverbs_get_const_signed,
    _uverbs_get_const_unsigned,
    uverbs_copy_to,
    uverbs_copy_to_struct_or_zero,
    uverbs_finalize_uobj_create,
    uverbs_get_buffer_desc,
    uverbs_get_flags32,
    uverbs_get_flags64,
);
