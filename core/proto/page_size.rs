// SPDX-License-Identifier: GPL-2.0

//! Selection of the best page size for a device to map user memory.
//!
//! Memory is a list of DMA segments. A page size fits if the segments can be divided into device
//! pages such that within each page, DMA and virtual address have the same offset. That is the case
//! if no segment begins inside a page, and virtual and DMA addresses agree in their low bits. Of
//! the sizes that fit, the largest needs the fewest pages; a size larger than the memory itself
//! gains nothing and is not considered (`ib_umem_find_best_pgsz`).

/// A DMA segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// DMA address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Finds the best page size.
///
/// `sizes` has a bit set for each page size that the device supports. `iova` is the virtual address
/// that the device uses for the first byte; `offset` is the offset of that byte in the first
/// segment, and `length` the number of bytes from there.
///
/// Returns `None` if no size fits, `length` is 0, or the end exceeds the address space.
pub fn best(
    sizes: u64,
    iova: u64,
    length: u64,
    offset: u64,
    segments: impl Iterator<Item = Segment>,
) -> Option<u64> {
    let last = iova.checked_add(length.checked_sub(1)?)?;
    // Address bits that differ between the first byte and the last. A page that covers all of them
    // covers all of the memory: larger ones are excluded, except the smallest that does.
    let changing = iova ^ last;
    // OVERFLOW: `leading_zeros` is at most `u64::BITS`.
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
            // Bits in which virtual and DMA address differ must not be inside a page.
            against |= segment.addr.wrapping_add(offset) ^ va;
            // A page has to begin at the start of this segment.
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

/// Returns the number of pages of a size that cover the memory (`ib_umem_num_dma_blocks`); `None`
/// if the size is not a power of two or the end exceeds the address space.
pub fn pages(iova: u64, length: u64, size: u64) -> Option<u64> {
    if !size.is_power_of_two() {
        return None;
    }
    // OVERFLOW: a power of two is not zero, and `end` is rounded up, so not below the start.
    let mask = size - 1;
    let end = iova.checked_add(length)?.checked_add(mask)? & !mask;
    Some((end - (iova & !mask)) / size)
}
