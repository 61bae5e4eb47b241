// SPDX-License-Identifier: GPL-2.0

//! Attributes of `ioctl` calls, and memory that is freed when the call ends.
//!
//! Before a handler runs, `ib_uverbs` has checked the kind and length of each attribute against the
//! method's description. An attribute of up to eight bytes holds its value; a longer one holds a
//! user address.

pub(crate) use super::edge::copy_number;

use super::edge::CallMemory;
use super::edge::IoctlCall;
use super::edge::Len;
use super::edge::PtrAttr;
use super::edge::Readable;
use super::edge::Source;
use super::edge::SourceAt;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::uverbs_attr_bundle;
use rdma::edge::verbs::Bundle;
use rdma::edge::In;
use rdma::edge::Lent;
use rdma::edge::OutParam;

/// Returns an attribute.
///
/// # Errors
///
/// `ENOENT` if the user did not send it.
fn attr(call: &Bundle, attr: usize) -> Result<PtrAttr<'_>> {
    place(attr)
        .and_then(|place| PtrAttr::of(call, place))
        .ok_or(ENOENT)
}

/// Returns whether the user sent an attribute.
pub(crate) fn has(call: &Bundle, index: usize) -> bool {
    attr(call, index).is_ok()
}

/// Copies the buffer descriptor in an attribute. May sleep.
///
/// # Errors
///
/// `ENOENT` without the attribute; `EINVAL` if any mandatory flag is set, since none is defined
/// (`IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK`); `EFAULT`.
pub(crate) fn buffer(call: &Bundle, index: u16) -> Result<bindings::ib_uverbs_buffer_desc> {
    let mut desc = super::edge::copy_descriptor(call, index)?;
    if desc.flags != 0 {
        return Err(EINVAL);
    }
    // No optional flag is defined either.
    desc.optional_flags = 0;
    Ok(desc)
}

/// Like [`buffer`], with an output parameter for C.
///
/// # Errors
///
/// Those of [`buffer`].
fn get_buffer(
    call: In<'_, Bundle>,
    index: u16,
    mut to: OutParam<'_, bindings::ib_uverbs_buffer_desc>,
) -> Result {
    to.set(buffer(&call, index)?);
    Ok(())
}

/// Returns the number in an attribute; `default` if the user did not send it.
///
/// # Errors
///
/// `ENOENT` without attribute and default.
pub(crate) fn number(call: &Bundle, index: usize, default: Option<u64>) -> Result<u64> {
    match attr(call, index) {
        Ok(attr) => Ok(attr.data),
        Err(error) => default.ok_or(error),
    }
}

/// Returns flags, all of which must be in `allowed`; 0 if the user did not send them. Old libraries
/// send four bytes, newer ones eight.
///
/// # Errors
///
/// `EINVAL` for another flag or another length.
fn flags(call: &Bundle, index: usize, allowed: u64) -> Result<u64> {
    let Ok(attr) = attr(call, index) else {
        return Ok(0);
    };
    let flags = match attr.len {
        8 => attr.data,
        4 => {
            // The first four bytes of the field, on either endianness.
            let [a, b, c, d, ..] = attr.data.to_ne_bytes();
            u32::from_ne_bytes([a, b, c, d]).into()
        }
        _ => return Err(EINVAL),
    };
    if flags & !allowed != 0 {
        return Err(EINVAL);
    }
    Ok(flags)
}

/// Returns the bit of an attribute in a call's bitmaps; `None` if the number is out of range.
/// Attributes of the core and of the driver alternate. `rdma_helper_uverbs_attr_bit` checks at
/// compile time that the kernel's header uses the same layout.
#[inline]
fn place(attr: usize) -> Option<usize> {
    const DRIVERS: usize = bindings::uapi_radix_data_UVERBS_API_NS_FLAG as usize;
    const MOST: usize = bindings::uapi_radix_data_UVERBS_API_ATTR_BKEY_LEN as usize;
    let number = attr & 0xffff & !DRIVERS;
    let core = number.checked_mul(2)?;
    let place = match attr & DRIVERS {
        0 => core,
        _ => core.checked_add(1)?,
    };
    (place < MOST).then_some(place)
}

/// Copies `source`, truncated if necessary, to the user's buffer of an attribute, and marks the
/// attribute as valid output. May sleep.
///
/// # Errors
///
/// `ENOENT` without the attribute, `EFAULT`.
fn copy_to(call: &Bundle, index: usize, source: Source<'_>) -> Result {
    let attr = attr(call, index)?;
    source.copy_to(attr.addr(), attr.len.into())?;
    attr.set_answered()
}

/// Like [`copy_to`], and zeroes the rest of the user's buffer.
///
/// # Errors
///
/// Those of [`copy_to`].
fn copy_to_or_zero(call: &Bundle, index: usize, source: Source<'_>) -> Result {
    let attr = attr(call, index)?;
    let room = usize::from(attr.len);
    attr.addr().clear_rest(source.len(), room)?;
    source.copy_to(attr.addr(), room)?;
    attr.set_answered()
}

fn copy_to_for_c<'a>(
    call: In<'_, Bundle>,
    index: usize,
    from: SourceAt<'a>,
    size: Len<'a, Readable>,
) -> Result {
    copy_to(&call, index, Source::of_call(from, size))
}

fn copy_to_or_zero_for_c<'a>(
    call: In<'_, Bundle>,
    index: usize,
    from: SourceAt<'a>,
    size: Len<'a, Readable>,
) -> Result {
    copy_to_or_zero(&call, index, Source::of_call(from, size))
}

/// Allocates `size` bytes that are freed when the call ends. May sleep as `flags` permit.
///
/// # Errors
///
/// `EOVERFLOW`, `ENOMEM`.
fn alloc(
    call: IoctlCall<'_, *mut uverbs_attr_bundle>,
    size: usize,
    flags: bindings::gfp_t,
) -> Result<CallMemory> {
    let call = call.0;
    // End of the used part, rounded up for the alignment of the next allocation.
    let end = size.checked_add(call.internal_used());
    let next = end.and_then(|end| end.checked_next_multiple_of(size_of::<u64>()));
    match call.take(size, flags, next.ok_or(EOVERFLOW)?) {
        Some(memory) => Ok(memory),
        None => call.allocate(size, flags),
    }
}

/// Marks the object that an attribute creates as complete: if the call fails, it is destroyed
/// through its type. Any context.
fn finalize_create(call: IoctlCall<'_, *const uverbs_attr_bundle>, index: u16) {
    let call = call.0;
    if let Some(place) = place(index.into()) {
        call.set_made(call.made().with(place));
    }
}

/// Returns the number in an attribute, at most `most`; `default` without the attribute.
///
/// # Errors
///
/// `ENOENT` without attribute and default; `EINVAL` if the number is greater than `most`.
fn get_unsigned(
    mut to: OutParam<'_, u64>,
    call: In<'_, Bundle>,
    index: usize,
    most: u64,
    default: Option<Lent<'_, u64>>,
) -> Result {
    let default = default.map(|default| *default.0);
    let value = number(&call, index, default)?;
    // Callers use the value even if the result is an error.
    to.set(value);
    if value > most {
        return Err(EINVAL);
    }
    Ok(())
}

/// Like [`get_unsigned`], for a signed number of at least `least`.
///
/// # Errors
///
/// Those of [`get_unsigned`].
fn get_signed(
    mut to: OutParam<'_, i64>,
    call: In<'_, Bundle>,
    index: usize,
    least: i64,
    most: u64,
    default: Option<Lent<'_, i64>>,
) -> Result {
    // CAST: Reinterprets the bits.
    let default = default.map(|default| *default.0 as u64);
    let value = number(&call, index, default)? as i64;
    to.set(value);
    if value < least || u64::try_from(value).is_ok_and(|value| value > most) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Returns the flags in an attribute, all of which must be in `allowed`; 0 without the attribute.
///
/// # Errors
///
/// `EINVAL` for another flag or another length.
fn get_flags64(
    mut to: OutParam<'_, u64>,
    call: In<'_, Bundle>,
    index: usize,
    allowed: u64,
) -> Result {
    to.set(flags(&call, index, allowed)?);
    Ok(())
}

/// Like [`get_flags64`], for 32 bits.
///
/// # Errors
///
/// Those of [`get_flags64`].
fn get_flags32(
    mut to: OutParam<'_, u32>,
    call: In<'_, Bundle>,
    index: usize,
    allowed: u64,
) -> Result {
    let flags = flags(&call, index, allowed)?;
    to.set(u32::try_from(flags).map_err(|_| EINVAL)?);
    Ok(())
}

rdma::export! {
    in rdma::bindings;

    /// See [`alloc`].
    fn _uverbs_alloc(
        call: IoctlCall<'_, *mut uverbs_attr_bundle>, size: usize, flags: u32,
    ) -> Result<CallMemory> = alloc;
    /// See [`copy_to`].
    fn uverbs_copy_to(
        call: In<'_, Bundle>, index: usize, from: SourceAt<'_>, size: Len<'_, Readable>,
    ) -> Result = copy_to_for_c;
    /// See [`copy_to_or_zero`].
    fn uverbs_copy_to_struct_or_zero(
        call: In<'_, Bundle>, index: usize, from: SourceAt<'_>, size: Len<'_, Readable>,
    ) -> Result = copy_to_or_zero_for_c;
    /// See [`get_buffer`].
    fn uverbs_get_buffer_desc(
        call: In<'_, Bundle>, index: u16, to: OutParam<'_, bindings::ib_uverbs_buffer_desc>,
    ) -> Result = get_buffer;
    /// See [`finalize_create`].
    fn uverbs_finalize_uobj_create(
        call: IoctlCall<'_, *const uverbs_attr_bundle>, index: u16,
    ) = finalize_create;
    /// See [`get_unsigned`].
    fn _uverbs_get_const_unsigned(
        to: OutParam<'_, u64>, call: In<'_, Bundle>, index: usize, most: u64,
        default: Option<Lent<'_, u64>>,
    ) -> Result = get_unsigned;
    /// See [`get_signed`].
    fn _uverbs_get_const_signed(
        to: OutParam<'_, i64>, call: In<'_, Bundle>, index: usize, least: i64, most: u64,
        default: Option<Lent<'_, i64>>,
    ) -> Result = get_signed;
    /// See [`get_flags64`].
    fn uverbs_get_flags64(
        to: OutParam<'_, u64>, call: In<'_, Bundle>, index: usize, allowed: u64,
    ) -> Result = get_flags64;
    /// See [`get_flags32`].
    fn uverbs_get_flags32(
        to: OutParam<'_, u32>, call: In<'_, Bundle>, index: usize, allowed: u64,
    ) -> Result = get_flags32;
}
