// SPDX-License-Identifier: GPL-2.0

//! Scatter-gather entries and iteration over a list of them.
//!
//! For the engine, a message is one contiguous range of bytes; for the user, a list of buffers.
//! [`Walk`] converts (offset, length) in the message to pieces of entries. Packets usually arrive
//! in order, so a [`Cursor`] remembers where the last walk ended. Going back (a retransmission)
//! restarts at the first of at most 32 entries.
//!
//! Pure: no kernel imports; tested on the host.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One local buffer: `struct rxe_sge` of `rdma_user_rxe.h`, which has the layout of
/// `struct ib_sge`. The fields come from the user and are not validated.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Sge {
    /// Start, as an address of the memory region.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Key of the memory region. Ignored if the length is zero.
    pub lkey: u32,
}

const _: () = assert!(size_of::<Sge>() == 16);

/// A position in a message: an entry, and the number of bytes before that entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    entry: usize,
    before: u32,
}

impl Cursor {
    /// Start of any message.
    pub const START: Self = Self {
        entry: 0,
        before: 0,
    };
}

/// The list is shorter than the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort;

/// A part of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Key of the entry's memory region.
    pub lkey: u32,
    /// Start of the part.
    pub addr: u64,
    /// Length in bytes, never zero.
    pub len: usize,
}

/// Returns the sum of all lengths; 32 entries of 4 GiB do not overflow it.
pub fn total(list: &[Sge]) -> u64 {
    match list {
        [one] => u64::from(one.length),
        // OVERFLOW: at most 32 entries, each below 2^32.
        many => many
            .iter()
            .fold(0u64, |sum, sge| sum.wrapping_add(sge.length.into())),
    }
}

/// Returns bytes `offset .. offset + len` of a list if `len` is not zero and the entry at `cursor`
/// contains them all.
#[inline]
pub fn in_one_entry(list: &[Sge], cursor: &Cursor, offset: u32, len: usize) -> Option<Piece> {
    let sge = list.get(cursor.entry)?;
    let inside = offset.checked_sub(cursor.before)?;
    let rest = sge.length.checked_sub(inside)?;
    // CAST: u32 to usize does not truncate.
    (len != 0 && len <= rest as usize).then(|| Piece {
        lkey: sge.lkey,
        // As in a walk, the region refuses an address that wraps.
        addr: sge.addr.wrapping_add(u64::from(inside)),
        len,
    })
}

/// Iterator over the pieces of bytes `offset .. offset + len` of a list.
pub struct Walk<'a> {
    list: &'a [Sge],
    cursor: &'a mut Cursor,
    offset: u32,
    left: usize,
}

impl<'a> Walk<'a> {
    /// Begins a walk. `cursor` must belong to this list; a default one may begin anywhere.
    pub fn new(list: &'a [Sge], cursor: &'a mut Cursor, offset: u32, len: usize) -> Self {
        if offset < cursor.before {
            *cursor = Cursor::START;
        }
        // No message is that long: the walk ends with an error at once.
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
            // `before <= offset`: established by `new`, preserved by both steps below.
            let inside = self.offset.wrapping_sub(self.cursor.before);
            let rest = sge.length.saturating_sub(inside);
            if rest == 0 {
                // OVERFLOW: the whole entry lies before `offset`, so the sum is at most `offset`.
                self.cursor.before = self.cursor.before.wrapping_add(sge.length);
                self.cursor.entry = self.cursor.entry.saturating_add(1);
                continue;
            }
            let len = self.left.min(rest as usize);
            // The sum may wrap for an invalid address; the region's range check refuses it then.
            let addr = sge.addr.wrapping_add(u64::from(inside));
            self.left = self.left.saturating_sub(len);
            // OVERFLOW: `new` has checked that the end of the walk fits.
            self.offset = self.offset.wrapping_add(u32::try_from(len).unwrap_or(0));
            return Some(Ok(Piece {
                lkey: sge.lkey,
                addr,
                len,
            }));
        }
    }
}
