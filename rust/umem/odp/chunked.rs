// SPDX-License-Identifier: GPL-2.0

//! Much memory of a process, on demand: a large range, or the whole address space.
//!
//! A table of all its pages would cost much, although few may ever be used. So the memory is cut
//! into chunks, each a child of the core's (`ib_umem_odp_alloc_child`) with a table of its own,
//! which is created when a page of it is wanted:
//!
//! ```text
//!   fault_in --- chunk is there? -- no --> child, its table ---> tree <--- with
//!      |                                                          ^
//!      +--- brings pages in ------------------------------------- +
//!   nothing came, nobody else is at it ---> out of the tree, released
//!   too many ---> one that was not used lately goes first
//! ```
//!
//! A peer who has the key may name any address. What that costs is bounded: a chunk stays only if
//! the process has memory there, and of a whole address space no more than [`MOST`] of them stay.
//! Chunks are charged to the memory cgroup of the process, whichever task faults their pages in.
//!
//! # Locks
//!
//! A child's `umem_mutex`, then `Space::chunks`, a leaf. Nothing is allocated or freed under
//! the latter.
//!
//! C headers: `include/rdma/ib_umem_odp.h`, `include/linux/sched/mm.h`.

use super::pages::Pages;
use super::raw;
use super::raw::Owned;
use super::uses;
use super::uses::Ends;
use super::uses::Use;
use super::Absent;
use super::OnDemand;
use super::Touch;
use crate::accounted;
use crate::bindings;
use crate::gate::word::Word;
use crate::new_spinlock_irq;
use crate::provider::unsupported;
use crate::provider::Access;
use crate::provider::Device;
use crate::provider::Provider;
use crate::provider::RegionMask;
use crate::sync::SpinLockIrq;
use core::ops::Range;
use core::ptr::NonNull;
use kernel::current;
use kernel::error::from_err_ptr;
use kernel::ffi::c_ulong;
use kernel::mm::Mm;
use kernel::mm::MmWithUser;
use kernel::page::PAGE_SHIFT;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;

/// Bytes of a chunk: what the upper level of the page tables maps at once.
pub(super) const CHUNK: u64 = 2 << 20;
/// Pages of a chunk.
const CHUNK_PAGES: usize = (CHUNK >> PAGE_SHIFT) as usize;
/// Chunks of a whole address space that stay, of 9 KiB of tables each: 4 GiB. It must be more than
/// the longest message has, 2 GiB, which may want to be there as a whole.
const MOST: usize = 2048;
/// How many chunks are looked at to find one that was not used lately.
const LOOKED_AT: usize = 32;

/// Memory of a process on demand, in chunks.
///
/// Call [`Chunked::release`] before dropping it where one must not sleep.
///
/// # Invariants
///
/// Until it has ended ([`Ends`]), `root` is an implicit `struct ib_umem_odp` that we own, of the
/// process whose memory `mm` is, a reference of ours.
pub struct Chunked {
    root: NonNull<bindings::ib_umem_odp>,
    /// Not an `ARef`: dropping the last of these is nothing for a softirq.
    mm: NonNull<Mm>,
    uses: Word,
    released: Atomic<bool>,
    space: Pin<KBox<Space>>,
    /// Its addresses.
    range: Range<u64>,
    /// Chunks that stay.
    most: usize,
    writable: bool,
}

// SAFETY: Any task may release the memory and bring pages in.
unsafe impl Send for Chunked {}
// SAFETY: What changes is behind locks.
unsafe impl Sync for Chunked {}

/// The chunks that are there.
///
/// # Invariants
///
/// While `chunks` is locked, every page of a chunk in it that is there is one which the
/// process maps: who changes the mapping calls [`invalidate`] first, and waits for it.
#[pin_data]
struct Space {
    #[pin]
    chunks: SpinLockIrq<Chunks>,
}

struct Chunks {
    /// By address, in chunks.
    tree: RBTree<u64, Chunk>,
    count: usize,
    /// Where to look next for one to be given back.
    hand: u64,
}

/// # Invariants
///
/// `umem` is ours until the chunk is taken out of the tree by [`Space::give_back`]; its
/// `private` is the space.
struct Chunk {
    umem: NonNull<bindings::ib_umem_odp>,
    pages: Pages,
    /// How many [`Entered`] there are.
    busy: u32,
    /// Whether it was used since somebody looked for one to be given back.
    recent: bool,
}

// SAFETY: The umem may be used by any task.
unsafe impl Send for Chunk {}

/// Somebody at a chunk, which therefore stays. To be given to [`Space::leave`].
#[must_use]
struct Entered {
    number: u64,
    umem: NonNull<bindings::ib_umem_odp>,
}

/// Pages that are there, for [`Chunked::with`].
#[derive(Clone, Copy)]
pub struct There<'a>(&'a RBTree<u64, Chunk>);

impl<'a> There<'a> {
    /// The kernel's addresses of the page that `at` is in and of some behind it: up to the
    /// end of the chunk. Only those mean anything that were wanted.
    pub fn pages(self, at: u64) -> &'a [usize] {
        self.0
            .get(&(at / CHUNK))
            .and_then(|chunk| chunk.pages.addresses().get(page_in_chunk(at)..))
            .unwrap_or_default()
    }
}

/// Of which page of its chunk an address is.
fn page_in_chunk(at: u64) -> usize {
    // CAST: a small number.
    (at % CHUNK) as usize >> PAGE_SHIFT
}

/// Cuts a range into what lies in one chunk each: the chunk's number, and its pages.
fn by_chunk(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let number = at / CHUNK;
        let stop = range
            .end
            .min(number.saturating_add(1).saturating_mul(CHUNK));
        let first = page_in_chunk(at);
        let last = page_in_chunk(stop.wrapping_sub(1));
        at = stop;
        Some((number, first..last.saturating_add(1)))
    })
}

/// Part of the module that uses it, as all of this crate is; hence no `static`.
const OPS: &bindings::mmu_interval_notifier_ops = &bindings::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    // SAFETY: All zero is none of the other operations.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
};

impl Chunked {
    /// All memory of the current process. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a process, or for flags that it cannot have; `ENOMEM`; `EOPNOTSUPP`
    /// if the kernel has no paging on demand.
    pub fn whole<P: Provider>(dev: &Device<P>, access: Access) -> Result<Self> {
        Self::get(dev, None, access)
    }

    /// The `len` bytes at `addr` of the current process. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes; `EOVERFLOW` for an end beyond the address space; those of
    /// [`Self::whole`].
    pub fn part<P: Provider>(dev: &Device<P>, addr: u64, len: u64, access: Access) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let end = addr.checked_add(len).ok_or(EOVERFLOW)?;
        end.checked_add(CHUNK).ok_or(EOVERFLOW)?;
        Self::get(dev, Some(addr..end), access)
    }

    /// The bytes of `range`, or all.
    fn get<P: Provider>(
        dev: &Device<P>,
        range: Option<Range<u64>>,
        access: Access,
    ) -> Result<Self> {
        if !OnDemand::is_supported() {
            return Err(unsupported());
        }
        let mm: ARef<Mm> = {
            let current = current!();
            let mm: &MmWithUser = current.mm().ok_or(EINVAL)?;
            ARef::from(&**mm)
        };
        // CAST: flags, whose sign has no meaning.
        // SAFETY: The device is registered.
        let root = from_err_ptr(unsafe {
            bindings::rdma_helper_odp_alloc_implicit(dev.as_raw(), access.raw() as i32)
        })?;
        let root = Owned(NonNull::new(root).ok_or(ENOMEM)?);
        // SAFETY: It is ours, and the flag stays as it is; `mm` exists.
        let (writable, end) = unsafe {
            (
                root.0.as_ref().umem.writable() != 0,
                bindings::rdma_helper_mm_task_size(mm.as_raw()),
            )
        };
        let chunks = Chunks {
            tree: RBTree::new(),
            count: 0,
            hand: 0,
        };
        let space = KBox::pin_init(
            pin_init!(Space {
                chunks <- new_spinlock_irq!(chunks, "umem::odp::Space::chunks"),
            }),
            accounted::GFP,
        )?;
        let (range, most) = match range {
            Some(range) => (range, usize::MAX),
            None => (0..u64::try_from(end)?, MOST),
        };
        // INVARIANT: As just made; the core took the current process's memory, too.
        Ok(Self {
            root: root.release(),
            mm: ARef::into_raw(mm),
            uses: Word::new(),
            released: Atomic::new(false),
            space,
            range,
            most,
            writable,
        })
    }

    /// Its addresses, which are those of the process.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Whether the device may write to it.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Whether it has all these bytes.
    pub fn covers(&self, at: u64, len: usize) -> bool {
        self.within(at, len).is_some()
    }

    fn within(&self, at: u64, len: usize) -> Option<Range<u64>> {
        let end = at.checked_add(u64::try_from(len).ok()?)?;
        (at >= self.range.start && end <= self.range.end).then_some(at..end)
    }

    /// Lets `f` use the pages of `len` bytes at `at`, for writing if `touch` says so. It runs
    /// under a spinlock with interrupts off. Any context.
    ///
    /// # Errors
    ///
    /// [`Absent`]; `f` was not called then.
    pub fn with<R>(
        &self,
        at: u64,
        len: usize,
        touch: Touch,
        f: impl FnOnce(There<'_>) -> R,
    ) -> Result<R, Absent> {
        let range = self.within(at, len).ok_or(Absent)?;
        let mut chunks = self.space.chunks.lock();
        if touch != Touch::Nothing {
            for (number, pages) in by_chunk(range) {
                let chunk = chunks.tree.get_mut(&number).ok_or(Absent)?;
                chunk.pages.claim(pages, touch)?;
                chunk.recent = true;
            }
        }
        Ok(f(There(&chunks.tree)))
    }

    /// Brings in the pages of `len` bytes at `at`, and says how many came. Without `fault`,
    /// only those come that the process has in memory. May sleep, for long.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the process has no such memory, or none it may write to and `touch` is to
    /// write, or is gone; `EINVAL` if the memory was released; `EINTR` if the caller is being
    /// killed; `ENOMEM`; `EBUSY` if the process changes its mappings all the time.
    pub fn fault_in(&self, at: u64, len: usize, touch: Touch, fault: bool) -> Result<usize> {
        let write = match touch {
            Touch::Nothing => return Ok(0),
            Touch::Read => false,
            Touch::Write => true,
        };
        if write && !self.writable {
            return Err(EFAULT);
        }
        let range = self.within(at, len).ok_or(EFAULT)?;
        let _use = Use::of(self).ok_or(EINVAL)?;
        // The core counts on it that the process's memory cannot go meanwhile.
        // SAFETY: By the type invariant, as it is in use.
        let mm = unsafe { self.mm.as_ref() }.mmget_not_zero();
        // Its last user takes it down, which waits for our own notifiers.
        let mm = MmWithUser::into_mmput_async(mm.ok_or(EFAULT)?);
        let mut came = 0usize;
        for (number, pages) in by_chunk(range) {
            let entered = match self.space.enter(number) {
                Some(entered) => entered,
                None => accounted::charged_to(&mm, || self.create(number))?,
            };
            // SAFETY: By the invariant of `Chunk`: who has entered keeps it.
            let done = unsafe {
                raw::bring(entered.umem.as_ptr(), pages, write, fault, |index, page| {
                    // INVARIANT: The process maps it while `bring` tells of it.
                    if let Some(chunk) = self.space.chunks.lock().tree.get_mut(&number) {
                        chunk.pages.note(index, page);
                    }
                })
            };
            self.space.leave(entered);
            came = came.saturating_add(done?);
            // SAFETY: No preconditions.
            unsafe {
                bindings::rdma_helper_cond_resched();
                if bindings::rdma_helper_fatal_signal_pending() {
                    return Err(EINTR);
                }
            }
            if self.uses.is_closed() {
                return Err(EINVAL);
            }
        }
        Ok(came)
    }

    /// Creates a chunk and enters it. The caller uses the memory, and has counted itself a user of
    /// the process's memory.
    fn create(&self, number: u64) -> Result<Entered> {
        while let Some(victim) = self.space.victim(self.most) {
            self.space.give_back(victim, |_| true);
        }
        let start = usize::try_from(number.checked_mul(CHUNK).ok_or(EFAULT)?)?;
        // SAFETY: By the type invariant, as it is in use; the table lives for ever. The
        // process's memory is counted, by the caller's promise.
        let umem = from_err_ptr(unsafe {
            let size = CHUNK_PAGES * PAGE_SIZE;
            bindings::rdma_helper_odp_alloc_child(self.root.as_ptr(), start, size, OPS)
        })?;
        let umem = Owned(NonNull::new(umem).ok_or(ENOMEM)?);
        // SAFETY: The space outlives the notifier: all chunks are released before it. That
        // is so from now on, before anybody can bring a page in.
        unsafe { umem.set_private::<Space>(&*self.space) };
        let chunk = Chunk {
            umem: umem.0,
            pages: Pages::new(CHUNK_PAGES)?,
            busy: 0,
            recent: true,
        };
        let node = RBTreeNode::new(number, chunk, accounted::GFP)?;
        let (entered, refused) = self.space.insert(number, node);
        if refused.is_none() {
            // INVARIANT: It is the chunk's.
            let _ = umem.release();
        }
        entered.ok_or(EAGAIN)
    }

    /// Gives the memory back: no more pages come. Pages that are there, and whatever pages that are
    /// being brought in need, go when nobody brings pages in any more. May sleep, but not the
    /// second time.
    pub fn release(&self) {
        if !self.released.xchg(true, Full) {
            uses::close(self);
        }
    }

    /// As [`Umem::check_rereg`](crate::umem::Umem::check_rereg).
    pub fn check_rereg(&self, mask: RegionMask, access: Access) -> Result {
        let _use = Use::of(self).ok_or(EINVAL)?;
        // SAFETY: By the type invariant, as it is in use.
        unsafe { raw::check_rereg(self.root, mask, access) }
    }
}

impl Ends for Chunked {
    fn uses(&self) -> &Word {
        &self.uses
    }

    fn end(&self) {
        while let Some(first) = self.space.first() {
            self.space.give_back(first, |_| true);
        }
        // SAFETY: By the type invariant these were ours until now. There are no children any more.
        unsafe {
            bindings::rdma_helper_odp_release(self.root.as_ptr());
            drop(ARef::from_raw(self.mm));
        }
    }
}

impl Drop for Chunked {
    fn drop(&mut self) {
        self.release();
    }
}

impl Space {
    /// Enters a chunk, if it is there.
    fn enter(&self, number: u64) -> Option<Entered> {
        self.chunks.lock().enter(number)
    }

    /// Puts a new chunk in, and enters it. If there is one with that number already, that is
    /// entered, and the new one given back.
    fn insert(
        &self,
        number: u64,
        node: RBTreeNode<u64, Chunk>,
    ) -> (Option<Entered>, Option<RBTreeNode<u64, Chunk>>) {
        let mut chunks = self.chunks.lock();
        let refused = if chunks.tree.get(&number).is_some() {
            Some(node)
        } else {
            chunks.count = chunks.count.saturating_add(1);
            chunks.tree.insert(node)
        };
        (chunks.enter(number), refused)
    }

    /// Leaves a chunk, which is given back if it is empty and nobody else is at it.
    fn leave(&self, entered: Entered) {
        {
            let mut chunks = self.chunks.lock();
            let Some(chunk) = chunks.tree.get_mut(&entered.number) else {
                return;
            };
            if chunk.busy > 1 || !chunk.pages.is_empty() {
                chunk.busy = chunk.busy.saturating_sub(1);
                return;
            }
        }
        self.give_back(entered, Pages::is_empty);
    }

    /// Enters the first chunk of all, if there is one. Nobody is at any.
    fn first(&self) -> Option<Entered> {
        let mut chunks = self.chunks.lock();
        let number = *chunks.tree.cursor_front()?.current().0;
        chunks.enter(number)
    }

    /// Enters a chunk that had better go, if there are `most` and one that nobody is at.
    fn victim(&self, most: usize) -> Option<Entered> {
        let mut chunks = self.chunks.lock();
        if chunks.count < most {
            return None;
        }
        let mut found = None;
        let mut next = chunks.hand;
        for _ in 0..LOOKED_AT {
            let from = next;
            let cursor = match chunks.tree.cursor_lower_bound_mut(&from) {
                Some(cursor) => Some(cursor),
                None => chunks.tree.cursor_front_mut(),
            };
            let Some(mut cursor) = cursor else { break };
            let (&number, chunk) = cursor.current_mut();
            next = number.saturating_add(1);
            if chunk.busy == 0 {
                found = Some(number);
                if !core::mem::take(&mut chunk.recent) {
                    break;
                }
            }
        }
        chunks.hand = next;
        chunks.enter(found?)
    }

    /// Gives a chunk back, if nobody else is at it and `if_so` agrees; else leaves it.
    fn give_back(&self, entered: Entered, if_so: impl FnOnce(&Pages) -> bool) {
        let raw = entered.umem.as_ptr();
        // SAFETY: By the invariant of `Chunk`: who has entered keeps it. From here on no page
        // comes or goes, so that the process maps those that are there.
        unsafe { bindings::rdma_helper_odp_lock(raw) };
        let Some(node) = self.take_out(&entered, if_so) else {
            // SAFETY: Locked above; we still keep the chunk.
            unsafe { bindings::rdma_helper_odp_unlock(raw) };
            // Not before: the last who leaves frees the mutex.
            if let Some(chunk) = self.chunks.lock().tree.get_mut(&entered.number) {
                chunk.busy = chunk.busy.saturating_sub(1);
            }
            return;
        };
        let (_, mut chunk) = node.to_key_value();
        let mut next = 0;
        while let Some(pages) = chunk.pages.forget(&mut next, CHUNK_PAGES) {
            // SAFETY: The process maps them, as said above.
            unsafe { pages.tell() };
        }
        // SAFETY: Locked above. Whoever has taken the chunk out owns its umem.
        unsafe {
            bindings::rdma_helper_odp_unlock(raw);
            bindings::rdma_helper_odp_release(raw);
        }
    }

    /// Takes a chunk out of the tree, under its umem's mutex, unless others are at it.
    fn take_out(
        &self,
        entered: &Entered,
        if_so: impl FnOnce(&Pages) -> bool,
    ) -> Option<RBTreeNode<u64, Chunk>> {
        let mut chunks = self.chunks.lock();
        let chunk = chunks.tree.get_mut(&entered.number)?;
        if chunk.busy > 1 || !if_so(&chunk.pages) {
            return None;
        }
        chunks.count = chunks.count.saturating_sub(1);
        chunks.tree.remove_node(&entered.number)
    }

    /// Forgets pages of a chunk.
    ///
    /// # Safety
    ///
    /// The mutex of the chunk's umem is held, and the process maps the pages still.
    unsafe fn forget(&self, number: u64, gone: Range<usize>) {
        let mut next = gone.start;
        loop {
            let forgotten = {
                let mut chunks = self.chunks.lock();
                let Some(chunk) = chunks.tree.get_mut(&number) else {
                    return;
                };
                let forgotten = chunk.pages.forget(&mut next, gone.end);
                chunk.recent &= !chunk.pages.is_empty();
                forgotten
            };
            match forgotten {
                // SAFETY: The process maps these pages (contract).
                Some(pages) => unsafe { pages.tell() },
                None => return,
            }
        }
    }
}

impl Chunks {
    fn enter(&mut self, number: u64) -> Option<Entered> {
        let chunk = self.tree.get_mut(&number)?;
        chunk.busy = chunk.busy.checked_add(1)?;
        Some(Entered {
            number,
            umem: chunk.umem,
        })
    }
}

/// The kernel is about to change what the process maps in a range. May sleep if the range
/// says so; the pages are not used any more when it returns.
///
/// # Safety
///
/// For the memory management to call, about the notifier of a [`Chunk`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    // SAFETY: The arguments are those that the memory management calls a notifier with (contract),
    // before the process's pages change. `raw::invalidate` holds the umem's mutex around the closure.
    unsafe {
        raw::invalidate(notifier, range, seq, |private, first, gone| {
            // Set before the chunk is in the tree; until then there are no pages. One that
            // was taken out may have a successor, which then forgets more than it must.
            if let Some(space) = private.cast::<Space>().as_ref() {
                space.forget(first / CHUNK, gone);
            }
        })
    }
}
