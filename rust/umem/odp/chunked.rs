// SPDX-License-Identifier: GPL-2.0

//! A long range of a process's addresses, or the whole address space, on demand.
//!
//! A table of all its pages would be large, although few may ever be used. So the memory is divided
//! into chunks, each a child of the core's umem (`ib_umem_odp_alloc_child`) with its own table,
//! created when a page in it is needed:
//!
//! ```text
//!   fault_in --- chunk exists? -- no --> child, its table ---> tree <--- with
//!      |                                                        ^
//!      +--- makes pages present ------------------------------- +
//!   no page present when a fault leaves it ---> removed from the tree, released
//!   new chunk ---> a few others are examined: those without a page are released
//!   too many chunks ---> one that was not used recently is released first
//! ```
//!
//! A peer that has the key may name any address. The cost of that is bounded: a chunk is kept only
//! if a page in it was present, and of a whole address space at most [`MOST`] are kept. Chunks that
//! the process or reclaim has emptied since are released when others are created. Chunks
//! are charged to the memory cgroup of the process, whichever task faults their pages in.
//!
//! # Locks
//!
//! A child's `umem_mutex`, then `Space::chunks`, a leaf. Nothing is allocated or freed under the
//! latter.
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
use crate::edge::umem::Umem as Fields;
use crate::edge::View;
use crate::gate::word::Word;
use crate::module::Resident;
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
use kernel::mm::MmWithUserAsync;
use kernel::page::PAGE_SHIFT;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::aref::ARef;

/// Size of a chunk: what one entry of the second level of page tables maps.
pub(super) const CHUNK: u64 = 2 << 20;
/// Pages of a chunk.
const CHUNK_PAGES: usize = (CHUNK >> PAGE_SHIFT) as usize;
/// Maximum number of chunks of a whole address space, 4 GiB, with 9 KiB of tables each. It must
/// exceed the longest message, 2 GiB, which may have to be present as a whole.
const MOST: usize = 2048;
/// Number of chunks examined to find one that was not used recently.
const LOOKED_AT: usize = 32;
/// Number of chunks examined for each new one, to find those without a page. More than one, so that
/// empty ones do not accumulate.
const SWEPT: usize = 4;

/// Memory of a process on demand, in chunks.
///
/// Call [`Chunked::release`] before dropping it in a context that must not sleep.
///
/// # Invariants
///
/// Until it has ended ([`Ends`]), `root` is an implicit `struct ib_umem_odp` that this owns, of the
/// process with the address space `mm`, to which this owns a reference.
pub struct Chunked {
    root: NonNull<bindings::ib_umem_odp>,
    /// Not an `ARef`: the last reference must not be dropped in a softirq.
    mm: NonNull<Mm>,
    uses: Word,
    space: Pin<KBox<Space>>,
    /// Its addresses.
    range: Range<u64>,
    /// Maximum number of chunks.
    most: usize,
    writable: bool,
    /// The notifiers are the module's code.
    _resident: Resident,
}

// SAFETY: Any task may release the memory and fault pages in.
unsafe impl Send for Chunked {}
// SAFETY: Changing data is protected by locks.
unsafe impl Sync for Chunked {}

/// The existing chunks.
///
/// # Invariants
///
/// While `chunks` is locked, the process maps each page that a chunk in it records as present:
/// before the mapping changes, the kernel calls [`invalidate`] and waits for it.
#[pin_data]
struct Space {
    #[pin]
    chunks: SpinLockIrq<Chunks>,
}

struct Chunks {
    /// By address, in chunks.
    tree: RBTree<u64, Chunk>,
    count: usize,
    /// Number of the chunk at which the next search for a chunk to release starts.
    hand: u64,
    /// Number of the chunk at which the next search for an empty one starts.
    swept: u64,
}

/// # Invariants
///
/// `umem` is owned until [`Space::give_back`] removes the chunk from the tree; its `private` is the
/// space.
struct Chunk {
    umem: NonNull<bindings::ib_umem_odp>,
    pages: Pages,
    /// Number of [`Entered`] for the chunk.
    busy: u32,
    /// Whether the chunk was used since the last search for a chunk to release.
    recent: bool,
}

// SAFETY: Any task may use the umem.
unsafe impl Send for Chunk {}

/// A use of a chunk, which is not released meanwhile. Must be passed to [`Space::leave`].
#[must_use]
struct Entered {
    number: u64,
    umem: NonNull<bindings::ib_umem_odp>,
}

/// Present pages, for [`Chunked::with`].
#[derive(Clone, Copy)]
pub struct There<'a>(&'a RBTree<u64, Chunk>);

impl<'a> There<'a> {
    /// Returns the kernel addresses of the page that contains `at` and of following ones, up to the
    /// end of the chunk. Only those that were requested are valid.
    pub fn pages(self, at: u64) -> &'a [usize] {
        self.0
            .get(&(at / CHUNK))
            .and_then(|chunk| chunk.pages.addresses().get(page_in_chunk(at)..))
            .unwrap_or_default()
    }
}

/// Returns the index of an address's page in its chunk.
fn page_in_chunk(at: u64) -> usize {
    // CAST: A small number.
    (at % CHUNK) as usize >> PAGE_SHIFT
}

/// Splits a range into one part per chunk: the chunk's number, and its pages.
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

const OPS: &bindings::mmu_interval_notifier_ops = &raw::ops(invalidate);

impl Chunked {
    /// Creates on-demand memory from the whole address space of the current process. May sleep.
    /// `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no process, or for invalid flags; `ENOMEM`; `EOPNOTSUPP` if the kernel
    /// does not support on-demand paging.
    pub fn whole<P: Provider>(resident: Resident, dev: &Device<P>, access: Access) -> Result<Self> {
        Self::get(resident, dev, None, access)
    }

    /// Creates on-demand memory from `len` bytes at `addr` of the current process. May sleep.
    /// `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is zero; `EOVERFLOW` if the end is beyond the address space; those of
    /// [`Self::whole`].
    pub fn part<P: Provider>(
        resident: Resident,
        dev: &Device<P>,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let end = addr.checked_add(len).ok_or(EOVERFLOW)?;
        end.checked_add(CHUNK).ok_or(EOVERFLOW)?;
        Self::get(resident, dev, Some(addr..end), access)
    }

    /// Creates on-demand memory from `range`, or from the whole address space.
    fn get<P: Provider>(
        resident: Resident,
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
        // CAST: Flags, whose sign has no meaning.
        // SAFETY: The device is registered (`Device`).
        let root = from_err_ptr(unsafe {
            bindings::rdma_helper_odp_alloc_implicit(dev.as_raw(), access.raw() as i32)
        })?;
        let root = Owned(NonNull::new(root).ok_or(ENOMEM)?);
        // SAFETY: `root` owns the object, and the flag does not change; `mm` exists.
        let (writable, end) = unsafe {
            (
                Fields::view(&raw mut (*root.0.as_ptr()).umem).writable(),
                bindings::rdma_helper_mm_task_size(mm.as_raw()),
            )
        };
        let chunks = Chunks {
            tree: RBTree::new(),
            count: 0,
            hand: 0,
            swept: 0,
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
        // INVARIANT: Established above; the core used the address space of the current process,
        // too.
        Ok(Self {
            root: root.release(),
            mm: ARef::into_raw(mm),
            uses: Word::new(),
            space,
            range,
            most,
            writable,
            _resident: resident,
        })
    }

    /// Returns its addresses, which are those of the process.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns whether the device may write to the memory.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Returns whether the memory has these bytes.
    pub fn covers(&self, at: u64, len: usize) -> bool {
        self.within(at, len).is_some()
    }

    fn within(&self, at: u64, len: usize) -> Option<Range<u64>> {
        let end = at.checked_add(u64::try_from(len).ok()?)?;
        (at >= self.range.start && end <= self.range.end).then_some(at..end)
    }

    /// Calls `f` with the pages of `len` bytes at `at`, writable if `touch` says so. `f` runs under
    /// a spinlock with interrupts disabled. Any context.
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

    /// Faults in the pages of `len` bytes at `at`, and returns their number. Without `fault`, only
    /// pages that the process has in memory are made present. May sleep, and take long.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the process does not map the memory, or not writable though `touch` is a write,
    /// or is gone; `EINVAL` if the memory was released; `EINTR` if the caller is being killed;
    /// `ENOMEM`; `EBUSY` if the process changes its mappings continually.
    pub fn fault_in(&self, at: u64, len: usize, touch: Touch, fault: bool) -> Result<usize> {
        let Some(write) = touch.to_fault(self.writable)? else {
            return Ok(0);
        };
        let range = self.within(at, len).ok_or(EFAULT)?;
        let in_use = Use::of(self).ok_or(EINVAL)?;
        // The core requires that the address space has users until this is done.
        // SAFETY: While this is used it has not ended, so it owns a reference (type invariant).
        let mm = unsafe { self.mm.as_ref() }.mmget_not_zero();
        // Asynchronously: the last user tears the address space down, which waits for our
        // notifiers.
        let mm = MmWithUser::into_mmput_async(mm.ok_or(EFAULT)?);
        let mut came = 0usize;
        for (number, pages) in by_chunk(range) {
            let entered = match self.space.enter(number) {
                Some(entered) => entered,
                None => accounted::charged_to(&mm, || self.create(number, &in_use, &mm))?,
            };
            // SAFETY: The chunk's umem is valid while it is entered (invariant of `Chunk`), and not
            // implicit.
            let done = unsafe {
                raw::bring(entered.umem.as_ptr(), pages, write, fault, |index, page| {
                    // INVARIANT: The process maps the page while `bring` reports it.
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

    /// Creates a chunk and enters it, while this is used and the process's address space has a user.
    fn create(&self, number: u64, _use: &Use<'_, Self>, _mm: &MmWithUserAsync) -> Result<Entered> {
        while let Some(victim) = self.space.victim(self.most) {
            self.space.give_back(victim, |_| true);
        }
        for _ in 0..SWEPT {
            if let Some(empty) = self.space.empty() {
                self.space.give_back(empty, Pages::is_empty);
            }
        }
        let start = usize::try_from(number.checked_mul(CHUNK).ok_or(EFAULT)?)?;
        // SAFETY: While this is used, which `_use` proves, it has not ended, so `root` is valid
        // (type invariant). The operations are a constant of the module. The address space has a
        // user, `_mm`.
        let umem = from_err_ptr(unsafe {
            let size = CHUNK_PAGES * PAGE_SIZE;
            bindings::rdma_helper_odp_alloc_child(self.root.as_ptr(), start, size, OPS)
        })?;
        let umem = Owned(NonNull::new(umem).ok_or(ENOMEM)?);
        // SAFETY: The space outlives the notifier: `release` releases all chunks before it is
        // dropped. It is set before a page can become present.
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
            // INVARIANT: The chunk in the tree owns it.
            let _ = umem.release();
        }
        entered.ok_or(EAGAIN)
    }

    /// Releases the memory: no more pages become present. Pages that are present, and the memory
    /// itself, are released at once if no `fault_in` runs, otherwise when the last of them ends, for
    /// which this does not wait. May sleep; a second call does not.
    pub fn release(&self) {
        uses::close(self);
    }

    /// See [`Umem::check_rereg`](crate::umem::Umem::check_rereg).
    pub fn check_rereg(&self, mask: RegionMask, access: Access) -> Result {
        let _use = Use::of(self).ok_or(EINVAL)?;
        // SAFETY: While this is used it has not ended, so `root` is valid (type invariant).
        unsafe { raw::check_rereg(self.root, mask, access) }
    }
}

impl Ends for Chunked {
    fn uses(&self) -> &Word {
        &self.uses
    }

    unsafe fn end(&self) {
        while let Some(first) = self.space.first() {
            self.space.give_back(first, |_| true);
        }
        // SAFETY: Both were owned until now (type invariant), and this is called once (contract of
        // this function). All children are released.
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
    /// Enters a chunk, if it exists.
    fn enter(&self, number: u64) -> Option<Entered> {
        self.chunks.lock().enter(number)
    }

    /// Inserts a new chunk and enters it. If there is a chunk with this number already, enters that
    /// one and returns the new one.
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

    /// Leaves a chunk, which is released if it is empty and has no other user.
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

    /// Enters the first chunk, if there is one. No chunk has users.
    fn first(&self) -> Option<Entered> {
        let mut chunks = self.chunks.lock();
        let number = *chunks.tree.cursor_front()?.current().0;
        chunks.enter(number)
    }

    /// Enters a chunk to be released, if there are `most` chunks and one without users is found.
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

    /// Examines one chunk, and enters it if it has neither a page nor a user.
    fn empty(&self) -> Option<Entered> {
        let mut chunks = self.chunks.lock();
        let from = chunks.swept;
        let cursor = match chunks.tree.cursor_lower_bound(&from) {
            Some(cursor) => cursor,
            None => chunks.tree.cursor_front()?,
        };
        let (&number, chunk) = cursor.current();
        let is_empty = chunk.busy == 0 && chunk.pages.is_empty();
        chunks.swept = number.saturating_add(1);
        is_empty.then(|| chunks.enter(number)).flatten()
    }

    /// Releases a chunk if it has no other user and `if_so` returns true; otherwise leaves it.
    fn give_back(&self, entered: Entered, if_so: impl FnOnce(&Pages) -> bool) {
        let raw = entered.umem.as_ptr();
        // SAFETY: The chunk's umem is valid while it is entered (invariant of `Chunk`). While its
        // mutex is held, no page becomes present or absent, so the process maps those that are
        // present.
        unsafe { bindings::rdma_helper_odp_lock(raw) };
        let Some(node) = self.take_out(&entered, if_so) else {
            // SAFETY: Locked above; the chunk is still entered.
            unsafe { bindings::rdma_helper_odp_unlock(raw) };
            // After unlocking: the last user to leave frees the mutex.
            if let Some(chunk) = self.chunks.lock().tree.get_mut(&entered.number) {
                chunk.busy = chunk.busy.saturating_sub(1);
            }
            return;
        };
        let (_, mut chunk) = node.to_key_value();
        let mut next = 0;
        while let Some(pages) = chunk.pages.forget(&mut next, CHUNK_PAGES) {
            // SAFETY: The process maps the pages while the mutex is held, see above.
            unsafe { pages.tell() };
        }
        // SAFETY: Locked above. The chunk's umem is owned by whoever has removed it from the tree.
        unsafe {
            bindings::rdma_helper_odp_unlock(raw);
            bindings::rdma_helper_odp_release(raw);
        }
    }

    /// Removes a chunk from the tree, under its umem's mutex, unless it has other users.
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

    /// Records pages of a chunk as absent.
    ///
    /// # Safety
    ///
    /// The mutex of the chunk's umem must be held, and the process must still map the pages.
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
                // SAFETY: The process maps these pages (contract of this function).
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

/// Called by the kernel before it changes what the process maps in a range. May sleep if the range
/// permits it. The pages are not used any more when it returns.
///
/// # Safety
///
/// Only for the memory management, for the notifier of a [`Chunk`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    // SAFETY: The arguments are those of a call of a notifier by the memory management (contract of
    // this function), before the process's pages change. `raw::invalidate` holds the umem's mutex
    // around the closure.
    unsafe {
        raw::invalidate(notifier, range, seq, |private, first, gone| {
            // It is set before the chunk is inserted; before that no page is present. A removed
            // chunk may have a successor, of which then more pages are removed than necessary.
            if let Some(space) = private.cast::<Space>().as_ref() {
                space.forget(first / CHUNK, gone);
            }
        })
    }
}
