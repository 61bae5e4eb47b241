// SPDX-License-Identifier: GPL-2.0

//! Layout of a shared queue: `struct rxe_queue_buf` of `include/uapi/rdma/rdma_user_rxe.h`.
//!
//! A queue is a header of three 128-byte groups (two constants, the producer's index, the
//! consumer's index) and a power of two of slots of equal size. User space maps all of it writable;
//! therefore the kernel never reads the two constants back and computes every offset from its own
//! [`Layout`].
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

/// Minimum slot size in bytes: one cache line.
const MIN_SLOT: usize = 64;
/// Maximum number of slots: sufficient for every limit that the device reports, and small enough
/// for all offsets to fit 32 bits.
const MAX_SLOTS: u32 = 1 << 21;
/// Maximum entry size in bytes; a send request needs 208 plus up to 512 of data.
const MAX_ENTRY: usize = 1024;

/// Dimensions of a queue.
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
    /// Computes the dimensions for at least `entries` entries of `entry` bytes each.
    ///
    /// One slot always stays free to distinguish a full ring from an empty one, and both numbers
    /// are rounded up to powers of two, as user space expects. [`Layout::capacity`] is the value to
    /// report back. `None` if either number exceeds the limits.
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

    /// Returns the number of entries of a full queue.
    pub fn capacity(&self) -> u32 {
        self.mask
    }

    /// Returns the number of slots: [`Layout::capacity`] plus one.
    pub fn slots(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Returns the index mask: indices are stored and compared modulo the number of slots.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Returns the value of `log2_elem_size`.
    pub fn log2_slot(&self) -> u32 {
        self.log2_slot
    }

    /// Returns the bytes of an entry, which may be fewer than those of its slot.
    pub fn entry(&self) -> usize {
        self.entry
    }

    /// Returns the bytes of the whole queue, including the header.
    pub fn size(&self) -> usize {
        // OVERFLOW: at most 2^21 slots of 2^10 bytes (invariant).
        SLOTS.wrapping_add((self.slots() as usize).wrapping_shl(self.log2_slot))
    }

    /// Returns the offset of the slot with the given index, which is masked first.
    pub fn slot(&self, index: u32) -> usize {
        // OVERFLOW: see `size`.
        SLOTS.wrapping_add(((index & self.mask) as usize).wrapping_shl(self.log2_slot))
    }

    /// Returns the number of slots from `from` forward to `to`, around the ring.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }

    /// Returns the index `n` slots forward.
    pub fn advance(&self, index: u32, n: u32) -> u32 {
        index.wrapping_add(n) & self.mask
    }

    /// Returns the index `n` slots back.
    pub fn back(&self, index: u32, n: u32) -> u32 {
        index.wrapping_sub(n) & self.mask
    }
}
