// SPDX-License-Identifier: GPL-2.0

//! Where things are in a shared queue: `struct rxe_queue_buf` of
//! `include/uapi/rdma/rdma_user_rxe.h`.
//!
//! A queue is a header of three cache-line groups (two constants, the producer's
//! index, the consumer's index) and a power of two of equally large slots. User
//! space has all of it mapped for writing; therefore the kernel never reads the
//! two constants back and computes every offset from its own [`Layout`].
//!
//! Pure: no kernel imports; tested on the host.

/// Offset of `log2_elem_size`.
pub const LOG2_ELEM_SIZE: usize = 0;
/// Offset of `index_mask`.
pub const INDEX_MASK: usize = 4;
/// Offset of `producer_index`.
pub const PRODUCER_INDEX: usize = 128;
/// Offset of `consumer_index`.
pub const CONSUMER_INDEX: usize = 256;
/// Offset of the first slot.
pub const SLOTS: usize = 384;

/// The smallest slot, in bytes: one cache line.
const MIN_SLOT: usize = 64;
/// No queue has more slots than this: enough for every limit that the device
/// reports, and low enough for all offsets to fit 32 bits.
const MAX_SLOTS: u32 = 1 << 21;
/// The largest entry, in bytes: a send request of 208 and 512 bytes of data.
const MAX_ENTRY: usize = 1024;

/// The dimensions of one queue.
///
/// # Invariants
///
/// `mask + 1` is a power of two, at most `2^21`; `log2_slot` is 6 to 10. All
/// offsets that the methods return therefore fit 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    mask: u32,
    log2_slot: u32,
    entry: usize,
}

impl Layout {
    /// Dimensions for at least `entries` entries of `entry` bytes each.
    ///
    /// One slot always stays free (a full ring must differ from an empty one), and
    /// both numbers are rounded up to powers of two, as user space expects:
    /// [`Layout::capacity`] is what the caller reports back. `None` if either
    /// number is beyond any limit.
    pub fn new(entries: u32, entry: usize) -> Option<Self> {
        if entries >= MAX_SLOTS || entry == 0 || entry > MAX_ENTRY {
            return None;
        }
        let slots = entries.checked_add(1)?.checked_next_power_of_two()?;
        let slot = entry.max(MIN_SLOT).checked_next_power_of_two()?;
        // INVARIANT: `entries < 2^21`, so `slots <= 2^21`; `64 <= slot <= 1024`.
        Some(Self {
            mask: slots.wrapping_sub(1),
            log2_slot: slot.trailing_zeros(),
            entry,
        })
    }

    /// How many entries the queue holds when full.
    pub fn capacity(&self) -> u32 {
        self.mask
    }

    /// The number of slots, [`Layout::capacity`] and one.
    pub fn slots(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// All indices are stored and compared modulo the number of slots.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The value of `log2_elem_size`.
    pub fn log2_slot(&self) -> u32 {
        self.log2_slot
    }

    /// Bytes of an entry, which may be less than its slot.
    pub fn entry(&self) -> usize {
        self.entry
    }

    /// Bytes of the whole queue, header included.
    pub fn size(&self) -> usize {
        // OVERFLOW: at most 2^21 slots of 2^10 bytes (invariant).
        SLOTS.wrapping_add((self.slots() as usize).wrapping_shl(self.log2_slot))
    }

    /// Offset of the slot with the given index, which is masked first.
    pub fn slot(&self, index: u32) -> usize {
        // OVERFLOW: as for `size`.
        SLOTS.wrapping_add(((index & self.mask) as usize).wrapping_shl(self.log2_slot))
    }

    /// How far `to` is ahead of `from`, going forward round the ring.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }

    /// The index `n` slots further on.
    pub fn advance(&self, index: u32, n: u32) -> u32 {
        index.wrapping_add(n) & self.mask
    }

    /// The index `n` slots back.
    pub fn back(&self, index: u32, n: u32) -> u32 {
        index.wrapping_sub(n) & self.mask
    }
}
