// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather entries and the way through a list of them.
//!
//! A message is one run of bytes for the engine and a list of pieces for the user.
//! [`Walk`] turns (offset, length) of the message into pieces of entries. Packets
//! come mostly in order, so a [`Cursor`] remembers where the last walk ended; going
//! back (a retransmission) starts again at the first of at most 32 entries.
//!
//! Pure: no kernel imports; tested on the host.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One local buffer: `struct rxe_sge` of `rdma_user_rxe.h`, which has the layout of
/// `struct ib_sge`. All three fields are the user's claim.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Sge {
    /// Where it begins, in the addresses of its memory region.
    pub addr: u64,
    /// Its length in bytes.
    pub length: u32,
    /// The key of its memory region. Means nothing if the length is zero.
    pub lkey: u32,
}

const _: () = assert!(size_of::<Sge>() == 16);

/// A place in a message: an entry, and how many bytes come before that entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    entry: usize,
    before: u32,
}

impl Cursor {
    /// The start of any message.
    pub const START: Self = Self {
        entry: 0,
        before: 0,
    };
}

/// The list ended before the message did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

/// A part of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its key.
    pub lkey: u32,
    /// Where the part begins.
    pub addr: u64,
    /// Its length in bytes, never zero.
    pub len: usize,
}

/// The sum of all lengths, which 32 entries of 4 GiB cannot make overflow.
pub fn total(list: &[Sge]) -> u64 {
    match list {
        [one] => u64::from(one.length),
        // OVERFLOW: of 32 entries at most, each below 2^32.
        many => many
            .iter()
            .fold(0u64, |sum, sge| sum.wrapping_add(sge.length.into())),
    }
}

/// Bytes `offset .. offset + len` of a list if the entry at `cursor` has them all, and
/// there are any.
#[inline]
pub fn in_one_entry(list: &[Sge], cursor: &Cursor, offset: u32, len: usize) -> Option<Piece> {
    let sge = list.get(cursor.entry)?;
    let inside = offset.checked_sub(cursor.before)?;
    let rest = sge.length.checked_sub(inside)?;
    // CAST: widens, or keeps the width.
    (len != 0 && len <= rest as usize).then(|| Piece {
        lkey: sge.lkey,
        // As in a walk, an address that wraps is refused by the region.
        addr: sge.addr.wrapping_add(u64::from(inside)),
        len,
    })
}

/// Goes through bytes `offset .. offset + len` of a list, one piece after another.
pub struct Walk<'a> {
    list: &'a [Sge],
    cursor: &'a mut Cursor,
    offset: u32,
    left: usize,
}

impl<'a> Walk<'a> {
    /// Begins a walk. `cursor` belongs to this list; a default one begins anywhere.
    pub fn new(list: &'a [Sge], cursor: &'a mut Cursor, offset: u32, len: usize) -> Self {
        if offset < cursor.before {
            *cursor = Cursor::START;
        }
        // No message is that long: such a walk ends at once.
        let end = u32::try_from(len)
            .ok()
            .and_then(|len| offset.checked_add(len));
        Self {
            list: if end.is_some() { list } else { &[] },
            cursor,
            offset,
            left: len,
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Piece, TooShort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        loop {
            let Some(sge) = self.list.get(self.cursor.entry) else {
                self.left = 0;
                return Some(Err(TooShort));
            };
            // `before <= offset`: made true by `new`, kept by both steps below.
            let inside = self.offset.wrapping_sub(self.cursor.before);
            let rest = sge.length.saturating_sub(inside);
            if rest == 0 {
                // OVERFLOW: none of the entry is behind `offset`, so the sum is not either.
                self.cursor.before = self.cursor.before.wrapping_add(sge.length);
                self.cursor.entry = self.cursor.entry.saturating_add(1);
                continue;
            }
            let len = self.left.min(rest as usize);
            // The sum may wrap for a nonsensical address; the region's own range
            // check refuses it then, as it refuses any other range.
            let addr = sge.addr.wrapping_add(u64::from(inside));
            self.left = self.left.saturating_sub(len);
            // OVERFLOW: the end of the walk fits, which `new` has seen to.
            self.offset = self.offset.wrapping_add(u32::try_from(len).unwrap_or(0));
            return Some(Ok(Piece {
                lkey: sge.lkey,
                addr,
                len,
            }));
        }
    }
}
