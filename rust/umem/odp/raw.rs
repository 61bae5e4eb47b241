// SPDX-License-Identifier: GPL-2.0

//! The core's `struct ib_umem_odp`, as both kinds of on-demand memory use it.

use super::pages::Found;
use crate::accounted;
use crate::bindings;
use crate::provider::Access;
use crate::provider::RegionMask;
use core::ops::Range;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::mm::Mm;
use kernel::page::PAGE_SHIFT;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// One that is on its way into its owner.
///
/// # Invariants
///
/// `0` is ours.
pub(super) struct Owned(pub(super) NonNull<bindings::ib_umem_odp>);

impl Owned {
    /// Gives it to the caller.
    pub(super) fn release(self) -> NonNull<bindings::ib_umem_odp> {
        core::mem::ManuallyDrop::new(self).0
    }

    /// Has the notifier find `private` there.
    ///
    /// # Safety
    ///
    /// It outlives the notifier, which knows its type.
    pub(super) unsafe fn set_private<T>(&self, private: *const T) {
        let raw = self.0.as_ptr();
        // SAFETY: It is ours. The notifier reads the field under the same lock.
        unsafe {
            bindings::rdma_helper_odp_lock(raw);
            (*raw).private = private.cast_mut().cast();
            bindings::rdma_helper_odp_unlock(raw);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: It is ours.
        unsafe { bindings::rdma_helper_odp_release(self.0.as_ptr()) };
    }
}

/// Brings in the pages `wanted`, counted from the memory's first, and has `note` take what
/// came of each, while the process maps it. Without `fault`, only those come that the process
/// has in memory. How many came. May sleep, for long.
///
/// # Errors
///
/// `EFAULT` if the memory has no such pages, or the process has not, or none it may write to;
/// `EINVAL` if the process is gone; `EBUSY` if it changes its mappings all the time.
///
/// # Safety
///
/// The memory exists, and is not implicit.
pub(super) unsafe fn bring(
    umem: *mut bindings::ib_umem_odp,
    wanted: Range<usize>,
    write: bool,
    fault: bool,
    mut note: impl FnMut(usize, Found),
) -> Result<usize> {
    let bytes = |pages: usize| -> Result<u64> {
        Ok(u64::try_from(pages.checked_mul(PAGE_SIZE).ok_or(EFAULT)?)?)
    };
    // SAFETY: The memory exists (contract); the field does not change.
    let start = unsafe { bindings::rdma_helper_odp_start(umem) };
    let at = start.checked_add(bytes(wanted.start)?).ok_or(EFAULT)?;
    // Not `len` of the range, which panics if its two ends of `size_hint` differ.
    let len = bytes(wanted.end.saturating_sub(wanted.start))?;
    // SAFETY: The notifier of memory that is not implicit keeps the `mm`.
    let mm = unsafe { Mm::from_raw((*umem).umem.owning_mm) };
    // Page tables, for instance, are charged as if the process had faulted the pages in.
    to_result(accounted::charged_to(mm, || {
        // SAFETY: The memory exists and is not implicit (contract). The function checks the range.
        unsafe { bindings::rdma_helper_odp_map_and_lock(umem, at, len, write, fault) }
    }))?;
    let (mut came, mut all) = (0usize, true);
    for index in wanted {
        // SAFETY: The range was good, so the core has an entry for each of its pages,
        // which is ours to read while we hold the lock that the function has taken.
        let pfn = unsafe { *(*umem).map.pfn_list.add(index) };
        if let Some(page) = Found::of(pfn) {
            note(index, page);
            came = came.saturating_add(1);
        } else {
            all = false;
        }
    }
    // SAFETY: Locked above.
    unsafe { bindings::rdma_helper_odp_unlock(umem) };
    // They were faulted in: what is not here now is not to be had.
    if fault && !all {
        return Err(EFAULT);
    }
    Ok(came)
}

/// Whether a registration of the memory may be changed so.
///
/// # Errors
///
/// Those of `ib_umem_check_rereg`.
///
/// # Safety
///
/// The memory exists.
pub(super) unsafe fn check_rereg(
    umem: NonNull<bindings::ib_umem_odp>,
    mask: RegionMask,
    access: Access,
) -> Result {
    // CAST: flags, whose sign has no meaning.
    // SAFETY: The memory exists (contract); the function only looks.
    to_result(unsafe {
        bindings::ib_umem_check_rereg(
            &raw mut (*umem.as_ptr()).umem,
            mask.raw() as i32,
            access.raw() as i32,
        )
    })
}

/// What a notifier does: has `forget` take the pages away that the process is about to lose,
/// then the core. `forget` gets what [`Owned::set_private`] has set, or null; the address
/// where the memory begins; and the pages, counted from there. What it is to return to the
/// memory management: whether it was done.
///
/// # Safety
///
/// That of a call of `mmu_interval_notifier_ops::invalidate`, of memory whose notifier the
/// caller is.
pub(super) unsafe fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
    forget: impl FnOnce(*mut c_void, u64, Range<usize>),
) -> bool {
    // SAFETY: Both are valid for the call, and the notifier is part of a umem that lives
    // at least until its notifier is removed.
    unsafe {
        if !bindings::rdma_helper_range_blockable(range) {
            return false;
        }
        let umem = bindings::rdma_helper_odp_of(notifier);
        bindings::rdma_helper_odp_lock(umem);
        bindings::rdma_helper_interval_set_seq(notifier, seq);
        let first = bindings::rdma_helper_odp_start(umem);
        let start = bindings::rdma_helper_range_start(range).max(first);
        let end = bindings::rdma_helper_range_end(range).min(bindings::rdma_helper_odp_end(umem));
        let page = |addr: u64| usize::try_from(addr.saturating_sub(first) >> PAGE_SHIFT);
        if let (Ok(from), Ok(to)) = (page(start), page(end)) {
            forget((*umem).private, first, from..to);
        }
        bindings::rdma_helper_odp_unmap(umem, start, end);
        bindings::rdma_helper_odp_unlock(umem);
    }
    true
}
