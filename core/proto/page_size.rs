// SPDX-License-Identifier: GPL-2.0

//! The page size with which a device maps user memory best.
//!
//! Memory is a list of DMA segments. A page size fits if the device's pages can be
//! laid over the segments so that every address inside a page is the page's address
//! with the low bits of the virtual one. That is so as far as no segment begins
//! inside a page, and virtual and DMA addresses agree in their low bits. Of the
//! sizes that fit, the largest needs the fewest pages; one that is larger than the
//! memory itself gains nothing, and is not offered (`ib_umem_find_best_pgsz`).

/// A segment as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its address.
    pub addr: u64,
    /// Its bytes.
    pub len: u64,
}

/// Finds the best page size.
///
/// `sizes` has a bit for each size that the device knows. `iova` is the virtual
/// address that the device shall use for the first byte; `offset` is where in the
/// first segment that byte is, and `length` how many bytes there are from there.
///
/// None, if no size fits, or there is no memory, or its end is beyond all addresses.
pub fn best(
    sizes: u64,
    iova: u64,
    length: u64,
    offset: u64,
    segments: impl Iterator<Item = Segment>,
) -> Option<u64> {
    let last = iova.checked_add(length.checked_sub(1)?)?;
    // Address bits that change between the first byte and the last. A page that
    // covers all of them covers all of the memory: larger ones are ruled out, but
    // the smallest of those stays.
    let changing = iova ^ last;
    // OVERFLOW: a word has no more leading zeros than bits.
    let bits = (u64::BITS - changing.leading_zeros()).max(1);
    let mut against = match u64::MAX.checked_shl(bits) {
        Some(above) => sizes & above,
        None => 0,
    };

    let mut va = iova;
    let mut offset = offset;
    let mut previous_end = None;
    for (at, segment) in segments.enumerate() {
        if previous_end != Some(segment.addr) {
            // Bits in which virtual and DMA address differ cannot be inside a page.
            against |= segment.addr.wrapping_add(offset) ^ va;
            // A page has to begin here.
            if at != 0 {
                against |= va;
            }
        }
        previous_end = segment.addr.checked_add(segment.len);
        va = va.wrapping_add(segment.len.wrapping_sub(offset));
        offset = 0;
    }

    let largest = against.trailing_zeros();
    let fitting = match u64::MAX.checked_shl(largest.saturating_add(1)) {
        Some(too_large) => sizes & !too_large,
        None => sizes,
    };
    fitting.checked_ilog2().map(|bit| 1 << bit)
}

/// How many pages of a size cover the memory (`ib_umem_num_dma_blocks`). None, if
/// the size is no power of two or the end is beyond all addresses.
pub fn pages(iova: u64, length: u64, size: u64) -> Option<u64> {
    if !size.is_power_of_two() {
        return None;
    }
    // OVERFLOW: a power of two is not zero, and the end is rounded up, not below the start.
    let mask = size - 1;
    let end = iova.checked_add(length)?.checked_add(mask)? & !mask;
    Some((end - (iova & !mask)) / size)
}
