// SPDX-License-Identifier: GPL-2.0

//! On-demand memory (`struct ib_umem_odp`): the notifier by which it follows a process's page tables,
//! and the list of its pages, which `umem_mutex` guards.
//!
//! To be held against `include/rdma/ib_umem_odp.h`, `include/linux/mmu_notifier.h` and
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
    /// The notifier of followed memory; zero in implicit memory.
    struct Notifier: bindings::mmu_interval_notifier;
    fields {}
}

rdma::c_struct! {
    /// A process, as its number stands for it.
    pub(in super::super) struct Pid: bindings::pid;
    fields {}
}

rdma::c_struct! {
    /// On-demand memory.
    pub(in super::super) struct Odp: bindings::ib_umem_odp;
    fields {
        /// The part that all kinds have.
        embed umem: Umem;
        /// The process's memory, which the notifier keeps; that of implicit memory the driver does.
        const mm at umem.owning_mm: &Mm;
        /// The process, of which the memory has a reference.
        const tgid: &Pid;
        /// Whether it is implicit. Written when it is made, in memory that was zero.
        const is_implicit at is_implicit_odp: bool;
        /// The size of its pages, as a power of two.
        const page_shift: u32;
        /// The first address of its pages. Written when the notifier is inserted.
        const start at notifier.interval_tree.start: usize;
        /// The last address of its pages.
        const last at notifier.interval_tree.last: usize;
        /// How many pages are mapped. Changed under the mutex.
        racy npages: i32, set_npages;
        /// Guards the list.
        embed mutex at umem_mutex: Mutex<()>;
    }
}

rdma::c_struct! {
    /// What only followed memory has.
    struct Parts: bindings::ib_umem_odp;
    fields {
        /// The notifier, which is inserted.
        embed notifier: Notifier;
        /// The list, of an entry for each page of the system's size. Written when it is made.
        const pfn_list at map.pfn_list: Passed<c_ulong>;
    }
}

rdma::import! {
    in rdma::bindings;

    /// The size of huge pages, as a power of two.
    pub(in super::super) fn hpage_shift() -> u32 = rdma_helper_hpage_shift;
    /// Whether the device's addresses are the kernel's.
    fn uses_virt_dma(device: &Device) -> bool = rdma_helper_ib_uses_virt_dma;
    /// Tells lockdep that memory is being reclaimed.
    pub(in super::super) fn reclaim_begins() = rdma_helper_fs_reclaim_acquire;
    /// Ends what `reclaim_begins` began.
    pub(in super::super) fn reclaim_ends() = rdma_helper_fs_reclaim_release;
    /// Lets lockdep check that the mutex is held.
    fn assert_held(odp: &Odp) = rdma_helper_odp_assert_held;
    /// For inserted notifiers: those of `Followed`.
    fn interval_read_retry(notifier: &Notifier, seq: c_ulong) -> bool
        = rdma_helper_interval_read_retry;
    fn get_pid(pid: &Pid) -> Result<PidRef> = rdma_helper_get_pid;
}

rdma::import! {
    in crate::private;

    /// For inserted notifiers: those of `Followed`. May sleep.
    fn interval_read_begin(notifier: &Notifier) -> c_ulong = mmu_interval_read_begin;
}

/// A reference to a process.
///
/// # Invariants
///
/// We own the reference.
pub(in super::super) struct PidRef(NonNull<bindings::pid>);

// SAFETY: `from_c`'s contract is that a reference is given.
unsafe impl FromC for PidRef {
    type C = *mut bindings::pid;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Not null: contract of this function. INVARIANT: By the same contract.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl PidRef {
    /// The current process.
    ///
    /// # Errors
    ///
    /// `EINVAL`, if it has none.
    pub(in super::super) fn of_current() -> Result<Self> {
        // SAFETY: The current task exists. INVARIANT: The function has taken a reference.
        let pid =
            unsafe { bindings::get_task_pid(Task::current_raw(), bindings::pid_type_PIDTYPE_TGID) };
        NonNull::new(pid).map(Self).ok_or(EINVAL)
    }
}

impl Drop for PidRef {
    fn drop(&mut self) {
        // SAFETY: The reference is ours: type invariant.
        unsafe { bindings::put_pid(self.0.as_ptr()) };
    }
}

impl Pid {
    /// One more reference.
    pub(in super::super) fn another(&self) -> Result<PidRef> {
        get_pid(self)
    }

    /// Whether the process has a task.
    pub(in super::super) fn has_task(&self) -> bool {
        // SAFETY: A process (promise of a reference). A task that is found is counted for us.
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
/// They exist until the memory that they are of is released.
#[derive(Clone, Copy)]
pub(in super::super) struct NotifierOps(*const mmu_interval_notifier_ops);

// SAFETY: `from_c`'s contract is the type invariant, which drivers keep to (`ib_umem_odp_get`).
unsafe impl FromC for NotifierOps {
    type C = *const mmu_interval_notifier_ops;

    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: By the contract of this function.
        Self(c)
    }
}

// SAFETY: It is not limited to a call: type invariant.
unsafe impl Within<'_> for NotifierOps {}

/// Memory that is being made, or ended.
///
/// # Invariants
///
/// If `listed`, it has a list, which nobody else uses; its notifier is not inserted.
pub(in super::super) struct Draft {
    odp: KBox<Odp>,
    _tgid: PidRef,
    listed: bool,
}

/// What memory is made of.
pub(in super::super) struct Plan {
    /// The device that it is for.
    pub(in super::super) host: HostDevice,
    /// The first address, and bytes; nothing for implicit memory.
    pub(in super::super) part: Option<(usize, usize)>,
    /// Whether the device may write to it.
    pub(in super::super) writable: bool,
    /// The size of its pages, as a power of two.
    pub(in super::super) page_shift: u32,
}

impl Draft {
    /// Memory of a process, whose memory is `mm`.
    pub(in super::super) fn new(plan: &Plan, mm: &Mm, tgid: PidRef) -> Result<Self> {
        let mut odp = KBox::new(bindings::ib_umem_odp::default(), GFP_KERNEL)?;
        odp.umem.ibdev = plan.host.into_c();
        odp.umem.owning_mm = mm.as_raw();
        odp.umem.set_writable(plan.writable.into());
        odp.umem.set_is_odp(1);
        odp.page_shift = plan.page_shift;
        odp.is_implicit_odp = plan.part.is_none();
        (odp.umem.address, odp.umem.length) = plan.part.unwrap_or_default();
        odp.tgid = tgid.0.as_ptr();
        let odp = KBox::into_raw(odp);
        // SAFETY: The memory is ours, and does not move: it is in its box. The view is transparent over
        // the structure, whose constant fields are written.
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

    /// Gives it a list of `entries`, for pages of `page` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in super::super) fn list(&mut self, entries: usize, page: usize) -> Result {
        let host = self.odp.umem().host();
        let odp = self.odp.raw();
        if uses_virt_dma(&host) {
            let list = KVVec::<c_ulong>::from_elem(0, entries, GFP_KERNEL | __GFP_NOWARN)?;
            // SAFETY: The memory is ours alone.
            unsafe { (*odp).map.pfn_list = list.into_raw_parts().0 };
        } else {
            // SAFETY: The device exists (`HostDevice`), and the map is ours to fill in.
            to_result(unsafe {
                let dma_device = host.dma_device().into_c();
                private::hmm_dma_map_alloc(dma_device, &raw mut (*odp).map, entries, page)
            })?;
        }
        // INVARIANT: Just made.
        self.listed = true;
        Ok(())
    }

    /// Follows the page tables of `bytes` from `first` on, with a list of as many pages. `mm` is the
    /// process's memory that the draft was made with, and has users.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another process's memory, or without a list of as many pages; `ENOMEM`; `EINTR`
    /// if the process is being killed; `EOVERFLOW`.
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
        // SAFETY: The memory stays where it is until the notifier is removed; the process's memory has
        // users while `mm` is borrowed; the operations exist as long (`NotifierOps`).
        to_result(unsafe {
            let notifier = &raw mut (*odp).notifier;
            private::mmu_interval_notifier_insert(notifier, mm.as_raw(), first, bytes, ops.0)
        })?;
        // The list is the memory's from now on.
        self.listed = false;
        Ok(self.finish())
    }

    /// Gives it to C as it is: implicit memory, or what [`Self::follow`] made.
    fn finish(self) -> Owned<Odp> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: Nobody else has it, and it is given up.
        unsafe { Owned::from_c(this.odp.raw()) }
    }

    /// Gives implicit memory to C.
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
        // SAFETY: The list was made by `list`, and nobody else uses it: type invariant. The device
        // exists (`HostDevice`).
        unsafe {
            if uses_virt_dma(&host) {
                bindings::kvfree((*odp).map.pfn_list.cast());
            } else {
                private::hmm_dma_map_free(host.dma_device().into_c(), &raw mut (*odp).map);
            }
        }
    }
}

/// Ends memory of which no page is mapped any more. May sleep.
pub(in super::super) fn end(odp: Owned<Odp>) {
    let followed = !odp.is_implicit();
    let odp = odp.into_raw().as_ptr();
    // SAFETY: The memory is that of `Draft::finish`, with a reference to its process, and nobody else
    // has it (`Owned`). After the removal no notifier is called.
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
    /// The memory that a head is of, if it comes on demand.
    pub(in super::super) fn of_head(umem: &Umem) -> Option<&Self> {
        if !umem.is_odp() {
            return None;
        }
        // SAFETY: By its flag it is the head, the first field, of such memory.
        Some(unsafe { Self::view(umem.raw().cast()) })
    }

    /// The address behind the last of its pages.
    pub(in super::super) fn end(&self) -> usize {
        self.last().wrapping_add(1)
    }

    /// What it has if it is not implicit.
    pub(in super::super) fn followed(&self) -> Option<Followed<'_>> {
        // SAFETY: Another view of the same structure; what is not implicit is followed (see above).
        (!self.is_implicit()).then(|| unsafe { Followed(self, Parts::view(self.raw())) })
    }
}

/// Memory that follows page tables.
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
    /// The process's memory while it has users; none if the process has ended.
    pub(in super::super) fn users(self) -> Option<Users<'a>> {
        users(self.mm()).map(|mm| Users { of: self, mm })
    }

    /// Locks the list. May sleep.
    pub(in super::super) fn lock(self) -> Locked<'a> {
        let guard = self.0.mutex().lock();
        // INVARIANT: Just locked, until the guard is dropped.
        Locked(Held(self), guard)
    }
}

/// A process's memory while it has users; none if the process has ended. Dropping it does not take
/// the memory down, which would wait for our own notifier.
pub(in super::super) fn users(mm: &Mm) -> Option<ARef<MmWithUserAsync>> {
    mm.mmget_not_zero().map(MmWithUser::into_mmput_async)
}

/// A reading of the page tables, which a notifier makes void.
#[derive(Clone, Copy)]
pub(in super::super) struct Reading(c_ulong);

/// Followed memory whose process still runs.
pub(in super::super) struct Users<'a> {
    of: Followed<'a>,
    mm: ARef<MmWithUserAsync>,
}

impl Users<'_> {
    /// Begins a reading. May sleep.
    pub(in super::super) fn read(&self) -> Reading {
        Reading(interval_read_begin(self.of.1.notifier()))
    }

    /// Looks up the pages from `first` on, for each an element of `pages`. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a notifier ran since the reading began; `EFAULT` if there is no such memory;
    /// `EINTR`; `EINVAL` for pages that are not the memory's.
    pub(in super::super) fn fault(
        &self,
        reading: Reading,
        first: usize,
        flags: c_ulong,
        pages: &mut [c_ulong],
    ) -> Result {
        // A slice has no more elements than the address space has bytes.
        let end = first.checked_add(pages.len() << PAGE_SHIFT).ok_or(EINVAL)?;
        let notifier = self.of.1.notifier().raw();
        let mut range = private::hmm_range {
            notifier,
            notifier_seq: reading.0,
            start: first,
            end,
            hmm_pfns: pages.as_mut_ptr(),
            default_flags: flags,
            ..private::hmm_range::default()
        };
        let _guard = self.mm.mmap_read_lock();
        // SAFETY: The notifier is inserted (`Followed`), in the process's memory that is locked; `pages`
        // has an element for each page.
        to_result(unsafe { private::hmm_range_fault(&mut range) })
    }

    /// Locks the list, unless a notifier ran since the reading began. May sleep.
    pub(in super::super) fn lock_if_valid(&self, reading: Reading) -> Option<Locked<'_>> {
        let locked = self.of.lock();
        (!interval_read_retry(self.of.1.notifier(), reading.0)).then_some(locked)
    }
}

/// Followed memory whose mutex is held.
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
    /// The list, an entry for each page of the memory's size.
    pub(in super::super) fn list(&self) -> &[Cell<c_ulong>] {
        let bytes = self.end().wrapping_sub(self.start());
        let count = bytes.checked_shr(self.page_shift()).unwrap_or(0);
        // SAFETY: The list has at least as many entries (`Draft::follow`), which only the one who holds
        // the mutex uses, this thread: type invariant.
        unsafe {
            core::slice::from_raw_parts(self.0 .1.pfn_list().into_c().cast_const().cast(), count)
        }
    }

    /// Takes a page out of the list, and out of the device's reach.
    pub(in super::super) fn unmap(&self, index: usize) {
        let Some(entry) = self.list().get(index) else {
            return;
        };
        let was = entry.get();
        let dma_device = self.umem().host().dma_device().into_c();
        let odp = self.0 .0.raw();
        // SAFETY: The list has such an entry, and the mutex is held: type invariant. Of an entry that
        // is mapped, the page is the process's until the mutex is released.
        unsafe {
            if private::hmm_dma_unmap_pfn(dma_device, &raw mut (*odp).map, index) {
                if was & private::hmm_pfn_flags_HMM_PFN_WRITE != 0 {
                    // Without the page's lock, which notifiers may or may not hold: the
                    // mutex keeps those waiting who would take the page away.
                    bindings::rdma_helper_hmm_pfn_set_dirty(was);
                }
                self.set_npages(self.npages().wrapping_sub(1));
            }
        }
        entry.set(entry.get() & !private::hmm_pfn_flags_HMM_PFN_FLAGS);
    }
}

/// Memory whose mutex C holds; it may be implicit.
///
/// # Invariants
///
/// For `'a`, the current thread holds the mutex.
pub(in super::super) struct HeldByC<'a>(&'a Odp);

// SAFETY: `from_c`'s contract is the type invariant, which drivers keep to
// (`ib_umem_odp_unmap_dma_pages`).
unsafe impl FromC for HeldByC<'_> {
    type C = *mut bindings::ib_umem_odp;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: On-demand memory: contract of this function. INVARIANT: By the same contract.
        Self(unsafe { Odp::view(c) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for HeldByC<'a> {}

impl<'a> HeldByC<'a> {
    /// Lets lockdep check that the mutex is held.
    pub(in super::super) fn assert(&self) {
        assert_held(self.0);
    }

    /// The memory, if it is followed.
    pub(in super::super) fn followed(self) -> Option<Held<'a>> {
        // INVARIANT: The type invariant.
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
    /// Leaves it locked; the caller of the exported function unlocks.
    pub(in super::super) fn leave(self) {
        core::mem::forget(self.1);
    }
}
