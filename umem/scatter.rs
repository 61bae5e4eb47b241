// SPDX-License-Identifier: GPL-2.0

//! Division of scatter lists into device pages.
//!
//! [`crate::proto::page_size`] selects the page size.

use super::edge::BlockIter;
use super::Span;
use crate::proto::page_size;
use kernel::ffi::c_ulong;
use kernel::page::PAGE_SIZE;
use rdma::bindings;
use rdma::edge::sg_table::Entry;
use rdma::edge::umem::MappedUmem;
use rdma::edge::umem::Umem;
use rdma::edge::IntoC;
use rdma::edge::OutParam;
use rdma::edge::Passed;

/// Number of pages of memory.
pub(super) fn page_count(umem: &Umem) -> usize {
    Span::of(umem.address(), umem.length()).map_or(0, |span| span.count)
}

/// Returns the best page size among `sizes` to map memory at the device address `virt`, and sets
/// `iova` to `virt`; 0 if there is none. The caller must serialise calls for the same memory. Any
/// context.
fn find_best_pgsz(umem: MappedUmem<'_>, sizes: c_ulong, virt: u64) -> c_ulong {
    umem.set_iova(virt);
    // CAST: `c_ulong` has 64 bits on every kernel with Rust.
    let sizes = sizes as u64;
    if let Some(shift) = super::odp_page_shift(&umem) {
        let size = 1u64.checked_shl(shift).unwrap_or(0);
        return (sizes & size) as c_ulong;
    }
    let segments = umem.segments().map(segment);
    let best = page_size::best(
        sizes,
        virt,
        umem.length() as u64,
        (umem.address() & (PAGE_SIZE - 1)) as u64,
        segments,
    );
    // CAST: See above.
    best.unwrap_or(0) as c_ulong
}

fn segment(entry: Entry<'_>) -> page_size::Segment {
    let piece = entry.segment();
    page_size::Segment {
        addr: piece.addr,
        len: piece.len.into(),
    }
}

/// Starts to divide the first `nents` entries of a mapped list into blocks of `pgsz` bytes, a power
/// of two. The list must outlive the iterator. Any context.
fn start(
    mut iter: OutParam<'_, bindings::ib_block_iter>,
    list: Passed<bindings::scatterlist>,
    nents: u32,
    pgsz: c_ulong,
) {
    iter.set(bindings::ib_block_iter {
        __sg: list.into_c(),
        __sg_nents: nents,
        // A size of 0 results in blocks of one byte, which is useless but harmless.
        __pg_bit: pgsz.checked_ilog2().unwrap_or(0),
        ..bindings::ib_block_iter::default()
    });
}

/// Advances to the next block; false after the last one. A block may span entries that are adjacent
/// for the device. Any context.
fn next(iter: &BlockIter) -> bool {
    let mut left = iter.nents();
    let Some(mut entry) = iter.entry().filter(|_| left != 0) else {
        return false;
    };
    let mut advance = iter.advance();
    let at = entry.segment().addr.wrapping_add(u64::from(advance));
    iter.set_dma_addr(at);
    let block = 1u64.checked_shl(iter.page_bit()).unwrap_or(0);
    // Bytes from here to the start of the next block.
    let mut ahead = block.wrapping_sub(at & block.wrapping_sub(1));
    while left != 0 {
        let rest = u64::from(entry.segment().len).saturating_sub(u64::from(advance));
        if rest > ahead {
            break;
        }
        ahead = ahead.wrapping_sub(rest);
        advance = 0;
        left = left.wrapping_sub(1);
        iter.set_nents(left);
        let next = entry.next();
        iter.set_entry(next);
        let Some(next) = next else { break };
        entry = next;
    }
    // CAST: Less than the rest of an entry, whose length has 32 bits. After the last entry, the
    // value is not used.
    iter.set_advance(advance.wrapping_add(ahead as u32));
    true
}

rdma::export! {
    in rdma::bindings;

    /// See [`find_best_pgsz`].
    fn ib_umem_find_best_pgsz(umem: MappedUmem<'_>, sizes: usize, virt: u64) -> usize
        = find_best_pgsz;
    /// See [`start`].
    fn __rdma_block_iter_start(
        iter: OutParam<'_, bindings::ib_block_iter>, list: Passed<bindings::scatterlist>,
        nents: u32, pgsz: usize,
    ) = start;
    /// See [`next`].
    fn __rdma_block_iter_next(iter: &BlockIter) -> bool = next;
}
