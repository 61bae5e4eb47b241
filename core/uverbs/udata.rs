// SPDX-License-Identifier: GPL-2.0

//! The driver's part of a call: input and output bytes.
//!
//! User library and kernel are updated independently, so either side may know fewer bytes than the
//! other. Short input is filled with zeroes, but must have at least the size of the structure's
//! first version; bytes beyond the known fields must be zero. Output is truncated to, or filled
//! with zeroes up to, the size of the user's buffer.
//!
//! Refused calls are not logged; the C core logs them with dynamic debugging.

use super::edge::Len;
use super::edge::Readable;
use super::edge::Room;
use super::edge::RoomAt;
use super::edge::Source;
use super::edge::SourceAt;
use super::edge::UserAddr;
use super::edge::Writable;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::UserCall;
use rdma::edge::Passed;
use rdma::provider::unsupported;

/// Copies the driver's input. May sleep.
///
/// # Errors
///
/// `EINVAL` if there are fewer than `minimum` bytes; `EOPNOTSUPP` if bytes beyond the known fields
/// are not zero; `EFAULT`.
fn copy_in(call: &UserCall, room: Room<'_>, minimum: usize) -> Result {
    let len = call.inlen();
    if len < minimum {
        return Err(EINVAL);
    }
    match room.copy_struct_from(call.inbuf(), len) {
        Err(error) if error == E2BIG => Err(unsupported()),
        copied => copied,
    }
}

/// Errno for unknown bits in a driver's mask of valid fields.
fn refuse_mask(_call: Passed<bindings::ib_udata>, _mask: u64, _valid: u64) -> c_int {
    unsupported().to_errno()
}

/// Copies the driver's output, truncated to the user's buffer, and zeroes the rest of the buffer.
/// May sleep.
///
/// # Errors
///
/// `EFAULT`.
fn respond(call: &UserCall, source: Source<'_>) -> Result {
    let (to, room) = (UserAddr::of(call.outbuf()), call.outlen());
    source.copy_to(to, room)?;
    to.clear_rest(source.len(), room)
}

fn copy_in_for_c<'a>(
    call: &UserCall,
    to: RoomAt<'a>,
    size: Len<'a, Writable>,
    minimum: usize,
) -> Result {
    copy_in(call, Room::of_call(to, size), minimum)
}

fn respond_for_c<'a>(call: &UserCall, from: SourceAt<'a>, len: Len<'a, Readable>) -> Result {
    respond(call, Source::of_call(from, len))
}

rdma::export! {
    in rdma::bindings;

    /// See [`copy_in`].
    fn _ib_copy_validate_udata_in(
        call: &UserCall, to: RoomAt<'_>, size: Len<'_, Writable>, minimum: usize,
    ) -> Result = copy_in_for_c;
    /// See [`respond`].
    fn _ib_respond_udata(call: &UserCall, from: SourceAt<'_>, len: Len<'_, Readable>) -> Result
        = respond_for_c;

    /// See [`refuse_mask`].
    fn _ib_copy_validate_udata_cm_fail(
        call: Passed<bindings::ib_udata>, mask: u64, valid: u64,
    ) -> c_int = refuse_mask;
}
