// SPDX-License-Identifier: GPL-2.0

//! How much of a MAD that waits a read copies.
//!
//! A message of several segments is first read into a buffer that may be too small for it: the
//! program then gets the first segment, whose header has the length of all, and `ENOSPC`; the
//! message stays, and the next read, with a larger buffer, gets it.

use super::Invalid;

/// What a read copies of a message, behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All of it.
    All,
    /// The first segment; the read fails with `ENOSPC`.
    First,
}

/// What a read into `room` bytes, those of the header among them, copies of a message of `length`
/// bytes in segments of `segment` bytes.
///
/// # Errors
///
/// [`Invalid`]: not even the first segment has room. Nothing is copied.
pub fn copied(
    room: usize,
    header: usize,
    length: usize,
    segment: usize,
) -> Result<Copied, Invalid> {
    let room = room.checked_sub(header).ok_or(Invalid)?;
    if room < length.min(segment) {
        return Err(Invalid);
    }
    Ok(if room < length {
        Copied::First
    } else {
        Copied::All
    })
}

/// The part of segment `index` that belongs to a message: where it begins in the segment, and how
/// many bytes it has. `left` is what of the message was not copied before, `offset` where the data
/// begins in segments after the first. None, if the segment adds nothing: `left` is 0, or it has no
/// room for data.
pub fn part(index: usize, left: usize, segment: usize, offset: usize) -> Option<(usize, usize)> {
    let from = if index == 0 { 0 } else { offset };
    let count = segment.checked_sub(from)?.min(left);
    (count != 0).then_some((from, count))
}
