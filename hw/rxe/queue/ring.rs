// SPDX-License-Identifier: GPL-2.0

//! The two ends of a shared queue.
//!
//! Each end keeps its own index and dimensions private. The other end's index
//! comes from memory that user space writes at any time, so it is a hint: it is
//! masked, and a lie in it costs the liar its own entries and nobody else anything.
//! The index of the other end is read with acquire order, one's own is published
//! with release order, so that entries are complete when they are announced.
//!
//! Locking: `&mut self` everywhere; whoever owns an end brings the lock or the
//! exclusive context. Nothing here sleeps.
//!
//! Pure: no kernel imports; tested on the host.

use super::layout::{Layout, CONSUMER_INDEX, INDEX_MASK, LOG2_ELEM_SIZE, PRODUCER_INDEX};

/// Memory that a queue lives in and that somebody else may write at any time.
///
/// Offsets are in bytes. Every method answers `None` and does nothing if its range
/// is not inside the memory (or, for the 32-bit ones, not aligned).
pub trait RingMem {
    /// Reads an index with acquire order.
    fn load_acquire(&self, offset: usize) -> Option<u32>;
    /// Writes an index with release order.
    fn store_release(&self, offset: usize, value: u32) -> Option<()>;
    /// Copies bytes out. They may be a mixture if the other side writes meanwhile.
    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()>;
    /// Copies bytes in.
    fn write(&self, offset: usize, from: &[u8]) -> Option<()>;
}

/// Writes the constant part of a fresh, zeroed queue.
pub fn format<M: RingMem>(mem: &M, layout: &Layout) -> Option<()> {
    mem.store_release(LOG2_ELEM_SIZE, layout.log2_slot())?;
    mem.store_release(INDEX_MASK, layout.mask())
}

/// The kernel's end of a queue that somebody else fills: SQ, RQ, SRQ.
///
/// Entries pass through two steps: *taken* (copied out, the owner works on it) and
/// *retired* (the producer may use the slot again). For a send queue the two are
/// far apart and a slot's index names the request in between; a receive queue
/// retires at once.
///
/// # Invariants
///
/// `tail` and `taken` are masked; the slots from `tail` up to `taken` are in work.
pub struct Consumer<M> {
    mem: M,
    layout: Layout,
    /// The oldest slot in work; what the producer sees as `consumer_index`.
    tail: u32,
    /// The next slot to take.
    taken: u32,
}

impl<M: RingMem> Consumer<M> {
    /// The memory.
    pub fn mem_mut(&mut self) -> &mut M {
        &mut self.mem
    }

    /// The consumer of a fresh queue, whose indices are zero.
    pub fn new(mem: M, layout: Layout) -> Self {
        Self {
            mem,
            layout,
            tail: 0,
            taken: 0,
        }
    }

    /// The queue's dimensions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many entries wait to be taken, as the producer has it.
    #[inline]
    pub fn waiting(&self) -> u32 {
        let produced = self.mem.load_acquire(PRODUCER_INDEX).unwrap_or(self.taken);
        let ahead = self.layout.distance(self.taken, produced);
        // A full ring never reaches round to a slot in work; a producer that claims
        // so is lying, and gets only what room there is.
        let room = self.layout.capacity().wrapping_sub(self.in_work());
        ahead.min(room)
    }

    /// How many entries are taken and not yet retired.
    pub fn in_work(&self) -> u32 {
        self.layout.distance(self.tail, self.taken)
    }

    /// The next entry, if one waits, to be read before [`Consumer::take`].
    pub fn peek(&self) -> Option<Entry<'_, M>> {
        (self.waiting() != 0).then(|| self.next_entry())
    }

    /// The next entry, for who has seen in [`Consumer::waiting`] that one waits; else what an
    /// earlier one left there.
    pub fn next_entry(&self) -> Entry<'_, M> {
        self.entry(self.taken)
    }

    /// The entry that was added last, if one waits.
    pub fn peek_newest(&self) -> Option<Entry<'_, M>> {
        let last = self.waiting().checked_sub(1)?;
        Some(self.entry(self.layout.advance(self.taken, last)))
    }

    /// Takes the entry that [`Consumer::peek`] showed and returns its slot's index.
    ///
    /// Does nothing if none waits, which only happens without a `peek` before.
    pub fn take(&mut self) -> u32 {
        let slot = self.taken;
        if self.in_work() < self.layout.capacity() {
            self.taken = self.layout.advance(self.taken, 1);
        }
        slot
    }

    /// Gives the oldest `n` slots in work back to the producer.
    pub fn retire(&mut self, n: u32) {
        self.tail = self.layout.advance(self.tail, n.min(self.in_work()));
        // The offset is inside every queue, so this cannot fail.
        let _: Option<()> = self.mem.store_release(CONSUMER_INDEX, self.tail);
    }

    /// Forgets all entries, waiting and in work: the queue pair was reset.
    ///
    /// The producer's index becomes where the consumer stands, so that both agree.
    pub fn reset(&mut self) {
        let produced = self.mem.load_acquire(PRODUCER_INDEX).unwrap_or(0);
        self.tail = produced & self.layout.mask();
        self.taken = self.tail;
        let _: Option<()> = self.mem.store_release(CONSUMER_INDEX, self.tail);
    }

    /// Moves to a new, empty queue and copies there what waits. Nothing may be in
    /// work. Returns the old memory.
    ///
    /// # Errors
    ///
    /// Gives `fresh` back if the entries do not fit; nothing has changed then.
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

/// One entry in shared memory, before anybody believes it.
pub struct Entry<'a, M> {
    mem: &'a M,
    start: usize,
    len: usize,
}

impl<M: RingMem> Entry<'_, M> {
    /// Copies bytes out, from `offset` in the entry. Read each byte once: the next
    /// read may see something else. `None` if that is beyond the entry.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        if to.len() > self.len.checked_sub(offset)? {
            return None;
        }
        self.mem.read(self.start.checked_add(offset)?, to)
    }
}

/// Why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// There was no free slot.
    Full,
    /// The parts went beyond the entry: a mistake of the caller. Nothing was added.
    TooLong,
}

/// A free slot that is being filled.
pub struct Blank<'a, M> {
    mem: &'a M,
    start: usize,
    len: usize,
}

impl<M: RingMem> Blank<'_, M> {
    /// Copies bytes in, to `offset` in the entry. `None` if that is beyond it.
    pub fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        if from.len() > self.len.checked_sub(offset)? {
            return None;
        }
        self.mem.write(self.start.checked_add(offset)?, from)
    }
}

/// The kernel's end of a queue that the kernel fills: completion queues, and the
/// work queues of kernel users.
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
    /// The memory.
    pub fn mem_mut(&mut self) -> &mut M {
        &mut self.mem
    }

    /// The producer of a fresh queue, whose indices are zero.
    pub fn new(mem: M, layout: Layout) -> Self {
        Self {
            mem,
            layout,
            next: 0,
        }
    }

    /// The producer of a queue that holds entries already, in memory that nobody but
    /// the kernel writes.
    pub fn resume(mem: M, layout: Layout) -> Self {
        let next = mem.load_acquire(PRODUCER_INDEX).unwrap_or(0) & layout.mask();
        Self { mem, layout, next }
    }

    /// The queue's dimensions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many entries the consumer has not taken yet, as the consumer has it.
    pub fn used(&self) -> u32 {
        let consumed = self.mem.load_acquire(CONSUMER_INDEX).unwrap_or(self.next);
        self.layout.distance(consumed, self.next)
    }

    /// How many more entries fit.
    pub fn free(&self) -> u32 {
        self.layout.capacity().wrapping_sub(self.used())
    }

    /// Lets `fill` write one entry, and announces it.
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

    /// Moves to a new, empty queue and copies there what was not consumed yet.
    ///
    /// Returns the old memory. User space may go on reading the old memory, but
    /// whatever it consumes there after this call it will see again in the new queue;
    /// librxe locks its readers out during a resize.
    ///
    /// # Errors
    ///
    /// Gives `fresh` back if the entries do not fit; nothing has changed then.
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

/// Copies `live` entries, from index `first` on, to the start of an empty queue, and
/// announces them there. `None` if they do not fit.
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
