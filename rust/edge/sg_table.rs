// SPDX-License-Identifier: GPL-2.0

//! Entries of scatter lists (`struct scatterlist`), and tables of them (`struct sg_table`).
//!
//! A list is an array of entries, or several that are chained. An entry has two halves: the pages,
//! and a segment of the device's addresses, which is only set while the list is mapped for DMA and
//! may cover the pages of other entries. C header: `include/linux/scatterlist.h`.

use super::scatter::Piece;
use super::FromC;
use super::IntoC;
use super::Passed;
use super::Within;
use crate::bindings;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::page::PAGE_SIZE;

/// An entry of a list.
///
/// # Invariants
///
/// For `'a`, `0` is an entry of an initialised list, of which no entry moves.
#[derive(Clone, Copy)]
pub struct Entry<'a>(NonNull<bindings::scatterlist>, PhantomData<&'a ()>);

// SAFETY: `from_c`'s contract is the type invariant, or null.
unsafe impl FromC for Option<Entry<'_>> {
    type C = *mut bindings::scatterlist;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: By the contract of this function.
        NonNull::new(c).map(|entry| Entry(entry, PhantomData))
    }
}

// SAFETY: The entry is limited to `'a`.
unsafe impl<'a> Within<'a> for Option<Entry<'a>> {}

impl IntoC<*mut bindings::scatterlist> for Entry<'_> {
    #[inline(always)]
    fn into_c(self) -> *mut bindings::scatterlist {
        self.0.as_ptr()
    }
}

impl IntoC<*mut bindings::scatterlist> for Option<Entry<'_>> {
    #[inline(always)]
    fn into_c(self) -> *mut bindings::scatterlist {
        self.map_or(core::ptr::null_mut(), IntoC::into_c)
    }
}

impl<'a> Entry<'a> {
    /// The segment as the device sees it; of a list that is not mapped, numbers without a meaning.
    #[inline]
    pub fn segment(self) -> Piece {
        // SAFETY: An initialised entry (type invariant); two numbers are read.
        unsafe {
            Piece {
                addr: bindings::sg_dma_address(self.0.as_ptr()),
                len: bindings::sg_dma_len(self.0.as_ptr()),
            }
        }
    }

    /// The first page, and how many there are, of an entry that begins at a page.
    #[inline]
    pub fn pages(self) -> (Passed<bindings::page>, usize) {
        let sg = self.0.as_ptr();
        // SAFETY: An initialised entry (type invariant), whose page is not followed here.
        let (page, len) = unsafe {
            (
                Passed::from_c(bindings::rdma_helper_sg_page(sg)),
                (*sg).length,
            )
        };
        // CAST: from 32 bits.
        (page, (len as usize).div_ceil(PAGE_SIZE))
    }

    /// The next entry of the list.
    #[inline]
    pub fn next(self) -> Option<Self> {
        // SAFETY: An entry of an initialised list, which chains its entries (type invariant).
        // INVARIANT: The next one is of the same list.
        unsafe { FromC::from_c(bindings::sg_next(self.0.as_ptr())) }
    }

    /// Changes the segment.
    ///
    /// # Safety
    ///
    /// The list is mapped, and nobody else uses its segments meanwhile.
    #[inline]
    pub unsafe fn set_segment(self, piece: Piece) {
        // SAFETY: An entry (type invariant), whose segment nobody else uses: this function's contract.
        unsafe {
            bindings::rdma_helper_sg_set_dma_address(self.0.as_ptr(), piece.addr);
            bindings::rdma_helper_sg_set_dma_len(self.0.as_ptr(), piece.len);
        }
    }
}

/// The first entries of a list, in their order.
#[derive(Clone)]
pub struct Entries<'a> {
    at: Option<Entry<'a>>,
    left: u32,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let entry = self.at?;
        self.left = self.left.checked_sub(1)?;
        self.at = entry.next();
        Some(entry)
    }
}

impl FusedIterator for Entries<'_> {}

crate::c_struct! {
    /// A table whose pages are used. A reference promises that the list has so many entries with
    /// pages, and does not change.
    pub struct Pages: bindings::sg_table;
    fields {
        /// The list.
        const list at sgl: Passed<bindings::scatterlist>;
        /// Entries with pages.
        const orig_nents: u32;
    }
}

impl Pages {
    /// The entries with pages.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        // INVARIANT: The table has a list of as many entries, by the promise of a reference.
        Entries {
            at: NonNull::new(self.list().into_c()).map(|list| Entry(list, PhantomData)),
            left: self.orig_nents(),
        }
    }
}

crate::c_struct! {
    /// A table that is mapped for DMA. A reference promises that it is, so that the list has so many
    /// segments, and that it does not change but for the segments.
    pub struct Mapped: bindings::sg_table;
    fields {
        /// The list.
        const list at sgl: Passed<bindings::scatterlist>;
        /// Entries with segments, the first of the list.
        const nents: u32;
    }
}

impl Mapped {
    /// The entries with segments.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        // INVARIANT: The table has a list of as many segments, by the promise of a reference.
        Entries {
            at: NonNull::new(self.list().into_c()).map(|list| Entry(list, PhantomData)),
            left: self.nents(),
        }
    }
}
