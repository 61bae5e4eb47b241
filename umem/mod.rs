// SPDX-License-Identifier: GPL-2.0

//! User memory that devices reach: pinned, on demand, or of a dma-buf.
//!
//! | file | what |
//! |---|---|
//! | `source` | which memory a user's call means: an attribute, older attributes, an address |
//! | `pinned` | memory of a process that stays where it is |
//! | `odp` | memory of a process that comes when it is touched |
//! | `dmabuf` | memory of another driver's |
//! | `scatter` | lists of segments, and how a device cuts them into its pages |
//!
//! The three kinds share the head `struct ib_umem`, which drivers hold by pointer and
//! read; what else there is to each of them is behind its release function. Nobody
//! writes to the head but who makes it, except `iova`, which is the driver's word for
//! where the device sees the memory ([`ib_umem_find_best_pgsz`]).
//!
//! All functions may sleep unless they say otherwise.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/rdma/ib_umem_odp.h`,
//! `include/rdma/iter.h`.
//!
//! [`ib_umem_find_best_pgsz`]: scatter::ib_umem_find_best_pgsz

mod dmabuf;
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
mod odp;
mod pinned;
mod scatter;
mod source;

use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;

/// The pages that bytes lie in.
#[derive(Clone, Copy)]
struct Span {
    /// The address of the first page.
    first: usize,
    /// How many pages.
    count: usize,
}

impl Span {
    /// Of `len` bytes at `addr`. None, if they or their last page end beyond the address
    /// space. No bytes are on no page if `addr` is at the beginning of one, else on one.
    fn of(addr: usize, len: usize) -> Option<Self> {
        let first = addr & !(PAGE_SIZE - 1);
        let end = addr.checked_add(len)?.checked_add(PAGE_SIZE - 1)? & !(PAGE_SIZE - 1);
        Some(Self {
            first,
            // OVERFLOW: the end is not before the first page.
            count: (end - first) / PAGE_SIZE,
        })
    }
}

/// A pointer as C returns it, that of an error instead of one.
fn ptr_or_err<T>(result: Result<NonNull<T>>) -> *mut T {
    match result {
        Ok(ptr) => ptr.as_ptr(),
        Err(e) => e.to_ptr(),
    }
}

/// Whether C's pointer is none or an error's.
fn is_err_or_null<T>(ptr: *const T) -> bool {
    // CAST: errors are the last page of addresses.
    ptr.is_null() || (ptr as usize) >= (-(bindings::MAX_ERRNO as isize)) as usize
}

/// Gives back memory of any kind.
///
/// # Safety
///
/// Null, an error, or memory that the caller owns and no device uses any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_release(umem: *mut bindings::ib_umem) {
    if is_err_or_null(umem) {
        return;
    }
    // SAFETY: By this function's duty it is one.
    let (is_dmabuf, is_odp) = unsafe { ((*umem).is_dmabuf(), (*umem).is_odp()) };
    if is_dmabuf != 0 {
        // CAST: the head is the first field.
        // SAFETY: By its flag it is the head of that, and by this function's duty ours.
        unsafe { dmabuf::release(umem.cast()) };
        return;
    }
    #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
    if is_odp != 0 {
        // CAST: the head is the first field.
        // SAFETY: By its flag it is the head of that, and by this function's duty ours.
        unsafe { odp::ib_umem_odp_release(umem.cast()) };
        return;
    }
    let _ = is_odp;
    // SAFETY: It is neither of the others, hence pinned; by this function's duty ours.
    drop(unsafe { pinned::Pinned::from_raw(umem) });
}

/// Copies `length` bytes from `offset` on. 0, or `-EINVAL` if there are not as many, or
/// the memory is none that the CPU reaches.
///
/// # Safety
///
/// `dst` has room for `length` bytes; the memory exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_copy_from(
    dst: *mut c_void,
    umem: *mut bindings::ib_umem,
    offset: usize,
    length: usize,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let umem = unsafe { &*umem };
        let within = offset
            .checked_add(length)
            .is_some_and(|end| end <= umem.length);
        if !within {
            pr_err!(
                "ib_umem_copy_from: {} bytes at {} are not within {}\n",
                length,
                offset,
                umem.length
            );
            return Err(EINVAL);
        }
        // OVERFLOW: within the memory, which is within the address space.
        let skip = offset + (umem.address & (PAGE_SIZE - 1));
        // SAFETY: The table is that of the memory; the room is there by this function's duty.
        let copied = unsafe {
            bindings::sg_pcopy_to_buffer(
                umem.sgt_append.sgt.sgl,
                umem.sgt_append.sgt.orig_nents,
                dst,
                length,
                bindings::off_t::try_from(skip)?,
            )
        };
        if copied == length {
            Ok(0)
        } else {
            Err(EINVAL)
        }
    })
}

/// Whether memory that is there can serve a region with other access flags. 0, or
/// `-EACCES` if they are to write to what is only to be read. Any context.
///
/// # Safety
///
/// Null or memory that exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_check_rereg(
    umem: *mut bindings::ib_umem,
    flags: c_int,
    new_access_flags: c_int,
) -> c_int {
    if umem.is_null() {
        return 0;
    }
    // CAST: bits of the flags.
    let access = flags & bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int != 0;
    let translation = flags & bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS as c_int != 0;
    // SAFETY: By this function's duty; the helper only looks at the flags.
    let refused = unsafe {
        access
            && !translation
            && bindings::rdma_helper_ib_access_writable(new_access_flags)
            && (*umem).writable() == 0
    };
    if refused {
        EACCES.to_errno()
    } else {
        0
    }
}

rdma::exported!(ib_umem_release, ib_umem_copy_from, ib_umem_check_rereg);
