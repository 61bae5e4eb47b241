// SPDX-License-Identifier: GPL-2.0

//! Plans of transfers that a target of storage makes from and to its peer's memory: in how
//! many requests, by which means, and how much room they need.
//!
//! A transfer is a list of pieces of memory here, and one range of the peer's. A request takes
//! as many pieces as the device allows in one; or the pieces are registered as regions, each
//! of which is one piece then. iWARP registers what it reads into, since its peer writes there.

use core::num::NonZeroU32;
use core::ops::Range;

/// Most pages of one region: larger ones would take more memory than they save.
const REGION_MAX: u32 = 256;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Write,
    /// From the peer.
    Read,
}

/// What matters of a device and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether it is iWARP.
    pub iwarp: bool,
    /// Whether whoever loaded the module wants regions always.
    pub force: bool,
    /// How many pieces a read may have before regions are faster; 0 if never.
    pub max_sgl_rd: u32,
    /// How many pieces one read may have.
    pub max_sge_rd: u32,
    /// Most pages of one region, and of one with protection information.
    pub max_pages: u32,
    /// See `max_pages`.
    pub max_pi_pages: u32,
    /// Most requests of a queue.
    pub max_wr: u32,
}

impl Port {
    /// Whether transfers may be by regions, so that there must be some.
    pub fn may_register(&self) -> bool {
        self.iwarp || self.max_sgl_rd != 0 || self.force
    }

    /// Whether they must be, so that without a region there is no transfer.
    pub fn must_register(&self) -> bool {
        self.iwarp || self.force
    }

    /// Whether a transfer of so many pieces is by regions.
    pub fn registers(&self, direction: Direction, pieces: u32) -> bool {
        let read = direction == Direction::Read;
        let many = self.max_sgl_rd != 0 && pieces > self.max_sgl_rd;
        self.force || (read && (self.iwarp || many))
    }

    /// The same where pieces are pages that the device may yet join, so that their number
    /// says nothing.
    pub fn registers_pages(&self, direction: Direction) -> bool {
        self.force || (direction == Direction::Read && self.iwarp)
    }

    /// Pages of a region, one at least.
    pub fn region_pages(&self, integrity: bool) -> u32 {
        let max = if integrity {
            self.max_pi_pages
        } else {
            self.max_pages
        };
        max.clamp(1, REGION_MAX)
    }

    /// How many parts a transfer of so many pages has at most.
    pub fn factor(&self, pages: u32) -> u32 {
        let each = if self.may_register() {
            self.region_pages(false)
        } else {
            self.max_sge_rd.max(1)
        };
        pages.div_ceil(each)
    }

    /// Requests of one transfer: itself, and a region's registration and invalidation.
    fn requests(&self, integrity: bool) -> u32 {
        if integrity || self.may_register() {
            3
        } else {
            1
        }
    }

    /// Requests that so many transfers at once need; as many as there are numbers, if there
    /// are more.
    pub fn max_requests(&self, transfers: u32, integrity: bool) -> u32 {
        transfers.saturating_mul(self.requests(integrity))
    }

    /// The size of a queue that is to take so many transfers besides `others`: what is needed,
    /// or what the device has.
    pub fn queue_size(&self, others: u32, transfers: u32, integrity: bool) -> u32 {
        others
            .saturating_add(self.max_requests(transfers, integrity))
            .min(self.max_wr)
    }

    /// Regions that a queue pair for so many transfers needs.
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
    /// For data.
    pub plain: u32,
    /// For data with protection information.
    pub signed: u32,
    /// Pages of each, and of its protection information.
    pub pages: u32,
}

/// What [`runs`] answers.
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
        // CAST: Widens.
        (left / self.each).saturating_add(part) as usize
    }
}

/// Splits so many pieces into runs of `each` at most, in their order.
pub fn runs(pieces: u32, each: u32) -> Runs {
    Runs {
        rest: 0..pieces,
        each: NonZeroU32::new(each).unwrap_or(NonZeroU32::MIN),
    }
}

/// The piece that `offset` bytes into a list fall into, and how far into that one; none, if
/// the list ends before.
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
    /// Which entry.
    pub entry: usize,
    /// Where in it.
    pub offset: u32,
    /// Bytes, not zero.
    pub len: u32,
}

/// The parts of entries that `size` bytes are in, from `done` bytes into the entry `first` on;
/// without empty ones. If the entries end before, so do the parts: see [`covered`].
pub fn segments<'a, L>(
    entries: &'a [L],
    first: u32,
    done: u32,
    size: u32,
    len: impl Fn(&L) -> u32 + 'a,
) -> impl Iterator<Item = Segment> + 'a {
    let (mut skip, mut left) = (done, size);
    // CAST: Widens.
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

/// How many segments there are, and whether they have all bytes.
pub fn covered(segments: impl Iterator<Item = Segment>, size: u32) -> Option<u32> {
    let mut count = 0u32;
    let mut left = size;
    for segment in segments {
        count = count.checked_add(1)?;
        left = left.checked_sub(segment.len)?;
    }
    (left == 0).then_some(count)
}

/// The next key of a region: of its low eight bits, which the user of a region owns.
pub fn next_key(key: u32) -> u32 {
    key & !0xff | key.wrapping_add(1) & 0xff
}
