// SPDX-License-Identifier: GPL-2.0

//! Planning of transfers between local and remote memory: number of requests, use of registration,
//! and required queue space.
//!
//! A transfer consists of local DMA segments ("pieces") and one contiguous range of remote memory.
//! A request takes as many pieces as it may have SGEs; or the pieces are registered as regions,
//! each of which is a single SGE. iWARP registers the memory that it reads into, since its peer
//! writes there.

use core::num::NonZeroU32;
use core::ops::Range;

/// Maximum number of pages of a region: larger ones would take more memory than they save.
const REGION_MAX: u32 = 256;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Write,
    /// From the peer.
    Read,
}

/// The properties of a device and port that transfers depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether it is iWARP.
    pub iwarp: bool,
    /// Whether a module parameter forces registration.
    pub force: bool,
    /// Maximum number of pieces of a READ without registration; 0 if registration is never faster.
    pub max_sgl_rd: u32,
    /// Maximum number of SGEs of a READ.
    pub max_sge_rd: u32,
    /// Maximum number of pages of a region.
    pub max_pages: u32,
    /// Maximum number of pages of a region with protection information.
    pub max_pi_pages: u32,
    /// Maximum number of requests of a queue.
    pub max_wr: u32,
}

impl Port {
    /// Returns whether transfers may use registration, so that a queue pair needs regions.
    pub fn may_register(&self) -> bool {
        self.iwarp || self.max_sgl_rd != 0 || self.force
    }

    /// Returns whether registration is mandatory: a transfer fails if no region is available.
    pub fn must_register(&self) -> bool {
        self.iwarp || self.force
    }

    /// Returns whether a transfer of `pieces` pieces uses registration.
    pub fn registers(&self, direction: Direction, pieces: u32) -> bool {
        let read = direction == Direction::Read;
        let many = self.max_sgl_rd != 0 && pieces > self.max_sgl_rd;
        self.force || (read && (self.iwarp || many))
    }

    /// Like [`registers`](Self::registers) for pages that an IOMMU may still map to one range, so
    /// that their number says nothing.
    pub fn registers_pages(&self, direction: Direction) -> bool {
        self.force || (direction == Direction::Read && self.iwarp)
    }

    /// Number of pages of a region, at least one.
    pub fn region_pages(&self, integrity: bool) -> u32 {
        let max = if integrity {
            self.max_pi_pages
        } else {
            self.max_pages
        };
        max.clamp(1, REGION_MAX)
    }

    /// Maximum number of transfers that `pages` pages are split into.
    pub fn factor(&self, pages: u32) -> u32 {
        let each = if self.may_register() {
            self.region_pages(false)
        } else {
            self.max_sge_rd.max(1)
        };
        pages.div_ceil(each)
    }

    /// Number of requests of one transfer: the data transfer, and a region's registration and
    /// invalidation.
    fn requests(&self, integrity: bool) -> u32 {
        if integrity || self.may_register() {
            3
        } else {
            1
        }
    }

    /// Number of requests of `transfers` transfers, limited to `u32::MAX`.
    pub fn max_requests(&self, transfers: u32, integrity: bool) -> u32 {
        transfers.saturating_mul(self.requests(integrity))
    }

    /// Size of a queue for `transfers` transfers in addition to `others` requests, limited to the
    /// maximum of the device.
    pub fn queue_size(&self, others: u32, transfers: u32, integrity: bool) -> u32 {
        others
            .saturating_add(self.max_requests(transfers, integrity))
            .min(self.max_wr)
    }

    /// Number of regions of a queue pair for `transfers` transfers.
    pub fn regions(&self, transfers: u32, integrity: bool) -> Regions {
        if integrity {
            Regions {
                plain: transfers,
                signed: transfers,
                pages: self.region_pages(true),
            }
        } else {
            Regions {
                plain: if self.may_register() { transfers } else { 0 },
                signed: 0,
                pages: self.region_pages(false),
            }
        }
    }
}

/// Regions of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Number of regions for data.
    pub plain: u32,
    /// Number of regions for data with protection information.
    pub signed: u32,
    /// Number of pages of each region, and of its protection information.
    pub pages: u32,
}

/// Iterator returned by [`runs`].
#[derive(Clone, Debug)]
pub struct Runs {
    rest: Range<u32>,
    each: NonZeroU32,
}

impl Iterator for Runs {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        let Range { start, end } = self.rest;
        if start >= end {
            return None;
        }
        let next = start.saturating_add(self.each.get()).min(end);
        self.rest.start = next;
        Some(start..next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.len();
        (len, Some(len))
    }
}

impl ExactSizeIterator for Runs {
    fn len(&self) -> usize {
        let left = self.rest.end.saturating_sub(self.rest.start);
        let part = u32::from(left % self.each != 0);
        // CAST: Widens from `u32`.
        (left / self.each).saturating_add(part) as usize
    }
}

/// Splits `pieces` pieces, in order, into runs of at most `each`.
pub fn runs(pieces: u32, each: u32) -> Runs {
    Runs {
        rest: 0..pieces,
        each: NonZeroU32::new(each).unwrap_or(NonZeroU32::MIN),
    }
}

/// Returns the index of the piece at `offset` bytes into a list, and the offset within that piece;
/// `None` if the list is shorter.
pub fn skip(lengths: impl Iterator<Item = u32>, offset: u32) -> Option<(u32, u32)> {
    let mut left = offset;
    let mut at = 0_u32;
    for len in lengths {
        match left.checked_sub(len) {
            None => return Some((at, left)),
            Some(rest) => left = rest,
        }
        at = at.checked_add(1)?;
    }
    None
}

/// A part of an entry of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of the entry.
    pub entry: usize,
    /// Offset in the entry, in bytes.
    pub offset: u32,
    /// Length in bytes, not zero.
    pub len: u32,
}

/// Returns the parts of the entries that cover `size` bytes, from `done` bytes into the entry
/// `first` on, without empty ones. If the entries are too short, so are the parts: see [`covered`].
pub fn segments<'a, L>(
    entries: &'a [L],
    first: u32,
    done: u32,
    size: u32,
    len: impl Fn(&L) -> u32 + 'a,
) -> impl Iterator<Item = Segment> + 'a {
    let (mut skip, mut left) = (done, size);
    // CAST: Widens from `u32`.
    let first = first as usize;
    let rest = entries.get(first..).unwrap_or_default();
    (first..entries.len())
        .zip(rest)
        .map_while(move |(entry, each)| {
            if left == 0 {
                return None;
            }
            let offset = core::mem::take(&mut skip);
            let len = len(each).saturating_sub(offset).min(left);
            left = left.saturating_sub(len);
            Some(Segment { entry, offset, len })
        })
        .filter(|segment| segment.len != 0)
}

/// Returns the number of segments, or `None` if they do not cover `size` bytes.
pub fn covered(segments: impl Iterator<Item = Segment>, size: u32) -> Option<u32> {
    let mut count = 0u32;
    let mut left = size;
    for segment in segments {
        count = count.checked_add(1)?;
        left = left.checked_sub(segment.len)?;
    }
    (left == 0).then_some(count)
}

/// Returns the next key of a region: the low eight bits, which its user owns, are incremented.
pub fn next_key(key: u32) -> u32 {
    key & !0xff | key.wrapping_add(1) & 0xff
}
