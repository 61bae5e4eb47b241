// SPDX-License-Identifier: GPL-2.0

//! The core's `struct ib_umem_odp`, for both types of on-demand memory.

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

/// The operations of a notifier. They are constants and not statics, because they are part of the
/// module that uses them, like all code of this crate.
pub(super) const fn ops(
    invalidate: unsafe extern "C" fn(
        *mut bindings::mmu_interval_notifier,
        *const bindings::mmu_notifier_range,
        c_ulong,
    ) -> bool,
) -> bindings::mmu_interval_notifier_ops {
    bindings::mmu_interval_notifier_ops {
        invalidate: Some(invalidate),
        // SAFETY: In a zeroed structure, the other operations are absent.
        ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
    }
}

/// A umem before it becomes part of its owner.
///
/// # Invariants
///
/// It owns the umem, which has a reference to the memory of its device (`helpers/odp.c`).
pub(super) struct Owned(pub(super) NonNull<bindings::ib_umem_odp>);

impl Owned {
    /// Passes the umem to the caller.
    pub(super) fn release(self) -> NonNull<bindings::ib_umem_odp> {
        core::mem::ManuallyDrop::new(self).0
    }

    /// Sets the pointer that the notifier uses.
    ///
    /// # Safety
    ///
    /// `private` must outlive the notifier, which must expect this type.
    pub(super) unsafe fn set_private<T>(&self, private: *const T) {
        let raw = self.0.as_ptr();
        // SAFETY: The umem is owned (type invariant). The notifier reads the field under the same
        // lock.
        unsafe {
            bindings::rdma_helper_odp_lock(raw);
            (*raw).private = private.cast_mut().cast();
            bindings::rdma_helper_odp_unlock(raw);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: The umem is owned (type invariant).
        unsafe { bindings::rdma_helper_odp_release(self.0.as_ptr()) };
    }
}

/// Makes the pages `wanted` present, counted from the first page of the memory, and calls `note`
/// with each while the process maps it. Without `fault`, only pages that the process has in memory
/// are made present. Returns their number. May sleep, and take long.
///
/// With the C core, which looks pages up in its list itself and without the lock, a second fault of
/// the same memory can store a page there that the process has just lost, and this reads it: then
/// `note` is called with a page that is not mapped. Our core looks up in memory of its own, and fills
/// the list under the lock (`umem/odp.rs`).
///
/// # Errors
///
/// `EFAULT` if the memory does not contain the pages, or the process does not map them, or not
/// writable though `write` is set; `EINVAL` if the process is gone; `EBUSY` if it changes its
/// mappings continually.
///
/// # Safety
///
/// The umem must be valid and not implicit.
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
    // SAFETY: The umem is valid (contract of this function); the field does not change.
    let start = unsafe { bindings::rdma_helper_odp_start(umem) };
    let at = start.checked_add(bytes(wanted.start)?).ok_or(EFAULT)?;
    // Not `len` of the range, which panics if the two values of `size_hint` differ.
    let len = bytes(wanted.end.saturating_sub(wanted.start))?;
    // SAFETY: The umem is valid and not implicit (contract of this function). Its notifier has a
    // reference to the `mm`.
    let mm = unsafe { Mm::from_raw((*umem).umem.owning_mm) };
    // Page tables, for instance, are charged as if the process had faulted the pages in.
    to_result(accounted::charged_to(mm, || {
        // SAFETY: The umem is valid and not implicit (contract of this function). The function
        // checks the range.
        unsafe { bindings::rdma_helper_odp_map_and_lock(umem, at, len, write, fault) }
    }))?;
    let (mut came, mut all) = (0usize, true);
    for index in wanted {
        // SAFETY: The range was accepted, so the core's list has an entry for each of its pages,
        // which may be read while the lock that the function took is held.
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
    // Pages that are absent after faulting cannot be made present.
    if fault && !all {
        return Err(EFAULT);
    }
    Ok(came)
}

/// Checks whether a region of the memory can be changed in place.
///
/// # Errors
///
/// Those of `ib_umem_check_rereg`.
///
/// # Safety
///
/// The umem must be valid.
pub(super) unsafe fn check_rereg(
    umem: NonNull<bindings::ib_umem_odp>,
    mask: RegionMask,
    access: Access,
) -> Result {
    // CAST: Flags, whose sign has no meaning.
    // SAFETY: The umem is valid (contract of this function); the function only reads it.
    to_result(unsafe {
        bindings::ib_umem_check_rereg(
            &raw mut (*umem.as_ptr()).umem,
            mask.raw() as i32,
            access.raw() as i32,
        )
    })
}

/// The common part of notifiers: calls `forget` for the pages that the process is about to lose,
/// then lets the core unmap them. The arguments of `forget` are the pointer that
/// [`Owned::set_private`] set, or null; the address at which the memory begins; and the indices of
/// the pages. Returns the result for the memory management: whether it was done.
///
/// # Safety
///
/// As for a call of `mmu_interval_notifier_ops::invalidate`, for a notifier of the umem's.
pub(super) unsafe fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
    forget: impl FnOnce(*mut c_void, u64, Range<usize>),
) -> bool {
    // SAFETY: Both arguments are valid for the call (contract of this function), and the notifier
    // is part of a umem that exists at least until its notifier is removed.
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
