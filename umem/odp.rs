// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that comes when it is touched.
//!
//! The process's page tables are followed: [`map`] brings pages in and notes them in the
//! list (`map.pfn_list`); when the process's mapping changes, the driver's notifier is
//! called, stops the device, and has the entries taken out ([`unmap`]). The list is under
//! `umem_mutex`, and an entry is in it only if no notifier ran since it was read from the
//! page tables:
//!
//! ```text
//!   map:  read_begin ---> page tables -> scratch ---> umem_mutex: retry? : list
//!   notifier:                                        umem_mutex: set_seq, unmap
//! ```
//!
//! The list has an entry for each page of the memory's own size (`page_shift`), which is
//! that of the system or of its huge pages; drivers index it so.
//!
//! C headers: `include/linux/hmm.h`, `include/linux/mmu_notifier.h`.

use super::ptr_or_err;
use crate::private;
use bindings::ib_device;
use bindings::ib_umem_odp;
use bindings::mmu_interval_notifier_ops;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::page::PAGE_SHIFT;
use kernel::prelude::*;
use kernel::time::Delta;
use kernel::time::Instant;
use kernel::time::Monotonic;
use rdma::bindings;

/// Flags of an entry that stay when its page is looked up again.
const STICKY: c_ulong = private::hmm_pfn_flags_HMM_PFN_DMA_MAPPED
    | private::hmm_pfn_flags_HMM_PFN_P2PDMA
    | private::hmm_pfn_flags_HMM_PFN_P2PDMA_BUS;

/// How long a page table that keeps changing is tried (`HMM_RANGE_DEFAULT_TIMEOUT`).
const PATIENCE: Delta = Delta::from_millis(1000);

/// Entries that are looked up without an allocation.
const SHORT: usize = 32;

/// The first address of the memory's pages.
fn start(odp: &ib_umem_odp) -> usize {
    odp.notifier.interval_tree.start
}

/// The address behind the last of the memory's pages.
fn end(odp: &ib_umem_odp) -> usize {
    odp.notifier.interval_tree.last.wrapping_add(1)
}

/// A reference to the memory of a process that still runs.
///
/// # Invariants
///
/// We hold one count of the users of `0`.
struct Users(*mut bindings::mm_struct);

impl Users {
    /// None, if the process has ended.
    ///
    /// # Safety
    ///
    /// The structure exists.
    unsafe fn of(mm: *mut bindings::mm_struct) -> Option<Self> {
        // SAFETY: By this function's duty.
        // INVARIANT: Just counted.
        unsafe { bindings::mmget_not_zero(mm) }.then(|| Self(mm))
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        // The last user would take the memory down, which waits for our own notifier.
        // SAFETY: By the type invariant.
        unsafe { bindings::mmput_async(self.0) };
    }
}

/// Memory that is being made.
///
/// # Invariants
///
/// `tgid` is a reference of ours.
struct Draft(KBox<ib_umem_odp>);

impl Draft {
    /// # Safety
    ///
    /// `tgid` is a reference that the caller gives away.
    unsafe fn new(
        device: *mut ib_device,
        mm: *mut bindings::mm_struct,
        tgid: *mut bindings::pid,
        writable: bool,
    ) -> Result<Self> {
        let made = KBox::new(ib_umem_odp::default(), GFP_KERNEL);
        let mut odp = match made {
            Ok(odp) => odp,
            Err(e) => {
                // SAFETY: By this function's duty.
                unsafe { bindings::put_pid(tgid) };
                return Err(e.into());
            }
        };
        odp.umem.ibdev = device;
        odp.umem.owning_mm = mm;
        odp.umem.set_writable(writable.into());
        odp.umem.set_is_odp(1);
        // CAST: a small number.
        odp.page_shift = PAGE_SHIFT as u32;
        odp.tgid = tgid;
        // SAFETY: It will not move: it is in its box.
        unsafe { bindings::rdma_helper_odp_init_mutex(&mut *odp) };
        // INVARIANT: By this function's duty.
        Ok(Self(odp))
    }

    /// Of the current process.
    fn of_current(device: *mut ib_device, access: c_int) -> Result<Self> {
        // SAFETY: The current task exists; the function only looks at the flags.
        unsafe {
            let task = bindings::get_current();
            let mm = (*task).mm;
            if mm.is_null() {
                return Err(EINVAL);
            }
            let tgid = bindings::get_task_pid(task, bindings::pid_type_PIDTYPE_TGID);
            let writable = bindings::rdma_helper_ib_access_writable(access);
            Self::new(device, mm, tgid, writable)
        }
    }

    /// Gives it `len` bytes at `addr`, and follows the page tables there.
    ///
    /// # Errors
    ///
    /// `EOVERFLOW` for an end beyond the address space; `EINVAL` for no pages; `ENOMEM`;
    /// `EINTR` if the process is being killed.
    ///
    /// # Safety
    ///
    /// The process runs, and is the current one or counted; `ops` lives as long as the
    /// memory; the device exists.
    unsafe fn follow(
        mut self,
        addr: usize,
        len: usize,
        ops: *const mmu_interval_notifier_ops,
    ) -> Result<NonNull<ib_umem_odp>> {
        let odp = &mut *self.0;
        odp.umem.length = len;
        odp.umem.address = addr;
        let mask = 1usize
            .checked_shl(odp.page_shift)
            .ok_or(EINVAL)?
            .wrapping_sub(1);
        let first = addr & !mask;
        let last = addr.checked_add(len).ok_or(EOVERFLOW)?;
        let last = last.checked_add(mask).ok_or(EOVERFLOW)? & !mask;
        // OVERFLOW: the end is not before the beginning.
        let bytes = last - first;
        if bytes == 0 {
            return Err(EINVAL);
        }
        teach_reclaim(odp);

        let entries = bytes >> PAGE_SHIFT;
        let device = odp.umem.ibdev;
        // SAFETY: The device exists by this function's duty.
        let (virt, dma_device) = unsafe {
            (
                bindings::rdma_helper_ib_uses_virt_dma(device),
                (*device).dma_device,
            )
        };
        if virt {
            let list = KVVec::<c_ulong>::from_elem(0, entries, GFP_KERNEL | __GFP_NOWARN)?;
            odp.map.pfn_list = list.into_raw_parts().0;
        } else {
            // SAFETY: The device exists; the map is ours to fill in.
            to_result(unsafe {
                private::hmm_dma_map_alloc(dma_device, &mut odp.map, entries, mask.wrapping_add(1))
            })?;
        }
        // SAFETY: By this function's duty; it stays where it is until the notifier is removed.
        let inserted = to_result(unsafe {
            let mm = odp.umem.owning_mm;
            private::mmu_interval_notifier_insert(&mut odp.notifier, mm, first, bytes, ops)
        });
        if let Err(e) = inserted {
            // SAFETY: Nobody else has the list.
            unsafe { free_list(odp) };
            return Err(e);
        }
        Ok(self.into_raw())
    }

    fn into_raw(self) -> NonNull<ib_umem_odp> {
        let mut this = core::mem::ManuallyDrop::new(self);
        NonNull::from(&mut *this.0)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::put_pid(self.0.tgid) };
    }
}

/// Lockdep is shown that the mutex is taken while memory is reclaimed, which happens rarely
/// in tests: nobody who holds it may allocate.
fn teach_reclaim(odp: &mut ib_umem_odp) {
    if cfg!(CONFIG_LOCKDEP) {
        // SAFETY: The mutex is initialized; nobody else knows it yet.
        unsafe {
            bindings::rdma_helper_fs_reclaim_acquire();
            bindings::mutex_lock(&mut odp.umem_mutex);
            bindings::mutex_unlock(&mut odp.umem_mutex);
            bindings::rdma_helper_fs_reclaim_release();
        }
    }
}

/// Frees the list of pages.
///
/// # Safety
///
/// It was made by [`Draft::follow`], nothing in it is mapped; nobody uses it any more. The
/// device exists.
unsafe fn free_list(odp: &mut ib_umem_odp) {
    // SAFETY: By this function's duty.
    unsafe {
        let device = odp.umem.ibdev;
        if bindings::rdma_helper_ib_uses_virt_dma(device) {
            bindings::kvfree(odp.map.pfn_list.cast());
        } else {
            private::hmm_dma_map_free((*device).dma_device, &mut odp.map);
        }
    }
}

/// What is looked up: pages from `first` on, of the system's size.
struct Request {
    first: usize,
    pages: usize,
    fault: bool,
    write: bool,
}

/// Looks pages up in the page tables until a notifier leaves time to note them. Returns with
/// `umem_mutex` held.
///
/// # Errors
///
/// `EBUSY` if the tables keep changing; `EFAULT` if there is no such memory; `EINTR`.
///
/// # Safety
///
/// The memory exists, is followed, and its process is counted.
unsafe fn look_up(odp: *mut ib_umem_odp, request: &Request, scratch: &mut [c_ulong]) -> Result {
    let mut flags = 0;
    if request.fault {
        flags |= private::hmm_pfn_flags_HMM_PFN_REQ_FAULT;
        if request.write {
            flags |= private::hmm_pfn_flags_HMM_PFN_REQ_WRITE;
        }
    }
    let begun = Instant::<Monotonic>::now();
    loop {
        scratch.fill(0);
        // SAFETY: By this function's duty; the scratch has an entry for each page.
        unsafe {
            let notifier = &raw mut (*odp).notifier;
            let seq = private::mmu_interval_read_begin(notifier);
            let mut range = private::hmm_range {
                notifier,
                notifier_seq: seq,
                start: request.first,
                // OVERFLOW: within the memory.
                end: request.first + (request.pages << PAGE_SHIFT),
                hmm_pfns: scratch.as_mut_ptr(),
                default_flags: flags,
                ..private::hmm_range::default()
            };
            let mm = (*odp).umem.owning_mm;
            bindings::mmap_read_lock(mm);
            let found = to_result(private::hmm_range_fault(&mut range));
            bindings::mmap_read_unlock(mm);
            match found {
                Err(e) if e == EBUSY && begun.elapsed() <= PATIENCE => continue,
                found => found?,
            }
            let mutex = &raw mut (*odp).umem_mutex;
            bindings::mutex_lock(mutex);
            if !bindings::rdma_helper_interval_read_retry(notifier, seq) {
                return Ok(());
            }
            bindings::mutex_unlock(mutex);
        }
    }
}

/// Brings in the pages of `len` bytes at `addr` and notes them in the list. How many pages
/// of the memory's size that are; `umem_mutex` is held then, and not on error.
///
/// # Errors
///
/// `EFAULT` for bytes outside the memory; `EINVAL` if the process has ended, or a huge page
/// is wanted where there is none; those of [`look_up`].
///
/// # Safety
///
/// The memory exists and is followed.
unsafe fn map(
    odp: *mut ib_umem_odp,
    addr: u64,
    len: u64,
    fault: bool,
    write: bool,
) -> Result<usize> {
    // SAFETY: By this function's duty; these do not change.
    let (start, end, shift, mm, tgid) = unsafe {
        let odp = &*odp;
        (
            start(odp),
            end(odp),
            odp.page_shift,
            odp.umem.owning_mm,
            odp.tgid,
        )
    };
    let addr = usize::try_from(addr).map_err(|_| EFAULT)?;
    let len = usize::try_from(len).map_err(|_| EFAULT)?;
    let to = addr.checked_add(len).ok_or(EFAULT)?;
    // SAFETY: As above. Implicit memory has no list.
    if unsafe { (*odp).is_implicit_odp } || addr < start || to > end {
        return Err(EFAULT);
    }
    // OVERFLOW: the memory begins and ends at a page of its size.
    let mask = (1usize << shift) - 1;
    let first = addr & !mask;
    let pages = (((to + mask) & !mask) - first) >> PAGE_SHIFT;
    // CAST: a small number.
    let per_entry = shift.saturating_sub(PAGE_SHIFT as u32);

    // SAFETY: By this function's duty the references are the memory's.
    let task = unsafe { bindings::get_pid_task(tgid, bindings::pid_type_PIDTYPE_PID) };
    if task.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: The function has counted it for us. Only whether there is one matters.
    unsafe { bindings::put_task_struct(task) };
    // SAFETY: The notifier keeps the structure.
    let _users = unsafe { Users::of(mm) }.ok_or(EINVAL)?;

    let mut short = [0; SHORT];
    let mut long;
    let scratch = match short.get_mut(..pages) {
        Some(short) => short,
        None => {
            long = KVVec::from_elem(0, pages, GFP_KERNEL | __GFP_NOWARN)?;
            &mut long[..]
        }
    };
    let request = Request {
        first,
        pages,
        fault,
        write,
    };
    // SAFETY: By this function's duty, and the process is counted.
    unsafe { look_up(odp, &request, scratch) }?;

    // SAFETY: The list has an entry for each page of the memory's size, and is ours while
    // the mutex is held.
    unsafe {
        let list = (*odp).map.pfn_list.add((first - start) >> shift);
        let mut noted = 0;
        // Of a huge page the first part says where it is.
        for &found in scratch.iter().step_by(1 << per_entry) {
            let entry = list.add(noted);
            let order = (found >> private::hmm_pfn_flags_HMM_PFN_ORDER_SHIFT) & 0x1f;
            let valid = found & private::hmm_pfn_flags_HMM_PFN_VALID != 0;
            let mapped = *entry & private::hmm_pfn_flags_HMM_PFN_DMA_MAPPED != 0;
            if valid && !mapped && order < per_entry as usize {
                bindings::mutex_unlock(&mut (*odp).umem_mutex);
                return Err(EINVAL);
            }
            *entry = found | (*entry & STICKY);
            noted += 1;
        }
        Ok(noted)
    }
}

/// Takes pages out of the list, and out of the device's reach.
///
/// # Safety
///
/// The memory exists and is followed; `umem_mutex` is held. No device uses the pages.
unsafe fn unmap(odp: *mut ib_umem_odp, from: u64, to: u64) {
    // SAFETY: By this function's duty.
    unsafe {
        let (start, end) = (start(&*odp) as u64, end(&*odp) as u64);
        let shift = (*odp).page_shift;
        let dma_device = (*(*odp).umem.ibdev).dma_device;
        let (from, to) = (from.max(start), to.min(end));
        if from >= to {
            return;
        }
        // CAST: indices of the list.
        let first = ((from - start) >> shift) as usize;
        let last = ((to - 1 - start) >> shift) as usize;
        for index in first..=last {
            let entry = (*odp).map.pfn_list.add(index);
            let was = *entry;
            if private::hmm_dma_unmap_pfn(dma_device, &mut (*odp).map, index) {
                if was & private::hmm_pfn_flags_HMM_PFN_WRITE != 0 {
                    // Without the page's lock, which notifiers may or may not hold: the
                    // mutex keeps those waiting who would take the page away.
                    bindings::rdma_helper_hmm_pfn_set_dirty(was);
                }
                (*odp).npages = (*odp).npages.wrapping_sub(1);
            }
            *entry &= !private::hmm_pfn_flags_HMM_PFN_FLAGS;
        }
    }
}

/// The `size` bytes at `addr` of the current process, none of which is there yet. An error
/// pointer on failure: `-EINVAL` if `access` is not for on-demand memory, else as
/// [`Draft::follow`].
///
/// # Safety
///
/// The device and `ops` exist until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_odp_get(
    device: *mut ib_device,
    addr: c_ulong,
    size: usize,
    access: c_int,
    ops: *const mmu_interval_notifier_ops,
) -> *mut ib_umem_odp {
    // CAST: a bit of the flags.
    if access & bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int == 0 {
        return EINVAL.to_ptr();
    }
    ptr_or_err(Draft::of_current(device, access).and_then(|mut draft| {
        // CAST: as above.
        if access & bindings::ib_access_flags_IB_ACCESS_HUGETLB as c_int != 0 {
            // SAFETY: No preconditions.
            draft.0.page_shift = unsafe { bindings::rdma_helper_hpage_shift() };
        }
        // SAFETY: By this function's duty; the process is the current one.
        unsafe { draft.follow(addr, size, ops) }
    }))
}

/// The whole memory of the current process: no pages of its own, only the parent of
/// children that the driver makes where the device touches it.
///
/// # Safety
///
/// The device exists until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_odp_alloc_implicit(
    device: *mut ib_device,
    access: c_int,
) -> *mut ib_umem_odp {
    // CAST: a bit of the flags.
    if access & bindings::ib_access_flags_IB_ACCESS_HUGETLB as c_int != 0 {
        return EINVAL.to_ptr();
    }
    ptr_or_err(Draft::of_current(device, access).map(|mut draft| {
        draft.0.is_implicit_odp = true;
        draft.into_raw()
    }))
}

/// The `size` bytes at `addr` of the process whose memory `root` is. An error pointer on
/// failure: `-EINVAL` if `root` is not [implicit](ib_umem_odp_alloc_implicit), `-EFAULT` if
/// the process has ended, else as [`Draft::follow`].
///
/// # Safety
///
/// `root` exists, and lives longer than the child; `ops` lives as long as the child.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_odp_alloc_child(
    root: *mut ib_umem_odp,
    addr: c_ulong,
    size: usize,
    ops: *const mmu_interval_notifier_ops,
) -> *mut ib_umem_odp {
    // SAFETY: By this function's duty; what is read does not change.
    let root = unsafe { &*root };
    if !root.is_implicit_odp {
        return EINVAL.to_ptr();
    }
    let make = || -> Result<NonNull<ib_umem_odp>> {
        let mm = root.umem.owning_mm;
        // SAFETY: The driver keeps the structure as long as the root exists.
        let _users = unsafe { Users::of(mm) }.ok_or(EFAULT)?;
        // SAFETY: The root has its reference; the process is counted.
        unsafe {
            let tgid = bindings::rdma_helper_get_pid(root.tgid);
            let writable = root.umem.writable() != 0;
            Draft::new(root.umem.ibdev, mm, tgid, writable)?.follow(addr, size, ops)
        }
    };
    ptr_or_err(make())
}

/// Gives the memory back.
///
/// # Safety
///
/// The caller owns it, and no device uses it any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_odp_release(umem_odp: *mut ib_umem_odp) {
    // SAFETY: By this function's duty. After the removal no notifier is called.
    unsafe {
        if !(*umem_odp).is_implicit_odp {
            let mutex = &raw mut (*umem_odp).umem_mutex;
            bindings::mutex_lock(mutex);
            unmap(umem_odp, 0, u64::MAX);
            bindings::mutex_unlock(mutex);
            private::mmu_interval_notifier_remove(&mut (*umem_odp).notifier);
            free_list(&mut *umem_odp);
        }
        // INVARIANT: The memory has its reference.
        drop(Draft(KBox::from_raw(umem_odp)));
    }
}

/// Brings in the pages of `bcnt` bytes at `user_virt`. How many pages of the memory's size
/// that are, with `umem_mutex` held; or an error, and it is not held ([`map`]).
///
/// `access_mask` has `HMM_PFN_WRITE` if they are to be written to; without `fault` pages
/// are noted only as far as they are there.
///
/// # Safety
///
/// The memory exists, is not implicit, and the caller does not hold its mutex.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_odp_map_dma_and_lock(
    umem_odp: *mut ib_umem_odp,
    user_virt: u64,
    bcnt: u64,
    access_mask: u64,
    fault: bool,
) -> c_int {
    let write = access_mask & private::hmm_pfn_flags_HMM_PFN_WRITE as u64 != 0;
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        let pages = map(umem_odp, user_virt, bcnt, fault, write)?;
        // More than C's type holds are more than a memory has: the list would not fit.
        Ok(c_int::try_from(pages).unwrap_or(c_int::MAX))
    })
}

/// Takes the pages between two addresses out of the device's reach.
///
/// # Safety
///
/// The memory exists, is not implicit, its mutex is held; no device uses the pages.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_odp_unmap_dma_pages(
    umem_odp: *mut ib_umem_odp,
    virt: u64,
    bound: u64,
) {
    // SAFETY: By this function's duty.
    unsafe {
        bindings::rdma_helper_odp_assert_held(umem_odp);
        unmap(umem_odp, virt, bound);
    }
}

rdma::exported!(
    ib_umem_odp_get,
    ib_umem_odp_alloc_implicit,
    ib_umem_odp_alloc_child,
    ib_umem_odp_release,
    ib_umem_odp_map_dma_and_lock,
    ib_umem_odp_unmap_dma_pages,
);
