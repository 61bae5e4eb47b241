// SPDX-License-Identifier: GPL-2.0

//! On-demand memory of a process (ODP).
//!
//! On-demand memory mirrors the process's page tables: [`map`] faults pages in and records them in
//! the list (`map.pfn_list`). When the process's mapping changes, the driver's notifier is called;
//! it stops the device's accesses and removes the entries ([`unmap`]). `umem_mutex` guards the
//! list. An entry is added only if no notifier has run since it was read from the page tables:
//!
//! ```text
//!   map:  read_begin ---> page tables -> scratch ---> umem_mutex: retry? : list
//!   notifier:                                        umem_mutex: set_seq, unmap
//! ```
//!
//! The list has an entry for each page of the memory's own page size (`page_shift`), the system's
//! or a huge page size; drivers use the same indexing.
//!
//! C headers: `include/linux/hmm.h`, `include/linux/mmu_notifier.h`.

use super::edge;
use super::edge::odp::Draft;
use super::edge::odp::Held;
use super::edge::odp::HeldByC;
use super::edge::odp::Locked;
use super::edge::odp::NotifierOps;
use super::edge::odp::Odp;
use super::edge::odp::PidRef;
use super::edge::odp::Plan;
use super::edge::odp::Users;
use crate::private;
use kernel::error::Error;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::mm::MmWithUser;
use kernel::page::PAGE_SHIFT;
use kernel::prelude::*;
use kernel::time::Delta;
use kernel::time::Instant;
use kernel::time::Monotonic;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::umem::HostDevice;

/// Entry flag: the page is present.
const VALID: c_ulong = private::hmm_pfn_flags_HMM_PFN_VALID;

/// Entry flag: the page is mapped for the device.
const DMA_MAPPED: c_ulong = private::hmm_pfn_flags_HMM_PFN_DMA_MAPPED;

/// Entry flag: the page is writable.
const WRITE: u64 = private::hmm_pfn_flags_HMM_PFN_WRITE as u64;

/// Access flag: on-demand memory.
const ON_DEMAND: c_int = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int;

/// Access flag: memory of huge pages.
const HUGETLB: c_int = bindings::ib_access_flags_IB_ACCESS_HUGETLB as c_int;

/// Entry flags that are kept when the page is looked up again.
const STICKY: c_ulong =
    DMA_MAPPED | private::hmm_pfn_flags_HMM_PFN_P2PDMA | private::hmm_pfn_flags_HMM_PFN_P2PDMA_BUS;

/// Time for which lookups are repeated in page tables that keep changing
/// (`HMM_RANGE_DEFAULT_TIMEOUT`).
const PATIENCE: Delta = Delta::from_millis(1000);

/// Number of lookups that are made even if they take longer, as page faults may.
const LOOKUPS: u32 = 16;

/// Number of entries that are looked up without an allocation.
const SHORT: usize = 32;

/// Allocates the list of a draft and inserts its notifier into the process's `mm`.
///
/// # Errors
///
/// `EOVERFLOW` for an end beyond the address space; `EINVAL` for an empty range; `ENOMEM`; `EINTR`
/// if the process is being killed.
fn follow(mut draft: Draft, mm: &MmWithUser, ops: NotifierOps) -> Result<Owned<Odp>> {
    let (addr, len) = (draft.umem().address(), draft.umem().length());
    let page = 1usize.checked_shl(draft.page_shift()).ok_or(EINVAL)?;
    let mask = page.wrapping_sub(1);
    let first = addr & !mask;
    let last = addr.checked_add(len).ok_or(EOVERFLOW)?;
    let last = last.checked_add(mask).ok_or(EOVERFLOW)? & !mask;
    // The end is not below the start.
    let bytes = last.wrapping_sub(first);
    if bytes == 0 {
        return Err(EINVAL);
    }
    teach_reclaim(&draft);
    draft.list(bytes >> PAGE_SHIFT, page)?;
    draft.follow(mm, (first, bytes), ops)
}

/// Teaches lockdep that the mutex is taken during memory reclaim, which is rare in tests. So its
/// holders must not allocate.
fn teach_reclaim(odp: &Odp) {
    if cfg!(CONFIG_LOCKDEP) {
        edge::odp::reclaim_begins();
        drop(odp.mutex().lock());
        edge::odp::reclaim_ends();
    }
}

/// A lookup of pages of the system's size, starting at `first`.
struct Request {
    first: usize,
    fault: bool,
    write: bool,
}

/// Looks pages up in the page tables and locks the list. Repeats the lookup if pages were faulted in,
/// or a notifier has run before the list is locked. `scratch` has one element per page.
///
/// # Errors
///
/// `EBUSY` if the page tables keep changing; `EFAULT` if there is no such memory, or it cannot be
/// read; `EPERM` if it may not be written; `EINTR`; `ENOMEM`.
fn look_up<'a>(
    users: &'a Users<'_>,
    request: &Request,
    scratch: &mut [c_ulong],
) -> Result<Locked<'a>> {
    let mut flags = 0;
    if request.fault {
        flags |= private::hmm_pfn_flags_HMM_PFN_REQ_FAULT;
        if request.write {
            flags |= private::hmm_pfn_flags_HMM_PFN_REQ_WRITE;
        }
    }
    let begun = Instant::<Monotonic>::now();
    let mut lookups = 0u32;
    while lookups < LOOKUPS || begun.elapsed() <= PATIENCE {
        lookups = lookups.saturating_add(1);
        scratch.fill(0);
        match users.look_up(request.first, flags, scratch) {
            Ok(reading) => {
                if let Some(locked) = users.lock_if_valid(reading) {
                    return Ok(locked);
                }
            }
            Err(EBUSY) => {}
            Err(other) => return Err(other),
        }
    }
    Err(EBUSY)
}

/// Faults in the pages of `len` bytes at `addr` and records them in the list. Returns the number of
/// pages of the memory's page size. The mutex is held on success only.
///
/// # Errors
///
/// `EFAULT` for bytes outside the memory; `EINVAL` if the process has exited, or if a huge page is
/// required but not present; those of [`look_up`].
fn map(odp: &Odp, addr: u64, len: u64, fault: bool, write: bool) -> Result<usize> {
    let (start, end, shift) = (odp.start(), odp.end(), odp.page_shift());
    let addr = usize::try_from(addr).map_err(|_| EFAULT)?;
    let len = usize::try_from(len).map_err(|_| EFAULT)?;
    let to = addr.checked_add(len).ok_or(EFAULT)?;
    // Implicit memory has no list.
    let followed = odp.followed().ok_or(EFAULT)?;
    if addr < start || to > end {
        return Err(EFAULT);
    }
    // Start and end of the memory are aligned to its page size.
    let mask = 1usize.checked_shl(shift).ok_or(EINVAL)?.wrapping_sub(1);
    let first = addr & !mask;
    let pages = (to.wrapping_add(mask) & !mask).wrapping_sub(first) >> PAGE_SHIFT;
    // CAST: The constant is small.
    let per_entry = shift.saturating_sub(PAGE_SHIFT as u32);

    // The task is only checked for existence.
    if !odp.tgid().has_task() {
        return Err(EINVAL);
    }
    let users = followed.users().ok_or(EINVAL)?;

    let mut short = [0; SHORT];
    let mut long;
    let scratch = match short.get_mut(..pages) {
        Some(short) => short,
        None => {
            long = accounted::from_elem(0, pages)?;
            &mut long[..]
        }
    };
    let request = Request {
        first,
        fault,
        write,
    };
    let locked = look_up(&users, &request, scratch)?;
    let noted = note(
        &locked,
        first.wrapping_sub(start) >> shift,
        scratch,
        per_entry,
    )?;
    locked.leave();
    Ok(noted)
}

/// Records the found pages in the list, starting at entry `first`. Each entry represents
/// `1 << per_entry` system pages. Returns the number of entries.
///
/// # Errors
///
/// `EINVAL` if a huge page is required but not present.
fn note(held: &Held<'_>, first: usize, found: &[c_ulong], per_entry: u32) -> Result<usize> {
    let list = held.list().get(first..).ok_or(EINVAL)?;
    let step = 1usize.checked_shl(per_entry).ok_or(EINVAL)?;
    let mut noted = 0usize;
    // The first system page of a huge page determines its address.
    for (entry, &found) in list.iter().zip(found.iter().step_by(step)) {
        let order = (found >> private::hmm_pfn_flags_HMM_PFN_ORDER_SHIFT) & 0x1f;
        let valid = found & VALID != 0;
        let mapped = entry.get() & DMA_MAPPED != 0;
        // CAST: The value is small.
        if valid && !mapped && order < per_entry as usize {
            return Err(EINVAL);
        }
        entry.set(found | (entry.get() & STICKY));
        noted = noted.wrapping_add(1);
    }
    Ok(noted)
}

/// Removes pages from the list and unmaps them for the device.
fn unmap(held: &Held<'_>, from: u64, to: u64) {
    let (start, end) = (held.start() as u64, held.end() as u64);
    let (from, to) = (from.max(start), to.min(end));
    if from >= to {
        return;
    }
    // Indices of the list. CAST: They are less than an address.
    let index = |at: u64| {
        at.wrapping_sub(start)
            .checked_shr(held.page_shift())
            .unwrap_or(0) as usize
    };
    for index in index(from)..=index(to.wrapping_sub(1)) {
        held.unmap(index);
    }
}

/// Creates on-demand memory for `size` bytes at `addr` of the current process. No page is mapped
/// yet.
///
/// # Errors
///
/// `EINVAL` if `access` is not for on-demand memory; those of [`follow`].
fn get(
    host: HostDevice,
    addr: c_ulong,
    size: usize,
    access: c_int,
    ops: NotifierOps,
) -> Result<Owned<Odp>> {
    if access & ON_DEMAND == 0 {
        return Err(EINVAL);
    }
    let plan = Plan {
        host,
        part: Some((addr, size)),
        writable: edge::writable(access),
        page_shift: if access & HUGETLB != 0 {
            edge::odp::hpage_shift()
        } else {
            // CAST: The constant is small.
            PAGE_SHIFT as u32
        },
    };
    let current = current!();
    let mm = current.mm().ok_or(EINVAL)?;
    let draft = Draft::new(&plan, mm, PidRef::of_current()?)?;
    follow(draft, mm, ops)
}

/// Creates on-demand memory for the whole address space of the current process. It has no pages of
/// its own; the driver creates children for the parts that the device accesses.
///
/// # Errors
///
/// `EINVAL` for huge pages, `ENOMEM`.
fn alloc_implicit(host: HostDevice, access: c_int) -> Result<Owned<Odp>> {
    if access & HUGETLB != 0 {
        return Err(EINVAL);
    }
    let plan = Plan {
        host,
        part: None,
        writable: edge::writable(access),
        // CAST: The constant is small.
        page_shift: PAGE_SHIFT as u32,
    };
    let current = current!();
    let mm = current.mm().ok_or(EINVAL)?;
    Draft::new(&plan, mm, PidRef::of_current()?)?.implicit()
}

/// Creates on-demand memory for `size` bytes at `addr` of the process of `root`, which must outlive
/// the child.
///
/// # Errors
///
/// `EINVAL` if `root` is not [implicit](alloc_implicit); `EFAULT` if the process has exited; those
/// of [`follow`].
fn alloc_child(root: &Odp, addr: c_ulong, size: usize, ops: NotifierOps) -> Result<Owned<Odp>> {
    if !root.is_implicit() {
        return Err(EINVAL);
    }
    // The driver keeps the `mm` as long as the root exists.
    let users = edge::odp::users(root.mm()).ok_or(EFAULT)?;
    let plan = Plan {
        host: root.umem().host(),
        part: Some((addr, size)),
        writable: root.umem().writable(),
        // CAST: The constant is small.
        page_shift: PAGE_SHIFT as u32,
    };
    let draft = Draft::new(&plan, root.mm(), root.tgid().another()?)?;
    follow(draft, &users, ops)
}

/// Releases memory that no device uses any more.
pub(super) fn release(odp: Owned<Odp>) {
    if let Some(followed) = odp.followed() {
        unmap(&followed.lock(), 0, u64::MAX);
    }
    edge::odp::end(odp);
}

/// Faults in the pages of `bytes` at `at`. Returns the number of pages of the memory's page size
/// with the mutex held, or an error without ([`map`]).
///
/// `access` has `HMM_PFN_WRITE` if the device may write to the pages. Without `fault`, only pages
/// that are present are recorded.
fn map_and_lock(odp: &Odp, at: u64, bytes: u64, access: u64, fault: bool) -> c_int {
    let write = access & WRITE != 0;
    // The count fits: a longer list could not be allocated.
    map(odp, at, bytes, fault, write).map_or_else(Error::to_errno, |pages| {
        c_int::try_from(pages).unwrap_or(c_int::MAX)
    })
}

/// Unmaps the pages between two addresses, which no device uses any more.
fn unmap_pages(held: HeldByC<'_>, from: u64, to: u64) {
    held.assert();
    if let Some(held) = held.followed() {
        unmap(&held, from, to);
    }
}

rdma::export! {
    in rdma::bindings;

    /// See [`get`].
    fn ib_umem_odp_get(
        host: HostDevice, addr: usize, size: usize, access: c_int, ops: NotifierOps,
    ) -> Result<Owned<Odp>> = get;
    /// See [`alloc_implicit`].
    fn ib_umem_odp_alloc_implicit(host: HostDevice, access: c_int) -> Result<Owned<Odp>>
        = alloc_implicit;
    /// See [`alloc_child`].
    fn ib_umem_odp_alloc_child(root: &Odp, addr: usize, size: usize, ops: NotifierOps)
        -> Result<Owned<Odp>> = alloc_child;
    /// See [`release`].
    fn ib_umem_odp_release(odp: Owned<Odp>) = release;
    /// See [`map_and_lock`].
    fn ib_umem_odp_map_dma_and_lock(odp: &Odp, at: u64, bytes: u64, access: u64, fault: bool)
        -> c_int = map_and_lock;
    /// See [`unmap_pages`].
    fn ib_umem_odp_unmap_dma_pages(held: HeldByC<'_>, from: u64, to: u64) = unmap_pages;
}
