// SPDX-License-Identifier: GPL-2.0

//! Memory regions that a queue pair keeps for its consumer: made with it, lent one by one,
//! destroyed before it.
//!
//! The lists are in `struct ib_qp`. C header: `include/rdma/mr_pool.h`.

use crate::chain::Chain;
use crate::mr::ib_alloc_mr;
use crate::mr::ib_alloc_mr_integrity;
use crate::mr::ib_dereg_mr_user;
use core::mem::offset_of;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::sync::SpinLockIrq;

type Mrs<'g> = Chain<'g, bindings::ib_mr, { offset_of!(bindings::ib_mr, __bindgen_anon_1) }>;

/// Does something with a list of a queue pair, under its lock.
///
/// # Safety
///
/// `qp` lives; `list` is one of its lists.
unsafe fn with<R>(
    qp: *mut bindings::ib_qp,
    list: NonNull<bindings::list_head>,
    f: impl FnOnce(&mut Mrs<'_>) -> R,
) -> R {
    // SAFETY: The lock is initialised with the queue pair, and lives as long.
    let lock = unsafe { SpinLockIrq::<()>::from_raw(&raw mut (*qp).mr_lock) };
    let mut guard = lock.lock();
    // SAFETY: By this function's duty; entries are regions that the queue pair keeps.
    f(&mut unsafe { Mrs::new(list, &mut guard) })
}

/// Lends a region; none, if all are lent. Any context.
///
/// # Safety
///
/// `qp` lives; `list` is one of its lists.
pub(crate) unsafe fn get(
    qp: *mut bindings::ib_qp,
    list: NonNull<bindings::list_head>,
) -> Option<NonNull<bindings::ib_mr>> {
    // SAFETY: By this function's duty; the count is changed under the lock only.
    unsafe {
        with(qp, list, |list| {
            let mr = list.pop_front()?;
            (*qp).mrs_used = (*qp).mrs_used.wrapping_add(1);
            Some(mr)
        })
    }
}

/// Takes a region back. Any context.
///
/// # Safety
///
/// As for [`get`], and `mr` was lent from that list and is given back once.
pub(crate) unsafe fn put(
    qp: *mut bindings::ib_qp,
    list: NonNull<bindings::list_head>,
    mr: NonNull<bindings::ib_mr>,
) {
    // SAFETY: By this function's duty; the count is changed under the lock only.
    unsafe {
        with(qp, list, |list| {
            list.push_front(mr);
            (*qp).mrs_used = (*qp).mrs_used.wrapping_sub(1);
        });
    }
}

/// What regions a list has.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Of a type, with so many entries.
    Plain(bindings::ib_mr_type, u32),
    /// With protection information: entries of data and of that.
    Integrity(u32, u32),
}

/// Fills a list with `count` regions; after an error it is empty. May sleep.
///
/// # Errors
///
/// `ENOMEM`; the driver's.
///
/// # Safety
///
/// `qp` lives; `list` is one of its lists.
pub(crate) unsafe fn fill(
    qp: *mut bindings::ib_qp,
    list: NonNull<bindings::list_head>,
    count: u32,
    kind: Kind,
) -> Result {
    for _ in 0..count {
        // SAFETY: By this function's duty; a queue pair has a domain.
        let made = unsafe {
            from_err_ptr(match kind {
                Kind::Plain(of, entries) => ib_alloc_mr((*qp).pd, of, entries),
                Kind::Integrity(data, meta) => ib_alloc_mr_integrity((*qp).pd, data, meta),
            })
        };
        match made.and_then(|mr| NonNull::new(mr).ok_or(ENOMEM)) {
            // SAFETY: By this function's duty. The region lives until it is taken out.
            Ok(mr) => unsafe { with(qp, list, |list| list.push_back(mr)) },
            Err(error) => {
                // SAFETY: By this function's duty.
                unsafe { empty(qp, list) };
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Destroys the regions of a list; those that are lent are the borrower's fault. May sleep.
///
/// # Safety
///
/// `qp` lives; `list` is one of its lists.
pub(crate) unsafe fn empty(qp: *mut bindings::ib_qp, list: NonNull<bindings::list_head>) {
    // SAFETY: By this function's duty; what is taken out is nobody else's.
    while let Some(mr) = unsafe { with(qp, list, |list| list.pop_front()) } {
        // SAFETY: As above. A driver that refuses keeps the region.
        kernel::warn_on!(unsafe { ib_dereg_mr_user(mr.as_ptr(), core::ptr::null_mut()) } != 0);
    }
}

rdma::exported!(
    ib_mr_pool_destroy,
    ib_mr_pool_get,
    ib_mr_pool_init,
    ib_mr_pool_put,
);

/// See [`get`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_mr_pool_get(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
) -> *mut bindings::ib_mr {
    let Some(list) = NonNull::new(list) else {
        return core::ptr::null_mut();
    };
    // SAFETY: By this function's duty.
    unsafe { get(qp, list) }.map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

/// See [`put`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_mr_pool_put(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
    mr: *mut bindings::ib_mr,
) {
    if let (Some(list), Some(mr)) = (NonNull::new(list), NonNull::new(mr)) {
        // SAFETY: By this function's duty.
        unsafe { put(qp, list, mr) };
    }
}

/// See [`fill`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_mr_pool_init(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
    count: c_int,
    of: bindings::ib_mr_type,
    entries: u32,
    meta_entries: u32,
) -> c_int {
    let kind = match of {
        bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY => Kind::Integrity(entries, meta_entries),
        _ => Kind::Plain(of, entries),
    };
    let count = u32::try_from(count).unwrap_or(0);
    let list = NonNull::new(list).ok_or(EINVAL);
    // SAFETY: By this function's duty.
    crate::object::code(list.and_then(|list| unsafe { fill(qp, list, count, kind) }))
}

/// See [`empty`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_mr_pool_destroy(
    qp: *mut bindings::ib_qp,
    list: *mut bindings::list_head,
) {
    if let Some(list) = NonNull::new(list) {
        // SAFETY: By this function's duty.
        unsafe { empty(qp, list) };
    }
}
