// SPDX-License-Identifier: GPL-2.0

//! Lists of segments, and how a device cuts them into its pages.
//!
//! The reckoning of the page size is [`crate::proto::page_size`]'s.

use super::Span;
use crate::proto::page_size;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use kernel::ffi::c_ulong;
use kernel::page::PAGE_SIZE;
use rdma::bindings;

/// The entries of a scatter list, in order.
///
/// # Invariants
///
/// `sg` is the next of `left` entries of a list that lives for `'a`, or null.
pub(super) struct Entries<'a> {
    sg: *mut bindings::scatterlist,
    left: u32,
    _p: PhantomData<&'a bindings::scatterlist>,
}

impl<'a> Entries<'a> {
    /// The entries that hold pages.
    pub(super) fn of_pages(table: &'a bindings::sg_table) -> Self {
        // INVARIANT: A table has as many, in a list of its own.
        Self {
            sg: table.sgl,
            left: table.orig_nents,
            _p: PhantomData,
        }
    }

    /// The entries that hold addresses of the device, when it is mapped.
    pub(super) fn of_dma(table: &'a bindings::sg_table) -> Self {
        // INVARIANT: Mapping merges entries into as many, the first of the list.
        Self {
            sg: table.sgl,
            left: table.nents,
            _p: PhantomData,
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = *mut bindings::scatterlist;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.sg.is_null() {
            return None;
        }
        let sg = self.sg;
        self.left -= 1;
        // INVARIANT: One entry less.
        // SAFETY: By the type invariant; the list chains its entries, after the last is null.
        self.sg = unsafe { bindings::sg_next(sg) };
        Some(sg)
    }
}

impl FusedIterator for Entries<'_> {}

/// An entry as the device sees it.
///
/// # Safety
///
/// The entry is mapped.
pub(super) unsafe fn segment(sg: *mut bindings::scatterlist) -> page_size::Segment {
    // SAFETY: By this function's duty.
    let (addr, len) = unsafe { (bindings::sg_dma_address(sg), bindings::sg_dma_len(sg)) };
    page_size::Segment {
        addr,
        len: u64::from(len),
    }
}

/// The best page size among `pgsz_bitmap` to map memory at the device's address `virt`,
/// which is noted in it; 0 if there is none. Any context.
///
/// # Safety
///
/// The memory exists, is mapped, and nobody else calls this for it meanwhile.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_find_best_pgsz(
    umem: *mut bindings::ib_umem,
    pgsz_bitmap: c_ulong,
    virt: u64,
) -> c_ulong {
    // SAFETY: By this function's duty.
    let umem = unsafe {
        (*umem).iova = virt;
        &*umem
    };
    // CAST: `c_ulong` has 64 bits on every kernel with Rust.
    let sizes = pgsz_bitmap as u64;
    if umem.is_odp() != 0 {
        let odp: *const bindings::ib_umem_odp = core::ptr::from_ref(umem).cast();
        // SAFETY: By its flag it is the head of that.
        let shift = unsafe { (*odp).page_shift };
        let size = 1u64.checked_shl(shift).unwrap_or(0);
        return (sizes & size) as c_ulong;
    }
    // SAFETY: By this function's duty the table is mapped.
    let segments = Entries::of_dma(&umem.sgt_append.sgt).map(|sg| unsafe { segment(sg) });
    let best = page_size::best(
        sizes,
        virt,
        umem.length as u64,
        (umem.address & (PAGE_SIZE - 1)) as u64,
        segments,
    );
    // CAST: as above.
    best.unwrap_or(0) as c_ulong
}

/// Begins to cut the first `nents` entries of a list into blocks of `pgsz` bytes. Any
/// context.
///
/// # Safety
///
/// The list has as many entries, mapped, and outlives the iterator; that is ours to
/// fill in. `pgsz` has a bit set.
#[no_mangle]
pub(crate) unsafe extern "C" fn __rdma_block_iter_start(
    biter: *mut bindings::ib_block_iter,
    sglist: *mut bindings::scatterlist,
    nents: kernel::ffi::c_uint,
    pgsz: c_ulong,
) {
    let iter = bindings::ib_block_iter {
        __sg: sglist,
        __sg_nents: nents,
        // A size that is none leaves blocks of one byte, which is useless and harmless.
        __pg_bit: pgsz.checked_ilog2().unwrap_or(0),
        ..bindings::ib_block_iter::default()
    };
    // SAFETY: By this function's duty.
    unsafe { *biter = iter };
}

/// Goes to the next block; false after the last. A block may span entries that are next
/// to each other for the device. Any context.
///
/// # Safety
///
/// The iterator was begun, and its list still exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn __rdma_block_iter_next(
    biter: *mut bindings::ib_block_iter,
) -> bool {
    // SAFETY: By this function's duty.
    let iter = unsafe { &mut *biter };
    if iter.__sg_nents == 0 || iter.__sg.is_null() {
        return false;
    }
    // SAFETY: The iterator is at an entry of its list.
    let here = unsafe { segment(iter.__sg) };
    iter.__dma_addr = here.addr.wrapping_add(u64::from(iter.__sg_advance));
    let block = 1u64.checked_shl(iter.__pg_bit).unwrap_or(0);
    // From here to where the next block begins.
    let mut ahead = block.wrapping_sub(iter.__dma_addr & block.wrapping_sub(1));
    while iter.__sg_nents != 0 && !iter.__sg.is_null() {
        // SAFETY: As above.
        let len = unsafe { segment(iter.__sg) }.len;
        let left = len.saturating_sub(u64::from(iter.__sg_advance));
        if left > ahead {
            break;
        }
        ahead -= left;
        iter.__sg_advance = 0;
        iter.__sg_nents -= 1;
        // SAFETY: The list chains its entries.
        iter.__sg = unsafe { bindings::sg_next(iter.__sg) };
    }
    // CAST: less than what is left of an entry, whose length has 32 bits; after the last
    // entry nobody looks at it any more.
    iter.__sg_advance = iter.__sg_advance.wrapping_add(ahead as u32);
    true
}

rdma::exported!(
    ib_umem_find_best_pgsz,
    __rdma_block_iter_start,
    __rdma_block_iter_next
);

/// How many pages memory has.
pub(super) fn page_count(umem: &bindings::ib_umem) -> usize {
    Span::of(umem.address, umem.length).map_or(0, |span| span.count)
}
