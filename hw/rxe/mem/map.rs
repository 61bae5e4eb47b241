// SPDX-License-Identifier: GPL-2.0

//! Translation of a range of a memory region to kernel pointers. All page arithmetic is in this
//! file.
//!
//! A region is a list of blocks of equal size, each contiguous in the kernel's address space:
//! system pages, or the smaller or larger pages that a kernel user registers. The first byte may
//! lie inside the first block.
//!
//! Pure: no kernel imports; tested on the host.

use core::ops::Range;
use core::ptr::NonNull;

/// Geometry of a region.
///
/// # Invariants
///
/// `first < 2^shift`, and `shift < 32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    shift: u32,
    first: u64,
    len: u64,
}

impl Shape {
    /// An empty region.
    pub const EMPTY: Self = Self {
        shift: 0,
        first: 0,
        len: 0,
    };

    /// A region of `len` bytes in blocks of `2^shift` bytes, starting at offset `first` of the
    /// first block. `None` if the values are invalid.
    pub fn new(shift: u32, first: u64, len: u64) -> Option<Self> {
        let fits =
            shift < 32 && first < 1u64.checked_shl(shift)? && first.checked_add(len).is_some();
        // INVARIANT: just checked.
        fits.then_some(Self { shift, first, len })
    }

    /// Returns the block size in bytes, a power of two.
    #[inline(always)]
    fn size(&self) -> u64 {
        // OVERFLOW: `shift < 32` (invariant).
        1u64.wrapping_shl(self.shift)
    }

    /// Returns the bytes in the region.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        // OVERFLOW: the sum was checked by `new`.
        let end = self.first.wrapping_add(self.len);
        end.div_ceil(self.size())
    }

    /// Returns the pieces of `len` bytes at `offset`. `blocks` are the addresses of all blocks.
    /// `None` unless the whole range is inside the region and `blocks`.
    #[inline]
    pub fn walk<'a>(&self, blocks: &'a [usize], offset: u64, len: usize) -> Option<Pieces<'a>> {
        let span = self.span(offset, len)?;
        let size = usize::try_from(self.size()).ok()?;
        // OVERFLOW: `span` has checked this sum.
        let start = self.first.wrapping_add(offset);
        Some(Pieces {
            blocks: blocks.get(span)?,
            inside: usize::try_from(start).ok()? & size.wrapping_sub(1),
            size,
            left: len,
            more: None,
        })
    }

    /// Returns the block index and the offset in it of `len` bytes at `offset`, if they lie in one
    /// block. `None` also if the range is not inside the region.
    #[inline]
    pub fn in_one_block(&self, offset: u64, len: usize) -> Option<(usize, usize)> {
        let bytes = u64::try_from(len).ok()?;
        if bytes > self.len.checked_sub(offset)? {
            return None;
        }
        // OVERFLOW: `offset <= self.len`, and `first + self.len` was checked.
        let start = self.first.wrapping_add(offset);
        let size = self.size();
        let inside = start & size.wrapping_sub(1);
        if bytes > size.wrapping_sub(inside) {
            return None;
        }
        let block = usize::try_from(start.wrapping_shr(self.shift)).ok()?;
        Some((block, usize::try_from(inside).ok()?))
    }

    /// Returns the indices of the blocks that contain `len` bytes at `offset`. `None` unless the
    /// whole range is inside the region.
    #[inline]
    pub fn span(&self, offset: u64, len: usize) -> Option<Range<usize>> {
        let bytes = u64::try_from(len).ok()?;
        if bytes > self.len.checked_sub(offset)? {
            return None;
        }
        // OVERFLOW: `offset + bytes <= self.len`, and `first + self.len` was checked.
        let start = self.first.wrapping_add(offset);
        let end = start.wrapping_add(bytes);
        let from = usize::try_from(start.wrapping_shr(self.shift)).ok()?;
        // Cheaper than a division; the compiler does not know that the size is a power of two.
        let to = match end.checked_sub(1) {
            // OVERFLOW: `last < 2^64 - 1`.
            Some(last) => last.wrapping_shr(self.shift).wrapping_add(1),
            None => 0,
        };
        let to = usize::try_from(to).ok()?;
        // An empty range at a block's start contains no block.
        Some(from..to.max(from))
    }
}

/// A contiguous piece of memory; valid for `len` bytes as long as the region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start of the piece.
    pub at: NonNull<u8>,
    /// Length in bytes, never zero.
    pub len: usize,
}

/// Iterator over the pieces of a range.
pub struct Pieces<'a> {
    blocks: &'a [usize],
    inside: usize,
    size: usize,
    left: usize,
    /// Source of further blocks, if `blocks` is not complete.
    more: Option<More<'a>>,
}

impl<'a> Pieces<'a> {
    /// Pieces of an empty range.
    pub const NONE: Pieces<'static> = Pieces {
        blocks: &[],
        inside: 0,
        size: 0,
        left: 0,
        more: None,
    };

    /// One piece of `len` bytes at a kernel address. `None` for address zero.
    pub fn direct(address: &'a usize, len: usize) -> Option<Self> {
        if *address == 0 {
            return None;
        }
        Some(Self {
            blocks: core::slice::from_ref(address),
            inside: 0,
            size: len,
            left: len,
            more: None,
        })
    }

    /// Pieces of `len` bytes in blocks of `2^shift` bytes, the first at the block offset of address
    /// `first`. `more` returns further blocks on demand.
    pub fn in_parts(more: More<'a>, shift: u32, first: u64, len: usize) -> Option<Self> {
        let size = 1usize.checked_shl(shift)?;
        Some(Self {
            blocks: &[],
            inside: usize::try_from(first).ok()? & size.wrapping_sub(1),
            size,
            left: len,
            more: Some(more),
        })
    }
}

/// Source of further blocks for [`Pieces`]: given the number of remaining bytes, returns the next
/// blocks that hold them. It may return fewer than all of them, but at least one.
type More<'a> = &'a dyn Fn(usize) -> &'a [usize];

/// Fetches further blocks and returns the first and the rest. Takes its arguments by value, so that
/// the pieces of a list stay in registers.
#[cold]
fn go_on<'a>(more: Option<More<'a>>, left: usize) -> Option<(&'a usize, &'a [usize])> {
    more?(left).split_first()
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let (block, rest) = match self.blocks.split_first() {
            Some(found) => found,
            None => go_on(self.more, self.left)?,
        };
        let len = self.left.min(self.size.saturating_sub(self.inside));
        let address = block.wrapping_add(self.inside);
        let at = NonNull::new(core::ptr::with_exposed_provenance_mut(address))?;
        self.blocks = rest;
        self.inside = 0;
        self.left = self.left.saturating_sub(len);
        Some(Piece { at, len })
    }
}
