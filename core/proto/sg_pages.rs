// SPDX-License-Identifier: GPL-2.0

//! A scatter list as pages: how much of its beginning a region for fast registration takes.
//!
//! A region is a row of pages of one size, which looks continuous to the device. So each
//! entry of the list must begin where a page does and the one before must end there, or
//! both must lie end to end. The first entry may begin, and the last end, inside a page.

/// An entry: address and bytes, for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it begins.
    pub addr: u64,
    /// How long it is, in bytes.
    pub len: u32,
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Whole entries.
    pub entries: usize,
    /// Bytes of the entry after those that were taken, counted from its beginning.
    pub offset: u32,
    /// Bytes of all.
    pub length: u64,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// The offset lies behind the first entry, there is none, or the page size is no power of 2.
    Invalid,
    /// The first page was refused.
    Page(E),
}

/// Takes pages of `page_size` bytes from the list, `offset` bytes into the first entry. Each
/// page goes to `page`; what it refuses is the end.
///
/// # Errors
///
/// If nothing at all could be taken.
pub fn take<E>(
    list: impl Iterator<Item = Entry>,
    offset: u32,
    page_size: u32,
    mut page: impl FnMut(u64) -> Result<(), E>,
) -> Result<Taken, Refusal<E>> {
    if !page_size.is_power_of_two() {
        return Err(Refusal::Invalid);
    }
    let size = u64::from(page_size);
    // For a power of 2, `-size` is `!(size - 1)`.
    let mask = size.wrapping_neg();
    let mut taken = Taken {
        entries: 0,
        offset,
        length: 0,
    };
    // Where the entry before ended.
    let mut end_before: Option<u64> = None;
    for entry in list {
        let Some(len) = entry.len.checked_sub(taken.offset) else {
            return Err(Refusal::Invalid);
        };
        let start = entry.addr.wrapping_add(u64::from(taken.offset));
        let end = start.wrapping_add(u64::from(len));
        let mut next = start & mask;
        match end_before {
            Some(before) if before & !mask != 0 || next != start => {
                if before != start {
                    // A gap.
                    break;
                }
                // Its first bytes are in the page that the entry before has begun, if any.
                next = next.wrapping_add(size);
            }
            // An empty entry takes a page like any other: the device counts them.
            Some(_) | None => {
                if let Err(error) = page(next) {
                    return refused(taken, 0, error);
                }
                next = next.wrapping_add(size);
            }
        }
        while next < end {
            if let Err(error) = page(next) {
                let done = next.wrapping_sub(start);
                return refused(taken, done, error);
            }
            next = next.wrapping_add(size);
        }
        taken.length = taken.length.wrapping_add(u64::from(len));
        taken.offset = 0;
        taken.entries = taken.entries.wrapping_add(1);
        end_before = Some(end);
    }
    if end_before.is_none() {
        return Err(Refusal::Invalid);
    }
    Ok(taken)
}

/// The end, after `done` bytes of the present entry.
fn refused<E>(taken: Taken, done: u64, error: E) -> Result<Taken, Refusal<E>> {
    // CAST: less than the entry's length, which has 32 bits.
    let offset = taken.offset.wrapping_add(done as u32);
    if taken.entries == 0 && offset == 0 {
        return Err(Refusal::Page(error));
    }
    Ok(Taken {
        offset,
        length: taken.length.wrapping_add(done),
        ..taken
    })
}
