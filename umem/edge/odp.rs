// SPDX-License-Identifier: GPL-2.0

//! On-demand memory (`struct ib_umem_odp`): the notifier that mirrors a process's page tables, and
//! the list of its pages, which `umem_mutex` guards.
//!
//! C headers: `include/rdma/ib_umem_odp.h`, `include/linux/mmu_notifier.h` and
//! `include/linux/hmm-dma.h`. Memory is either *implicit*, without pages of its own, or *followed*:
//! its notifier is inserted and it has a list, from [`Draft::follow`] to [`end`].

use crate::private;
use core::cell::Cell;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::mm::Mm;
use kernel::mm::MmWithUser;
use kernel::mm::MmWithUserAsync;
use kernel::page::PAGE_SHIFT;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::Mutex;
use kernel::task::Task;
use rdma::accounted;
use rdma::bindings;
use rdma::bindings::mmu_interval_notifier_ops;
use rdma::edge::device::Device;
use rdma::edge::object::Owned;
use rdma::edge::umem::HostDevice;
use rdma::edge::umem::Umem;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;

rdma::c_struct! {
    /// The notifier of followed memory, which is inserted. Only [`Followed`] has such a view.
    struct Notifier: bindings::mmu_interval_notifier;
    fields {}
}

rdma::c_struct! {
    /// A process, identified by its `struct pid`.
    pub(in super::super) struct Pid: bindings::pid;
    fields {}
}

rdma::c_struct! {
    /// On-demand memory.
    pub(in super::super) struct Odp: bindings::ib_umem_odp;
    fields {
        /// The head, common to all kinds.
        embed umem: Umem;
        /// The process's `mm`. The notifier keeps it; for implicit memory, the driver does.
        const mm at umem.owning_mm: &Mm;
        /// The process; the memory owns a reference.
        const tgid: &Pid;
        /// Whether the memory is implicit. Written at creation.
        const is_implicit at is_implicit_odp: bool;
        /// Base-2 logarithm of the page size.
        const page_shift: u32;
        /// First address of its pages. Written when the notifier is inserted.
        const start at notifier.interval_tree.start: usize;
        /// Last address of its pages.
        const last at notifier.interval_tree.last: usize;
        /// Number of mapped pages. Changed under the mutex.
        racy npages: i32, set_npages;
        /// Guards the list.
        embed mutex at umem_mutex: Mutex<()>;
    }
}

rdma::c_struct! {
    /// Fields that only followed memory uses.
    struct Parts: bindings::ib_umem_odp;
    fields {
        /// The notifier, which is inserted.
        embed notifier: Notifier;
        /// The list, allocated with an entry for each page of the system's size. Written at
        /// creation.
        const pfn_list at map.pfn_list: Passed<c_ulong>;
    }
}

rdma::import! {
    in rdma::bindings;

    /// Base-2 logarithm of the huge page size.
    pub(in super::super) fn hpage_shift() -> u32 = rdma_helper_hpage_shift;
    /// Returns whether the device uses kernel virtual addresses for DMA.
    fn uses_virt_dma(device: &Device) -> bool = rdma_helper_ib_uses_virt_dma;
    /// Tells lockdep that memory reclaim begins.
    pub(in super::super) fn reclaim_begins() = rdma_helper_fs_reclaim_acquire;
    /// Tells lockdep that memory reclaim ends.
    pub(in super::super) fn reclaim_ends() = rdma_helper_fs_reclaim_release;
    /// Has lockdep check that the mutex is held.
    fn assert_held(odp: &Odp) = rdma_helper_odp_assert_held;
    /// Returns whether the notifier has run since the read began.
    fn interval_read_retry(notifier: &Notifier, seq: c_ulong) -> bool
        = rdma_helper_interval_read_retry;
    fn get_pid(pid: &Pid) -> Result<PidRef> = rdma_helper_get_pid;
}

/// A reference to a process (`struct pid`).
///
/// # Invariants
///
/// This value owns the reference.
pub(in super::super) struct PidRef(NonNull<bindings::pid>);

// SAFETY: `from_c` is for a reference that is passed on.
unsafe impl FromC for PidRef {
    type C = *mut bindings::pid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Not null: contract of this function. INVARIANT: The reference is passed on by the
        // same contract.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl PidRef {
    /// Takes a reference to the current process.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has no `struct pid`.
    pub(in super::super) fn of_current() -> Result<Self> {
        // SAFETY: The current task exists. INVARIANT: The function takes a reference.
        let pid =
            unsafe { bindings::get_task_pid(Task::current_raw(), bindings::pid_type_PIDTYPE_TGID) };
        NonNull::new(pid).map(Self).ok_or(EINVAL)
    }
}

impl Drop for PidRef {
    fn drop(&mut self) {
        // SAFETY: This value owns the reference: type invariant.
        unsafe { bindings::put_pid(self.0.as_ptr()) };
    }
}

impl Pid {
    /// Takes another reference.
    pub(in super::super) fn another(&self) -> Result<PidRef> {
        get_pid(self)
    }

    /// Returns whether the process has a task.
    pub(in super::super) fn has_task(&self) -> bool {
        // SAFETY: `self` is a valid `struct pid`. `get_pid_task` takes a reference to the task it
        // returns.
        unsafe {
            let task = bindings::get_pid_task(self.raw(), bindings::pid_type_PIDTYPE_PID);
            if task.is_null() {
                return false;
            }
            bindings::put_task_struct(task);
        }
        true
    }
}

/// The operations of a notifier.
///
/// # Invariants
///
/// The operations exist until the memory that uses them is released.
#[derive(Clone, Copy)]
pub(in super::super) struct NotifierOps(*const mmu_interval_notifier_ops);

// SAFETY: `from_c` has the type invariant as its contract, which drivers uphold
// (`ib_umem_odp_get`).
unsafe impl FromC for NotifierOps {
    type C = *const mmu_interval_notifier_ops;

    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Contract of this function.
        Self(c)
    }
}

// SAFETY: It is not limited to a call: type invariant.
unsafe impl Within<'_> for NotifierOps {}

/// Memory that is being created or freed.
///
/// # Invariants
///
/// If `listed`, the memory has a list that nobody else uses; its notifier is not inserted.
pub(in super::super) struct Draft {
    odp: KBox<Odp>,
    _tgid: PidRef,
    listed: bool,
}

/// Parameters of on-demand memory.
pub(in super::super) struct Plan {
    /// The device.
    pub(in super::super) host: HostDevice,
    /// First address and size in bytes; `None` for implicit memory.
    pub(in super::super) part: Option<(usize, usize)>,
    /// Whether the device may write to the memory.
    pub(in super::super) writable: bool,
    /// Base-2 logarithm of the page size.
    pub(in super::super) page_shift: u32,
}

impl Draft {
    /// Creates memory of the process `tgid`, with its `mm`.
    pub(in super::super) fn new(plan: &Plan, mm: &Mm, tgid: PidRef) -> Result<Self> {
        let mut odp = KBox::new(bindings::ib_umem_odp::default(), accounted::GFP)?;
        odp.umem.ibdev = plan.host.into_c();
        odp.umem.owning_mm = mm.as_raw();
        odp.umem.set_writable(plan.writable.into());
        odp.umem.set_is_odp(1);
        odp.page_shift = plan.page_shift;
        odp.is_implicit_odp = plan.part.is_none();
        (odp.umem.address, odp.umem.length) = plan.part.unwrap_or_default();
        odp.tgid = tgid.0.as_ptr();
        let odp = KBox::into_raw(odp);
        // SAFETY: The memory is exclusive and does not move, since it is in its box. The view is
        // transparent over the structure, whose constant fields have been written.
        let odp = unsafe {
            bindings::rdma_helper_odp_init_mutex(odp);
            KBox::from_raw(odp.cast())
        };
        // INVARIANT: There is no list.
        Ok(Self {
            odp,
            _tgid: tgid,
            listed: false,
        })
    }

    /// Allocates the list with `entries` entries, for pages of `page` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in super::super) fn list(&mut self, entries: usize, page: usize) -> Result {
        let host = self.odp.umem().host();
        let odp = self.odp.raw();
        if uses_virt_dma(&host) {
            let list = accounted::from_elem::<c_ulong>(0, entries)?;
            // SAFETY: Access to the memory is exclusive.
            unsafe { (*odp).map.pfn_list = list.into_raw_parts().0 };
        } else {
            // SAFETY: The device exists (`HostDevice`), and access to the map is exclusive.
            to_result(unsafe {
                let dma_device = host.dma_device().into_c();
                private::hmm_dma_map_alloc(dma_device, &raw mut (*odp).map, entries, page)
            })?;
        }
        // INVARIANT: The list was just allocated.
        self.listed = true;
        Ok(())
    }

    /// Inserts the notifier for `bytes` from `first` on. `mm` must be the one that the draft was
    /// created with; the list must have been allocated.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another `mm`, or without a list; `ENOMEM`; `EINTR` if the process is being
    /// killed; `EOVERFLOW`.
    pub(in super::super) fn follow(
        mut self,
        mm: &MmWithUser,
        (first, bytes): (usize, usize),
        ops: NotifierOps,
    ) -> Result<Owned<Odp>> {
        if !self.listed || mm.as_raw() != self.odp.mm().as_raw() {
            return Err(EINVAL);
        }
        let odp = self.odp.raw();
        // SAFETY: The memory does not move until the notifier is removed; the `mm` has users while
        // it is borrowed; the operations live long enough (`NotifierOps`).
        to_result(unsafe {
            let notifier = &raw mut (*odp).notifier;
            private::mmu_interval_notifier_insert(notifier, mm.as_raw(), first, bytes, ops.0)
        })?;
        // The list now belongs to the memory.
        self.listed = false;
        Ok(self.finish())
    }

    /// Passes the memory to C: implicit memory, or memory from [`Self::follow`].
    fn finish(self) -> Owned<Odp> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: Access to the memory is exclusive, and ownership is given up.
        unsafe { Owned::from_c(this.odp.raw()) }
    }

    /// Passes implicit memory to C.
    ///
    /// # Errors
    ///
    /// `EINVAL` for other memory.
    pub(in super::super) fn implicit(self) -> Result<Owned<Odp>> {
        if self.odp.is_implicit() {
            Ok(self.finish())
        } else {
            Err(EINVAL)
        }
    }
}

impl Deref for Draft {
    type Target = Odp;

    fn deref(&self) -> &Odp {
        &self.odp
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.listed {
            return;
        }
        let (odp, host) = (self.odp.raw(), self.odp.umem().host());
        // SAFETY: The list was allocated by `list`, and nobody else uses it: type invariant. The
        // device exists (`HostDevice`).
        unsafe {
            if uses_virt_dma(&host) {
                bindings::kvfree((*odp).map.pfn_list.cast());
            } else {
                private::hmm_dma_map_free(host.dma_device().into_c(), &raw mut (*odp).map);
            }
        }
    }
}

/// Frees memory without mapped pages. May sleep.
pub(in super::super) fn end(odp: Owned<Odp>) {
    let followed = !odp.is_implicit();
    let odp = odp.into_raw().as_ptr();
    // SAFETY: The memory is from `Draft::finish`, with a reference to its process, and access to it
    // is exclusive (`Owned`). After its removal, the notifier is not called.
    // INVARIANT: Followed memory has a list.
    unsafe {
        if followed {
            private::mmu_interval_notifier_remove(&raw mut (*odp).notifier);
        }
        drop(Draft {
            odp: KBox::from_raw(odp.cast()),
            _tgid: PidRef::from_c((*odp).tgid),
            listed: followed,
        });
    }
}

impl Odp {
    /// Returns the on-demand memory that contains a head; `None` for other kinds.
    pub(in super::super) fn of_head(umem: &Umem) -> Option<&Self> {
        if !umem.is_odp() {
            return None;
        }
        // SAFETY: The flag says that the head is the first field of on-demand memory.
        Some(unsafe { Self::view(umem.raw().cast()) })
    }

    /// Address after the last page.
    pub(in super::super) fn end(&self) -> usize {
        self.last().wrapping_add(1)
    }

    /// Returns the memory as followed memory, unless it is implicit.
    pub(in super::super) fn followed(&self) -> Option<Followed<'_>> {
        // SAFETY: Another view of the same structure. Memory that is not implicit is followed (see
        // above).
        (!self.is_implicit()).then(|| unsafe { Followed(self, Parts::view(self.raw())) })
    }
}

/// Memory that mirrors page tables.
///
/// # Invariants
///
/// Its notifier is inserted, and it has a list.
#[derive(Clone, Copy)]
pub(in super::super) struct Followed<'a>(&'a Odp, &'a Parts);

impl Deref for Followed<'_> {
    type Target = Odp;

    fn deref(&self) -> &Odp {
        self.0
    }
}

impl<'a> Followed<'a> {
    /// Keeps the process's `mm` alive; `None` if the process has exited.
    pub(in super::super) fn users(self) -> Option<Users<'a>> {
        users(self.mm()).map(|mm| Users { of: self, _mm: mm })
    }

    /// Locks the list. May sleep.
    pub(in super::super) fn lock(self) -> Locked<'a> {
        let guard = self.0.mutex().lock();
        // INVARIANT: The mutex was just locked, and is held until the guard is dropped.
        Locked(Held(self), guard)
    }
}

/// Keeps an `mm` alive; `None` if its process has exited. The reference is dropped asynchronously,
/// since tearing down the `mm` would wait for this memory's own notifier.
pub(in super::super) fn users(mm: &Mm) -> Option<ARef<MmWithUserAsync>> {
    mm.mmget_not_zero().map(MmWithUser::into_mmput_async)
}

/// Sequence number of a read of the page tables; invalidated by the notifier.
#[derive(Clone, Copy)]
pub(in super::super) struct Reading(c_ulong);

/// Followed memory whose process's `mm` is kept alive.
pub(in super::super) struct Users<'a> {
    of: Followed<'a>,
    _mm: ARef<MmWithUserAsync>,
}

impl Users<'_> {
    /// Looks up the pages at `first`, one for each element of `pages`, in the page tables, and faults
    /// in missing ones if `flags` (`enum hmm_pfn_flags`) say so. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a page was faulted in or a notifier has run meanwhile: look them up again;
    /// `EFAULT` if there is no such memory, or it cannot be read; `EPERM` if it may not be written;
    /// `EINTR`; `ENOMEM`; `EINVAL` for pages outside the memory.
    pub(in super::super) fn look_up(
        &self,
        first: usize,
        flags: c_ulong,
        pages: &mut [c_ulong],
    ) -> Result<Reading> {
        // A slice has fewer elements than the address space has bytes.
        let end = first.checked_add(pages.len() << PAGE_SHIFT).ok_or(EINVAL)?;
        let notifier = self.of.1.notifier().raw();
        let mut range = private::hmm_range {
            notifier,
            start: first,
            end,
            hmm_pfns: pages.as_mut_ptr(),
            default_flags: flags,
            ..private::hmm_range::default()
        };
        // SAFETY: The notifier is inserted (`Followed`), in an `mm` that is kept alive; `pages` has an
        // element for each page.
        to_result(unsafe { bindings::rdma_helper_hmm_range_fault((&raw mut range).cast()) })?;
        Ok(Reading(range.notifier_seq))
    }

    /// Locks the list; `None` if a notifier has run since the read began. May sleep.
    pub(in super::super) fn lock_if_valid(&self, reading: Reading) -> Option<Locked<'_>> {
        let locked = self.of.lock();
        (!interval_read_retry(self.of.1.notifier(), reading.0)).then_some(locked)
    }
}

/// Followed memory with its mutex held.
///
/// # Invariants
///
/// For `'a`, the current thread holds the mutex.
pub(in super::super) struct Held<'a>(Followed<'a>);

impl<'a> Deref for Held<'a> {
    type Target = Followed<'a>;

    fn deref(&self) -> &Followed<'a> {
        &self.0
    }
}

impl Held<'_> {
    /// The list, with an entry for each page of the memory's page size.
    pub(in super::super) fn list(&self) -> &[Cell<c_ulong>] {
        let bytes = self.end().wrapping_sub(self.start());
        let count = bytes.checked_shr(self.page_shift()).unwrap_or(0);
        // SAFETY: The list has at least as many entries (`Draft::follow`). Only the holder of the
        // mutex, this thread, accesses it: type invariant.
        unsafe {
            core::slice::from_raw_parts(self.0 .1.pfn_list().into_c().cast_const().cast(), count)
        }
    }

    /// Removes a page from the list and unmaps it for the device.
    pub(in super::super) fn unmap(&self, index: usize) {
        let Some(entry) = self.list().get(index) else {
            return;
        };
        let was = entry.get();
        // Most pages of a long range are absent.
        let mapped =
            private::hmm_pfn_flags_HMM_PFN_VALID | private::hmm_pfn_flags_HMM_PFN_DMA_MAPPED;
        if was & mapped != mapped {
            entry.set(was & !private::hmm_pfn_flags_HMM_PFN_FLAGS);
            return;
        }
        let dma_device = self.umem().host().dma_device().into_c();
        let odp = self.0 .0.raw();
        // SAFETY: The list has such an entry, and the mutex is held: type invariant. The page of a
        // mapped entry belongs to the process until the mutex is released.
        unsafe {
            if private::hmm_dma_unmap_pfn(dma_device, &raw mut (*odp).map, index) {
                if was & private::hmm_pfn_flags_HMM_PFN_WRITE != 0 {
                    // Without the page lock, which notifiers may or may not hold. The mutex delays
                    // those that would free the page.
                    bindings::rdma_helper_hmm_pfn_set_dirty(was);
                }
                self.set_npages(self.npages().wrapping_sub(1));
            }
        }
        entry.set(entry.get() & !private::hmm_pfn_flags_HMM_PFN_FLAGS);
    }
}

/// Memory whose mutex is held by C; may be implicit.
///
/// # Invariants
///
/// For `'a`, the current thread holds the mutex.
pub(in super::super) struct HeldByC<'a>(&'a Odp);

// SAFETY: `from_c` has the type invariant as its contract, which drivers uphold
// (`ib_umem_odp_unmap_dma_pages`).
unsafe impl FromC for HeldByC<'_> {
    type C = *mut bindings::ib_umem_odp;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: On-demand memory: contract of this function. INVARIANT: The mutex is held by the
        // same contract.
        Self(unsafe { Odp::view(c) })
    }
}

// SAFETY: The reference is limited to `'a`.
unsafe impl<'a> Within<'a> for HeldByC<'a> {}

impl<'a> HeldByC<'a> {
    /// Has lockdep check that the mutex is held.
    pub(in super::super) fn assert(&self) {
        assert_held(self.0);
    }

    /// Returns the memory, if it is followed.
    pub(in super::super) fn followed(self) -> Option<Held<'a>> {
        // INVARIANT: Type invariant of `self`.
        self.0.followed().map(Held)
    }
}

/// Followed memory whose mutex is held until this is dropped.
pub(in super::super) struct Locked<'a>(Held<'a>, Guard<'a, (), MutexBackend>);

impl<'a> Deref for Locked<'a> {
    type Target = Held<'a>;

    fn deref(&self) -> &Held<'a> {
        &self.0
    }
}

impl Locked<'_> {
    /// Leaves the mutex locked; the caller of the exported function unlocks it.
    pub(in super::super) fn leave(self) {
        core::mem::forget(self.1);
    }
}
