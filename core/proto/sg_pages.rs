// SPDX-License-Identifier: GPL-2.0

//! A scatter list as pages: how much of it fits into one region for fast registration.
//!
//! A region is a sequence of pages of one size that is contiguous to the device. So each entry of
//! the list must begin at a page boundary and the previous one end at one, or both must be
//! adjacent. The first entry may begin, and the last one end, inside a page.

/// An entry of the list, as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// DMA address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// Result of [`take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Number of entries taken whole.
    pub entries: usize,
    /// Number of bytes of the next entry that were taken, from its start.
    pub offset: u32,
    /// Total number of bytes.
    pub length: u64,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// The offset exceeds the first entry, the list is empty, or the page size is not a power
    /// of 2.
    Invalid,
    /// `page` refused the first page.
    Page(E),
}

/// Takes pages of `page_size` bytes from the list, `offset` bytes into the first entry. Each page
/// is passed to `page`; the first error ends the operation.
///
/// # Errors
///
/// If nothing could be taken.
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
    // End of the previous entry.
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
                    // There is a gap.
                    break;
                }
                // Its first bytes are in the last page of the previous entry, if any.
                next = next.wrapping_add(size);
            }
            // An empty entry takes a page as well: the device counts them.
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

/// Result after a refused page, with `done` bytes of the current entry taken.
fn refused<E>(taken: Taken, done: u64, error: E) -> Result<Taken, Refusal<E>> {
    // CAST: less than the length of the entry, which is a `u32`.
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
