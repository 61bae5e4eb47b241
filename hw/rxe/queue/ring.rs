// SPDX-License-Identifier: GPL-2.0

//! The two ends of a shared queue.
//!
//! Each end keeps its own index and dimensions private. The other end's index is in memory that
//! user space may write at any time, so it is only a hint: it is masked, and a wrong value affects
//! only the user's own entries. The other end's index is read with acquire order and the own one is
//! published with release order, so that entries are complete when they are announced.
//!
//! Locking: all modifying methods take `&mut self`; the owner of an end provides the lock or the
//! exclusive context. Nothing here sleeps.
//!
//! Pure: no kernel imports; tested on the host.

use super::layout::{Layout, CONSUMER_INDEX, INDEX_MASK, LOG2_ELEM_SIZE, PRODUCER_INDEX};

/// Memory of a queue, which others may write at any time.
///
/// Offsets are in bytes. Every method returns `None` without any effect if its range is not inside
/// the memory (or, for the 32-bit ones, not aligned).
pub trait RingMem {
    /// Reads an index with acquire order.
    fn load_acquire(&self, offset: usize) -> Option<u32>;
    /// Writes an index with release order.
    fn store_release(&self, offset: usize, value: u32) -> Option<()>;
    /// Copies bytes out. Concurrent writes by the other side may be seen in part.
    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()>;
    /// Copies bytes in.
    fn write(&self, offset: usize, from: &[u8]) -> Option<()>;
}

/// Writes the constant part of a new, zeroed queue.
pub fn format<M: RingMem>(mem: &M, layout: &Layout) -> Option<()> {
    mem.store_release(LOG2_ELEM_SIZE, layout.log2_slot())?;
    mem.store_release(INDEX_MASK, layout.mask())
}

/// The kernel's end of a queue that another party fills: SQ, RQ, SRQ.
///
/// Entries pass through two steps: *taken* (copied out and in progress) and *retired* (the producer
/// may reuse the slot). In a send queue, the slot's index names the request between the two steps;
/// a receive queue retires at once.
///
/// # Invariants
///
/// `tail` and `taken` are masked; the slots from `tail` up to `taken` are in progress.
pub struct Consumer<M> {
    mem: M,
    layout: Layout,
    /// The oldest slot in progress; the producer sees it as `consumer_index`.
    tail: u32,
    /// The next slot to take.
    taken: u32,
}

impl<M: RingMem> Consumer<M> {
    /// Returns the memory.
    pub fn mem_mut(&mut self) -> &mut M {
        &mut self.mem
    }

    /// Creates the consumer of a new queue, whose indices are zero.
    pub fn new(mem: M, layout: Layout) -> Self {
        Self {
            mem,
            layout,
            tail: 0,
            taken: 0,
        }
    }

    /// Returns the queue's dimensions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of waiting entries, according to the producer's index.
    #[inline]
    pub fn waiting(&self) -> u32 {
        let produced = self.mem.load_acquire(PRODUCER_INDEX).unwrap_or(self.taken);
        let ahead = self.layout.distance(self.taken, produced);
        // The producer may not reuse slots in progress. A producer index beyond the free room is
        // invalid and is limited to that room.
        let room = self.layout.capacity().wrapping_sub(self.in_work());
        ahead.min(room)
    }

    /// Returns the number of entries that are taken and not yet retired.
    pub fn in_work(&self) -> u32 {
        self.layout.distance(self.tail, self.taken)
    }

    /// Returns the next entry, if one is waiting, to be read before [`Consumer::take`].
    pub fn peek(&self) -> Option<Entry<'_, M>> {
        (self.waiting() != 0).then(|| self.next_entry())
    }

    /// Returns the next entry. The caller has checked with [`Consumer::waiting`] that one is
    /// waiting; otherwise the slot's old contents are returned.
    pub fn next_entry(&self) -> Entry<'_, M> {
        self.entry(self.taken)
    }

    /// Returns the entry that was added last, if any of the `waiting` entries that
    /// [`Consumer::waiting`] returned is.
    pub fn newest(&self, waiting: u32) -> Option<Entry<'_, M>> {
        let last = waiting.checked_sub(1)?;
        Some(self.entry(self.layout.advance(self.taken, last)))
    }

    /// Takes the entry that [`Consumer::peek`] returned, and returns its slot's index.
    ///
    /// Does nothing if no entry is waiting, which happens only without a preceding `peek`.
    pub fn take(&mut self) -> u32 {
        let slot = self.taken;
        if self.in_work() < self.layout.capacity() {
            self.taken = self.layout.advance(self.taken, 1);
        }
        slot
    }

    /// Takes the entry that [`Consumer::peek`] returned, and returns its slot and those in progress to
    /// the producer.
    pub fn consume(&mut self) {
        self.taken = self.layout.advance(self.taken, 1);
        self.tail = self.taken;
        // The offset is inside every queue, so this does not fail.
        let _: Option<()> = self.mem.store_release(CONSUMER_INDEX, self.tail);
    }

    /// Returns the oldest `n` slots in progress to the producer.
    pub fn retire(&mut self, n: u32) {
        self.tail = self.layout.advance(self.tail, n.min(self.in_work()));
        // The offset is inside every queue, so this does not fail.
        let _: Option<()> = self.mem.store_release(CONSUMER_INDEX, self.tail);
    }

    /// Discards all entries, waiting and in progress, as the queue pair was reset.
    ///
    /// Sets the consumer's index to the producer's.
    pub fn reset(&mut self) {
        let produced = self.mem.load_acquire(PRODUCER_INDEX).unwrap_or(0);
        self.tail = produced & self.layout.mask();
        self.taken = self.tail;
        let _: Option<()> = self.mem.store_release(CONSUMER_INDEX, self.tail);
    }

    /// Moves to a new, empty queue and copies the waiting entries. No entries may be in progress.
    /// Returns the old memory.
    ///
    /// # Errors
    ///
    /// Returns `fresh` if the entries do not fit; nothing has changed then.
    pub fn move_to(&mut self, fresh: M, layout: Layout) -> Result<M, M> {
        let live = self.waiting();
        let idle = self.in_work() == 0;
        if !idle
            || copy_entries(&self.mem, &self.layout, self.taken, live, &fresh, &layout).is_none()
        {
            return Err(fresh);
        }
        self.layout = layout;
        self.tail = 0;
        self.taken = 0;
        Ok(core::mem::replace(&mut self.mem, fresh))
    }

    fn entry(&self, index: u32) -> Entry<'_, M> {
        Entry {
            mem: &self.mem,
            start: self.layout.slot(index),
            len: self.layout.entry(),
        }
    }
}

/// One entry in shared memory, not validated.
pub struct Entry<'a, M> {
    mem: &'a M,
    start: usize,
    len: usize,
}

impl<M: RingMem> Entry<'_, M> {
    /// Copies bytes out, from `offset` in the entry. Read each byte only once: a second read may
    /// return another value. `None` if the range exceeds the entry.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        if to.len() > self.len.checked_sub(offset)? {
            return None;
        }
        self.mem.read(self.start.checked_add(offset)?, to)
    }
}

/// Reasons why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// No free slot.
    Full,
    /// The parts exceed the entry, which is a bug of the caller. Nothing was added.
    TooLong,
}

/// A free slot being filled.
pub struct Blank<'a, M> {
    mem: &'a M,
    start: usize,
    len: usize,
}

impl<M: RingMem> Blank<'_, M> {
    /// Copies bytes to `offset` in the entry. `None` if the range exceeds the entry.
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        if from.len() > self.len.checked_sub(offset)? {
            return None;
        }
        self.mem.write(self.start.checked_add(offset)?, from)
    }
}

/// The kernel's end of a queue that the kernel fills: completion queues and the work queues of
/// kernel users.
///
/// # Invariants
///
/// `next` is masked.
pub struct Producer<M> {
    mem: M,
    layout: Layout,
    next: u32,
}

impl<M: RingMem> Producer<M> {
    /// Returns the memory.
    pub fn mem_mut(&mut self) -> &mut M {
        &mut self.mem
    }

    /// Creates the producer of a new queue, whose indices are zero.
    pub fn new(mem: M, layout: Layout) -> Self {
        Self {
            mem,
            layout,
            next: 0,
        }
    }

    /// Creates the producer of a queue that already holds entries, in memory that only the kernel
    /// writes.
    pub fn resume(mem: M, layout: Layout) -> Self {
        let next = mem.load_acquire(PRODUCER_INDEX).unwrap_or(0) & layout.mask();
        Self { mem, layout, next }
    }

    /// Returns the queue's dimensions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of entries not consumed yet, according to the consumer's index.
    pub fn used(&self) -> u32 {
        let consumed = self.mem.load_acquire(CONSUMER_INDEX).unwrap_or(self.next);
        self.layout.distance(consumed, self.next)
    }

    /// Returns the number of free entries.
    pub fn free(&self) -> u32 {
        self.layout.capacity().wrapping_sub(self.used())
    }

    /// Calls `fill` to write one entry, and announces it.
    ///
    /// # Errors
    ///
    /// See [`PushError`]. Nothing is announced then.
    pub fn push(
        &mut self,
        fill: impl FnOnce(&Blank<'_, M>) -> Option<()>,
    ) -> Result<(), PushError> {
        if self.free() == 0 {
            return Err(PushError::Full);
        }
        let blank = Blank {
            mem: &self.mem,
            start: self.layout.slot(self.next),
            len: self.layout.entry(),
        };
        fill(&blank).ok_or(PushError::TooLong)?;
        self.next = self.layout.advance(self.next, 1);
        self.mem
            .store_release(PRODUCER_INDEX, self.next)
            .ok_or(PushError::TooLong)
    }

    /// Moves to a new, empty queue and copies the entries not consumed yet.
    ///
    /// Returns the old memory. User space may continue to read it, but entries that it consumes
    /// there after this call appear again in the new queue; librxe excludes its readers during a
    /// resize.
    ///
    /// # Errors
    ///
    /// Returns `fresh` if the entries do not fit; nothing has changed then.
    pub fn move_to(&mut self, fresh: M, layout: Layout) -> Result<M, M> {
        let live = self.used();
        let first = self.layout.back(self.next, live);
        if copy_entries(&self.mem, &self.layout, first, live, &fresh, &layout).is_none() {
            return Err(fresh);
        }
        self.layout = layout;
        self.next = live;
        Ok(core::mem::replace(&mut self.mem, fresh))
    }
}

/// Copies `live` entries from index `first` to the start of an empty queue and announces them.
/// `None` if they do not fit.
fn copy_entries<M: RingMem>(
    from: &M,
    layout: &Layout,
    first: u32,
    live: u32,
    to: &M,
    to_layout: &Layout,
) -> Option<()> {
    if live > to_layout.capacity() || layout.entry() != to_layout.entry() {
        return None;
    }
    let mut block = [0u8; 64];
    for i in 0..live {
        let source = layout.slot(layout.advance(first, i));
        let target = to_layout.slot(i);
        let mut done = 0;
        while done < layout.entry() {
            let size = block.len().min(layout.entry().saturating_sub(done));
            let part = block.get_mut(..size)?;
            from.read(source.checked_add(done)?, part)?;
            to.write(target.checked_add(done)?, part)?;
            done = done.checked_add(part.len())?;
        }
    }
    to.store_release(PRODUCER_INDEX, live)
}
