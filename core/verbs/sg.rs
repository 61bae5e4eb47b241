// SPDX-License-Identifier: GPL-2.0

//! Scatter lists as the pages of a region, for drivers' `map_mr_sg`.

use crate::proto::sg_pages;
use core::marker::PhantomData;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::bindings;

/// The entries of a list that is mapped for DMA.
///
/// # Invariants
///
/// `at` is a list of `left` entries at least.
struct Entries<'a> {
    at: *mut bindings::scatterlist,
    left: c_int,
    list: PhantomData<&'a bindings::scatterlist>,
}

impl Iterator for Entries<'_> {
    type Item = sg_pages::Entry;

    fn next(&mut self) -> Option<sg_pages::Entry> {
        if self.left <= 0 || self.at.is_null() {
            return None;
        }
        // SAFETY: By the type invariant.
        let (entry, next) = unsafe {
            (
                sg_pages::Entry {
                    addr: bindings::sg_dma_address(self.at),
                    len: bindings::sg_dma_len(self.at),
                },
                bindings::sg_next(self.at),
            )
        };
        // INVARIANT: One was taken off.
        self.at = next;
        self.left -= 1;
        Some(entry)
    }
}

type SetPage = Option<unsafe extern "C" fn(*mut bindings::ib_mr, u64) -> c_int>;

rdma::exported!(ib_sg_to_pages);

/// Hands the pages of the beginning of a list to a driver, and sets address and length of the
/// region accordingly. Returns how many entries were taken whole; the offset is then where
/// in the next one to go on. Never sleeps.
///
/// Where a driver takes only some pages of an entry, offset and length say exactly what was
/// taken; the C core says a page less.
///
/// # Safety
///
/// `mr` lives; `list` has `count` entries, mapped for DMA; `offset` is null or valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sg_to_pages(
    mr: *mut bindings::ib_mr,
    list: *mut bindings::scatterlist,
    count: c_int,
    offset: *mut c_uint,
    set_page: SetPage,
) -> c_int {
    let Some(set_page) = set_page else {
        return EINVAL.to_errno();
    };
    if count <= 0 {
        return EINVAL.to_errno();
    }
    // SAFETY: By this function's duty.
    let (start, page_size, first) = unsafe {
        (
            if offset.is_null() { 0 } else { *offset },
            (*mr).page_size,
            bindings::sg_dma_address(list),
        )
    };
    // SAFETY: By this function's duty.
    unsafe {
        (*mr).iova = first.wrapping_add(u64::from(start));
        (*mr).length = 0;
    }
    // INVARIANT: By this function's duty.
    let entries = Entries {
        at: list,
        left: count,
        list: PhantomData,
    };
    let taken = sg_pages::take(entries, start, page_size, |page| {
        // SAFETY: The driver's own function, for the driver's region.
        match unsafe { set_page(mr, page) } {
            refused if refused < 0 => Err(refused),
            _ => Ok(()),
        }
    });
    match taken {
        Ok(taken) => {
            // SAFETY: By this function's duty.
            unsafe {
                (*mr).length = taken.length;
                if !offset.is_null() {
                    *offset = taken.offset;
                }
            }
            // No more than `count`.
            taken.entries as c_int
        }
        Err(sg_pages::Refusal::Invalid) => EINVAL.to_errno(),
        Err(sg_pages::Refusal::Page(refused)) => refused,
    }
}
