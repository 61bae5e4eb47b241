// SPDX-License-Identifier: GPL-2.0

//! How much of a waiting MAD a read copies.
//!
//! If the buffer is too small for a message of several segments, the program gets the first
//! segment, whose header has the total length, and `ENOSPC`; the message stays in the queue, for a
//! read with a larger buffer.

use super::Invalid;

/// Part of a message that a read copies, behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The whole message.
    All,
    /// The first segment; the read fails with `ENOSPC`.
    First,
}

/// Returns which part of a message of `length` bytes in segments of `segment` bytes is copied by a
/// read into `room` bytes, including the header.
///
/// # Errors
///
/// [`Invalid`] if there is no room for the first segment. Nothing is copied.
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

/// Returns the part of segment `index` that belongs to a message: its start in the segment, and its
/// length. `left` is the number of bytes not copied yet, `offset` the start of data in segments
/// after the first. `None` if the segment adds nothing: `left` is 0, or it has no space for data.
pub fn part(index: usize, left: usize, segment: usize, offset: usize) -> Option<(usize, usize)> {
    let from = if index == 0 { 0 } else { offset };
    let count = segment.checked_sub(from)?.min(left);
    (count != 0).then_some((from, count))
}
