// SPDX-License-Identifier: GPL-2.0

//! The driver's own part of a call: bytes in, bytes out.
//!
//! The user library and the kernel are updated apart, so either side may know fewer bytes
//! than the other. Input that is short is filled up with zeroes, as long as what the first
//! kernel knew is there; what we do not know must be zero. Output is cut, or filled up.
//!
//! Why a call was refused is not logged, other than in the C core with dynamic debugging.

use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::provider::unsupported;

/// Copies the input to `req`, which has `kernel_size` bytes. 0, `-EINVAL` if there are not
/// `minimum_size` bytes, `-EOPNOTSUPP` if there are more than `kernel_size` and not all of
/// those zero, `-EFAULT`. May sleep.
///
/// # Safety
///
/// `udata` is the driver's part of a call that runs; `req` has room, or no bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn _ib_copy_validate_udata_in(
    udata: *mut bindings::ib_udata,
    req: *mut c_void,
    kernel_size: usize,
    minimum_size: usize,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let (from, len) = unsafe { ((*udata).inbuf, (*udata).inlen) };
        if len < minimum_size {
            return Err(EINVAL);
        }
        // SAFETY: By this function's duty; the user's address is checked.
        let copied =
            unsafe { bindings::rdma_helper_copy_struct_from_user(req, kernel_size, from, len) };
        match kernel::error::to_result(copied) {
            Ok(()) => Ok(0),
            Err(e) if e == E2BIG => Err(unsupported()),
            Err(e) => Err(e),
        }
    })
}

/// What a driver answers to bits of a "which fields are there" mask that it does not know.
///
/// # Safety
///
/// None; it is of the type that the header declares.
#[no_mangle]
pub(crate) unsafe extern "C" fn _ib_copy_validate_udata_cm_fail(
    _udata: *mut bindings::ib_udata,
    _req_cm: u64,
    _valid_cm: u64,
) -> c_int {
    unsupported().to_errno()
}

/// Copies `len` bytes to the output, or as many as it has room for, and fills up the rest of
/// the room with zeroes. 0 or `-EFAULT`. May sleep.
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
    // SAFETY: By this function's duty; the user's addresses are checked.
    unsafe {
        let (to, room) = ((*udata).outbuf, (*udata).outlen);
        let copied = len.min(room);
        if bindings::copy_to_user(to, src, copied) != 0 {
            return EFAULT.to_errno();
        }
        // OVERFLOW: not more was copied than there is room.
        let rest = room - copied;
        if rest != 0 && bindings::rdma_helper_clear_user(to.wrapping_byte_add(copied), rest) != 0 {
            return EFAULT.to_errno();
        }
    }
    0
}

rdma::exported!(
    _ib_copy_validate_udata_in,
    _ib_copy_validate_udata_cm_fail,
    _ib_respond_udata,
);
