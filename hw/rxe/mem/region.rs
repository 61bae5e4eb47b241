// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! [`Mr`] is the owner's side and belongs to the verbs object; the data path finds [`MrCore`] by
//! key. Dropping `Mr` removes the core from the table, closes its gate and waits until nobody is
//! inside; only then are the pages released. Whoever is inside the gate, which the type [`Entered`]
//! proves, may therefore use the core and its pages without a reference. Page faults hold a reference
//! instead: they may never end, and on-demand memory ends without waiting for them.
//!
//! Five kinds (IBTA 10.6): all kernel memory; a user's pinned pages; a user's pages on demand; many
//! of those, or a process's whole address space; and the fast registrations of kernel users, whose pages
//! and key change by work request. Of the first two, only protection domain and rights change,
//! which are atomics. The others have a lock that is held while the memory is accessed, so that
//! nobody accesses released pages or an invalid registration.
//!
//! Locking: `MrCore::fast` is a leaf lock, taken in any context. Only creating and dropping an
//! [`Mr`] and faulting pages in may sleep.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/ib_umem.h`.

use super::map::{Pieces, Shape};
use super::pages::{is_memory, PageList};
use super::{fresh_key, Claim, Fault, MemError, Memory, PdId, MR_INDICES};
use crate::proto::Key;
use kernel::page::{PAGE_SHIFT, PAGE_SIZE};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;
use rdma::accounted;
use rdma::gate::Entered;
use rdma::gate::Owner;
use rdma::new_spinlock_irq;
use rdma::provider::{Access, RegionMask};
use rdma::sync::SpinLockIrq;
use rdma::umem::dmabuf::DmaBuf;
use rdma::umem::odp::{Absent, Chunked, OnDemand, Touch};
use rdma::umem::Umem;

mod edge;

/// Bits of the offset within a page.
// CAST: a small constant.
const PAGE_BITS: u32 = PAGE_SHIFT as u32;

/// Set in [`MrCore::windows`] once the region is being deregistered.
const NO_MORE_WINDOWS: u32 = 1 << 31;

/// A memory region as the data path sees it.
///
/// # Invariants
///
/// While an [`Entered`] exists, the memory behind `backing` is mapped in the kernel and, for a
/// user's region, pinned.
#[pin_data]
pub(crate) struct MrCore {
    backing: Backing,
    /// The key. For a fast region only its index; the rest is in `fast`.
    key: u32,
    pd: Atomic<u64>,
    access: Atomic<u32>,
    /// Number of windows bound to the region, and [`NO_MORE_WINDOWS`].
    windows: Atomic<u32>,
    #[pin]
    fast: SpinLockIrq<FastInner>,
}

enum Backing {
    /// All memory, by kernel virtual address.
    Dma,
    /// A user's pages.
    User {
        iova: u64,
        shape: Shape,
        /// Kernel addresses of the pages.
        pages: PageList,
    },
    /// A user's pages on demand.
    OnDemand {
        iova: u64,
        shape: Shape,
        memory: OnDemand,
    },
    /// Many pages of a user on demand, or a process's whole address space.
    Chunked { iova: u64, memory: Chunked },
    /// A fast region; its blocks are in [`MrCore::fast`].
    Fast,
}

/// The state of a fast region.
struct FastInner {
    valid: bool,
    key: u32,
    iova: u64,
    shape: Shape,
    /// Kernel addresses of the blocks; the first `used` are set.
    blocks: KVVec<usize>,
    used: usize,
    block_size: usize,
}

impl MrCore {
    /// Returns the rights that the region grants.
    pub(super) fn access(&self) -> u32 {
        self.access.load(Relaxed)
    }

    /// Calls `f` with the pieces of `len` bytes at `va` for [`Self::with`], which has compared the
    /// protection domains.
    #[inline]
    fn with_pieces<R>(
        this: &Entered<Self>,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(Pieces<'_>) -> R,
    ) -> Result<R, MemError> {
        match &this.backing {
            Backing::Dma => {
                this.permits(claim)?;
                let start = usize::try_from(va).map_err(|_| MemError::Range)?;
                start.checked_add(len).ok_or(MemError::Range)?;
                let pieces = Pieces::direct(&start, len).ok_or(MemError::Range)?;
                if claim.from_peer {
                    let exists = match claim.touch {
                        // This is the range of a whole message, up to 2 GiB, in a softirq: check
                        // its ends only. Each packet checks all pages that it touches.
                        Touch::Nothing => {
                            let last = start.wrapping_add(len.saturating_sub(1));
                            is_memory(start, 1) && is_memory(last, 1)
                        }
                        Touch::Read | Touch::Write => is_memory(start, len),
                    };
                    if !exists {
                        return Err(MemError::Range);
                    }
                }
                Ok(f(pieces))
            }
            Backing::User { iova, shape, pages } => {
                this.permits(claim)?;
                let offset = va.checked_sub(*iova).ok_or(MemError::Range)?;
                let pieces = shape
                    .walk(pages.all(), offset, len)
                    .ok_or(MemError::Range)?;
                Ok(f(pieces))
            }
            Backing::OnDemand { .. } | Backing::Chunked { .. } => {
                this.with_on_demand(claim, va, len, f)
            }
            Backing::Fast => {
                let fast = this.fast.lock();
                if !fast.valid || fast.key != claim.key {
                    return Err(MemError::Key);
                }
                this.rights(claim)?;
                let offset = va.checked_sub(fast.iova).ok_or(MemError::Range)?;
                let blocks = fast.blocks.get(..fast.used).ok_or(MemError::Range)?;
                let pieces = fast
                    .shape
                    .walk(blocks, offset, len)
                    .ok_or(MemError::Range)?;
                Ok(f(pieces))
            }
        }
    }

    /// [`Self::with`] for on-demand regions. A separate function, so that it does not slow down the
    /// paths of other regions.
    #[inline(never)]
    fn with_on_demand<R>(
        &self,
        claim: &Claim,
        va: u64,
        len: usize,
        f: impl FnOnce(Pieces<'_>) -> R,
    ) -> Result<R, MemError> {
        match &self.backing {
            Backing::OnDemand {
                iova,
                shape,
                memory,
            } => {
                self.permits(claim)?;
                let offset = va.checked_sub(*iova).ok_or(MemError::Range)?;
                let span = shape.span(offset, len).ok_or(MemError::Range)?;
                if claim.touch == Touch::Nothing {
                    return Ok(f(Pieces::NONE));
                }
                memory
                    .with(span, claim.touch, |pages| {
                        let pieces = shape.walk(pages, offset, len);
                        Ok(f(pieces.ok_or(MemError::Range)?))
                    })
                    .map_err(|Absent| MemError::Absent)?
            }
            Backing::Chunked { iova, memory } => {
                self.permits(claim)?;
                let va = in_process(memory, *iova, va).ok_or(MemError::Range)?;
                if !memory.covers(va, len) {
                    return Err(MemError::Range);
                }
                if claim.touch == Touch::Nothing {
                    return Ok(f(Pieces::NONE));
                }
                memory
                    .with(va, len, claim.touch, |there| {
                        // OVERFLOW: `va + len` is covered, and `left <= len`.
                        let more = |left: usize| {
                            there.pages(va.wrapping_add(len.wrapping_sub(left) as u64))
                        };
                        let pieces = Pieces::in_parts(&more, PAGE_BITS, va, len);
                        Ok(f(pieces.ok_or(MemError::Range)?))
                    })
                    .map_err(|Absent| MemError::Absent)?
            }
            Backing::Dma | Backing::User { .. } | Backing::Fast => Err(MemError::Key),
        }
    }

    fn is_fast(&self) -> bool {
        matches!(self.backing, Backing::Fast)
    }

    /// Returns whether a lock is held while the region's memory is accessed.
    pub(super) fn is_locked(&self) -> bool {
        match self.backing {
            Backing::Fast | Backing::OnDemand { .. } | Backing::Chunked { .. } => true,
            Backing::Dma | Backing::User { .. } => false,
        }
    }

    /// Returns the current first address and length in bytes. Accesses are still checked
    /// individually.
    ///
    /// # Errors
    ///
    /// `Range` if the region is all kernel memory, which has no bounds.
    pub(super) fn extent(&self) -> Result<(u64, u64), MemError> {
        match &self.backing {
            Backing::Dma => Err(MemError::Range),
            Backing::User { iova, shape, .. } | Backing::OnDemand { iova, shape, .. } => {
                Ok((*iova, shape.bytes()))
            }
            Backing::Chunked { iova, memory } => {
                let range = memory.range();
                Ok((*iova, range.end.saturating_sub(range.start)))
            }
            Backing::Fast => {
                let fast = self.fast.lock();
                Ok((fast.iova, fast.shape.bytes()))
            }
        }
    }

    /// Checks that a window can be bound to the region, and counts it.
    ///
    /// # Errors
    ///
    /// `Access` if binding is not allowed (IBTA C10-73, C10-74); otherwise as for an access.
    pub(super) fn bind_window(
        this: &Entered<Self>,
        claim: &Claim,
        va: u64,
        len: u64,
    ) -> Result<(), MemError> {
        match this.backing {
            // The C driver does not allow this binding either: the region has no range.
            Backing::Dma => return Err(MemError::Range),
            Backing::User { .. }
            | Backing::OnDemand { .. }
            | Backing::Chunked { .. }
            | Backing::Fast => {}
        }
        // Only the range matters here, so empty accesses at both ends suffice.
        let end = va.checked_add(len).ok_or(MemError::Range)?;
        Self::with(this, claim, va, 0, |_| ())?;
        Self::with(this, claim, end, 0, |_| ())?;
        let mut old = this.windows.load(Relaxed);
        loop {
            if old & NO_MORE_WINDOWS != 0 {
                return Err(MemError::Key);
            }
            match this.windows.cmpxchg(old, old.wrapping_add(1), Full) {
                Ok(_) => return Ok(()),
                Err(now) => old = now,
            }
        }
    }

    /// Undoes one [`MrCore::bind_window`].
    pub(super) fn unbind_window(&self) {
        self.windows.fetch_sub(1u32, Full);
    }

    /// Invalidates a fast region (IBTA 10.6.6). After return, nobody accesses memory through this
    /// registration.
    ///
    /// # Errors
    ///
    /// `Key` if it is not a fast region or has another key; `Access` if a peer invalidates it but
    /// no remote right was granted; `Bound` if a window is bound to it.
    pub(super) fn invalidate(&self, claim: &Claim) -> Result<(), MemError> {
        if !self.is_fast() {
            return Err(MemError::Key);
        }
        if PdId(self.pd.load(Relaxed)) != claim.pd {
            return Err(MemError::Domain);
        }
        let mut fast = self.fast.lock();
        if fast.key != claim.key {
            return Err(MemError::Key);
        }
        if claim.from_peer && self.access.load(Relaxed) & super::access::REMOTE == 0 {
            return Err(MemError::Access);
        }
        if self.windows.load(Relaxed) & !NO_MORE_WINDOWS != 0 {
            return Err(MemError::Bound);
        }
        fast.valid = false;
        Ok(())
    }

    /// Makes a fast region valid under a new key (IBTA 11.2.5.7; `IB_WR_REG_MR`).
    ///
    /// # Errors
    ///
    /// `Key` if it is not a fast region, is still valid, or the key has another index.
    pub(super) fn register(&self, claim: &Claim, iova: u64) -> Result<(), MemError> {
        if !self.is_fast() {
            return Err(MemError::Key);
        }
        if PdId(self.pd.load(Relaxed)) != claim.pd {
            return Err(MemError::Domain);
        }
        let mut fast = self.fast.lock();
        if fast.valid || (fast.key ^ claim.key) >> 8 != 0 {
            return Err(MemError::Key);
        }
        fast.key = claim.key;
        fast.iova = iova;
        self.access.store(claim.access, Relaxed);
        fast.valid = true;
        Ok(())
    }

    /// Checks that the region belongs to a protection domain.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not.
    pub(super) fn check_domain(&self, pd: PdId) -> Result {
        match PdId(self.pd.load(Relaxed)) == pd {
            true => Ok(()),
            false => Err(EINVAL),
        }
    }

    /// Returns whether this is the key of a region that is on demand.
    pub(super) fn is_on_demand(&self, Key(key): Key) -> bool {
        self.is_locked() && !matches!(self.backing, Backing::Fast) && self.key == key
    }

    /// Faults in pages of an on-demand region. May sleep for long, or for ever. The caller has a
    /// reference and need not be inside the gate: deregistration does not wait for it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the region is of another kind or has another key, or its process is gone;
    /// `EFAULT` if the range is outside the region or not mapped by the process; `EACCES` if it is
    /// not writable.
    pub(super) fn fault_in(&self, fault: &Fault, may_fault: bool) -> Result {
        match &self.backing {
            Backing::OnDemand {
                iova,
                shape,
                memory,
            } if self.key == fault.key.0 => {
                let offset = fault.va.checked_sub(*iova).ok_or(EFAULT)?;
                let span = shape.span(offset, fault.len).ok_or(EFAULT)?;
                if fault.touch == Touch::Write && !memory.writable() {
                    return Err(EACCES);
                }
                memory.fault_in(span, fault.touch, may_fault)?;
                Ok(())
            }
            Backing::Chunked { iova, memory } if self.key == fault.key.0 => {
                if fault.touch == Touch::Write && !memory.writable() {
                    return Err(EACCES);
                }
                let va = in_process(memory, *iova, fault.va).ok_or(EFAULT)?;
                memory.fault_in(va, fault.len, fault.touch, may_fault)?;
                Ok(())
            }
            Backing::Dma
            | Backing::User { .. }
            | Backing::OnDemand { .. }
            | Backing::Chunked { .. }
            | Backing::Fast => Err(EINVAL),
        }
    }

    fn permits(&self, claim: &Claim) -> Result<(), MemError> {
        if self.key != claim.key {
            return Err(MemError::Key);
        }
        self.rights(claim)
    }

    /// Checks that the region grants the rights that `claim` names. A claim by way of a memory window
    /// names none, since those of the window apply; but what is to be written must be a writable region.
    #[inline]
    fn rights(&self, claim: &Claim) -> Result<(), MemError> {
        let rights = self.access.load(Relaxed);
        if rights & claim.access != claim.access
            || claim.writes() && rights & super::access::WRITES == 0
        {
            return Err(MemError::Access);
        }
        Ok(())
    }
}

/// Converts an address in requests to one of the process.
#[inline]
fn in_process(memory: &Chunked, iova: u64, va: u64) -> Option<u64> {
    memory.range().start.checked_add(va.checked_sub(iova)?)
}

/// Owner of a region's pages.
enum Pages {
    /// No owner, or the kernel.
    None,
    /// Pinned for this region.
    Pinned(Umem),
    /// Memory of another driver, kept by a reference to its DMA buffer.
    Shared(#[expect(dead_code, reason = "it is kept")] DmaBuf),
}

/// A memory region as the verbs object owns it.
///
/// Dropping it may sleep: it waits until no packet uses the region.
pub(crate) struct Mr {
    memory: Arc<Memory>,
    /// Its drop waits until nobody is inside the gate.
    core: Owner<MrCore>,
    /// Dropped last, when nobody is inside the gate any more.
    pages: Pages,
}

impl Mr {
    /// Creates a region of all kernel memory; its addresses are kernel virtual addresses.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EBUSY` if there are too many regions.
    pub(crate) fn dma(memory: &Arc<Memory>, pd: PdId, access: u32) -> Result<Self> {
        Self::publish(
            memory,
            pd,
            access,
            Backing::Dma,
            FastInner::none(),
            Pages::None,
        )
    }

    /// Creates a region of a user's pinned pages. `iova` is the address of the first byte in
    /// requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid range, or if persistence is requested for memory that is not
    /// persistent; `ENOMEM`; `EBUSY` if there are too many regions.
    pub(crate) fn user(
        memory: &Arc<Memory>,
        pd: PdId,
        access: u32,
        iova: u64,
        umem: Umem,
    ) -> Result<Self> {
        let len = u64::try_from(umem.len()).map_err(|_| EINVAL)?;
        let first = u64::try_from(umem.offset()).map_err(|_| EINVAL)?;
        let shape = Shape::new(PAGE_BITS, first, len).ok_or(EINVAL)?;
        iova.checked_add(len).ok_or(EINVAL)?;
        let count = usize::try_from(shape.blocks()).map_err(|_| EINVAL)?;
        let mut pages = PageList::with_capacity(count)?;
        for run in umem.runs() {
            if access & super::access::FLUSH_PERSISTENT != 0 && !run.is_pmem() {
                return Err(EINVAL);
            }
            let start = run.address();
            for at in 0..run.count() {
                // OVERFLOW: all sums are addresses of mapped memory.
                pages.push(start.wrapping_add(at << PAGE_SHIFT))?;
            }
        }
        if pages.all().len() < count {
            return Err(EINVAL);
        }
        let backing = Backing::User { iova, shape, pages };
        Self::publish(
            memory,
            pd,
            access,
            backing,
            FastInner::none(),
            Pages::Pinned(umem),
        )
    }

    /// Creates an on-demand region of a user's pages. `iova` is the address of the first byte in
    /// requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid range; `ENOMEM`; `EBUSY` if there are too many regions.
    pub(crate) fn on_demand(
        memory: &Arc<Memory>,
        pd: PdId,
        access: u32,
        iova: u64,
        pages: OnDemand,
    ) -> Result<Self> {
        let len = u64::try_from(pages.len()).map_err(|_| EINVAL)?;
        let first = u64::try_from(pages.offset()).map_err(|_| EINVAL)?;
        let shape = Shape::new(PAGE_BITS, first, len).ok_or(EINVAL)?;
        iova.checked_add(len).ok_or(EINVAL)?;
        let backing = Backing::OnDemand {
            iova,
            shape,
            memory: pages,
        };
        Self::publish(memory, pd, access, backing, FastInner::none(), Pages::None)
    }

    /// Creates an on-demand region of many pages of a user, or of a process's whole address space.
    /// `iova` is the address of the first byte in requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid range; `ENOMEM`; `EBUSY` if there are too many regions.
    pub(crate) fn chunked(
        memory: &Arc<Memory>,
        pd: PdId,
        access: u32,
        iova: u64,
        pages: Chunked,
    ) -> Result<Self> {
        let range = pages.range();
        let len = range.end.checked_sub(range.start).ok_or(EINVAL)?;
        iova.checked_add(len).ok_or(EINVAL)?;
        let backing = Backing::Chunked {
            iova,
            memory: pages,
        };
        Self::publish(memory, pd, access, backing, FastInner::none(), Pages::None)
    }

    /// Creates a region of another driver's memory, which does not move. `iova` is the address of
    /// the first byte in requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid range; `ENOMEM`; `EBUSY` if there are too many regions.
    pub(crate) fn shared(
        memory: &Arc<Memory>,
        pd: PdId,
        access: u32,
        iova: u64,
        buffer: DmaBuf,
    ) -> Result<Self> {
        let first = buffer.start() & (PAGE_SIZE - 1);
        let len = u64::try_from(buffer.len())?;
        let shape = Shape::new(PAGE_BITS, u64::try_from(first)?, len).ok_or(EINVAL)?;
        iova.checked_add(len).ok_or(EINVAL)?;
        let count = usize::try_from(shape.blocks())?;
        let mut pages = PageList::with_capacity(count)?;
        for at in 0..count {
            // OVERFLOW: all sums are addresses of mapped memory.
            let page = buffer
                .start()
                .wrapping_sub(first)
                .wrapping_add(at << PAGE_SHIFT);
            pages.push(page)?;
        }
        let backing = Backing::User { iova, shape, pages };
        let owner = Pages::Shared(buffer);
        Self::publish(memory, pd, access, backing, FastInner::none(), owner)
    }

    /// Creates a fast region of up to `max_blocks` blocks; invalid until registered.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EBUSY` if there are too many regions.
    pub(crate) fn fast(memory: &Arc<Memory>, pd: PdId, max_blocks: usize) -> Result<Self> {
        let mut fast = FastInner::none();
        fast.blocks = accounted::from_elem(0usize, max_blocks)?;
        Self::publish(memory, pd, 0, Backing::Fast, fast, Pages::None)
    }

    /// Returns the key, both local and remote.
    pub(crate) fn key(&self) -> Key {
        Key(self.core.key)
    }

    /// Checks that the pages of a user's region allow a later [`Mr::change`]. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not a user's region; otherwise the errors of the pages' own check.
    pub(crate) fn check_rereg(&self, mask: RegionMask, access: Access) -> Result {
        match (&self.core.backing, &self.pages) {
            (Backing::OnDemand { memory, .. }, _) => memory.check_rereg(mask, access),
            (Backing::Chunked { memory, .. }, _) => memory.check_rereg(mask, access),
            (_, Pages::Pinned(pages)) => pages.check_rereg(mask, access),
            // The memory can be accessed with any rights.
            (_, Pages::Shared(_)) => Ok(()),
            (_, Pages::None) => Err(EINVAL),
        }
    }

    /// Returns the rights that the region grants.
    pub(crate) fn access(&self) -> u32 {
        self.core.access()
    }

    /// Moves a user's region to another protection domain or changes its rights. The caller must
    /// have checked the change with [`Mr::check_rereg`].
    pub(crate) fn change(&self, pd: Option<PdId>, access: Option<u32>) {
        if let Some(PdId(pd)) = pd {
            self.core.pd.store(pd, Relaxed);
        }
        if let Some(access) = access {
            self.core.access.store(access, Relaxed);
        }
    }

    /// Starts a new list of blocks for a fast region and invalidates the region: its old pages
    /// return to their owner.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not a fast region, or `block_size` is not a power of two.
    pub(crate) fn map_begin(&self, block_size: usize) -> Result {
        if !self.core.is_fast() || !block_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut fast = self.core.fast.lock();
        fast.valid = false;
        fast.used = 0;
        fast.block_size = block_size;
        fast.shape = Shape::EMPTY;
        Ok(())
    }

    /// Adds the block at a DMA address, which for this device is a kernel virtual address.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the list is full.
    pub(crate) fn map_block(&self, address: u64) -> Result {
        let address = usize::try_from(address).map_err(|_| EINVAL)?;
        let mut fast = self.core.fast.lock();
        let used = fast.used;
        *fast.blocks.get_mut(used).ok_or(ENOMEM)? = address;
        fast.used = used.saturating_add(1);
        Ok(())
    }

    /// Ends the list: the region has `len` bytes from address `iova`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the blocks hold fewer bytes.
    pub(crate) fn map_end(&self, iova: u64, len: u64) -> Result {
        let mut fast = self.core.fast.lock();
        let size = u64::try_from(fast.block_size).map_err(|_| EINVAL)?;
        let first = iova & size.checked_sub(1).ok_or(EINVAL)?;
        let shape = Shape::new(size.trailing_zeros(), first, len).ok_or(EINVAL)?;
        if shape.blocks() > fast.used as u64 {
            return Err(EINVAL);
        }
        fast.shape = shape;
        fast.iova = iova;
        Ok(())
    }

    /// Refuses further windows, as the first step of deregistration.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a window is bound (IBTA 10.6.7.2.6); nothing has changed then.
    pub(crate) fn may_go(&self) -> Result {
        match self.core.windows.cmpxchg(0, NO_MORE_WINDOWS, Full) {
            Ok(_) | Err(NO_MORE_WINDOWS) => Ok(()),
            Err(_) => Err(EINVAL),
        }
    }

    fn publish(
        memory: &Arc<Memory>,
        PdId(pd): PdId,
        access: u32,
        backing: Backing,
        mut fast: FastInner,
        pages: Pages,
    ) -> Result<Self> {
        let slot = memory.regions.reserve(MR_INDICES, accounted::GFP)?;
        let key = fresh_key(slot.id());
        fast.key = key;
        let core = Owner::new(
            pin_init!(MrCore {
                backing,
                key,
                pd: Atomic::new(pd),
                access: Atomic::new(access),
                windows: Atomic::new(0),
                fast <- new_spinlock_irq!(fast, "MrCore::fast"),
            }),
            accounted::GFP,
        )?;
        slot.publish(core.share());
        Ok(Self {
            memory: memory.clone(),
            core,
            pages,
        })
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        drop(self.memory.regions.remove(self.core.key >> 8));
        // No new user can find it; wait for the present ones.
        self.core.close_and_wait();
        // Released here, in process context, because the core may be dropped in a softirq.
        match &self.core.backing {
            Backing::OnDemand { memory, .. } => memory.release(),
            Backing::Chunked { memory, .. } => memory.release(),
            Backing::Dma | Backing::User { .. } | Backing::Fast => {}
        }
    }
}

impl FastInner {
    fn none() -> Self {
        Self {
            valid: false,
            key: 0,
            iova: 0,
            shape: Shape::EMPTY,
            blocks: KVVec::new(),
            used: 0,
            block_size: 0,
        }
    }
}
