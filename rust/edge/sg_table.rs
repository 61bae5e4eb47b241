// SPDX-License-Identifier: GPL-2.0

//! Entries of scatter lists (`struct scatterlist`), and tables of them (`struct sg_table`).
//!
//! A list is an array of entries, or several arrays that are chained. An entry has two parts:
//! pages, and a DMA segment, which is only set while the list is mapped and may cover the pages of
//! other entries. C header: `include/linux/scatterlist.h`.

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

/// An entry of a scatter list.
///
/// # Invariants
///
/// For `'a`, `0` is an entry of an initialised list whose entries do not move.
#[derive(Clone, Copy)]
pub struct Entry<'a>(NonNull<bindings::scatterlist>, PhantomData<&'a ()>);

// SAFETY: The contract of `from_c` is the type invariant, or null.
unsafe impl FromC for Option<Entry<'_>> {
    type C = *mut bindings::scatterlist;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        NonNull::new(c).map(|entry| Entry(entry, PhantomData))
    }
}

// SAFETY: The entry has the lifetime `'a`.
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
    /// Returns the DMA segment; undefined if the list is not mapped.
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

    /// Returns the first page and the number of pages of an entry that starts at a page boundary.
    #[inline]
    pub fn pages(self) -> (Passed<bindings::page>, usize) {
        let sg = self.0.as_ptr();
        // SAFETY: An initialised entry (type invariant). The page is not dereferenced.
        let (page, len) = unsafe {
            (
                Passed::from_c(bindings::rdma_helper_sg_page(sg)),
                (*sg).length,
            )
        };
        // CAST: From 32 bits.
        (page, (len as usize).div_ceil(PAGE_SIZE))
    }

    /// Returns the next entry of the list, if any.
    #[inline]
    pub fn next(self) -> Option<Self> {
        // SAFETY: An entry of an initialised list, whose entries are chained (type invariant).
        // INVARIANT: The next entry belongs to the same list.
        unsafe { FromC::from_c(bindings::sg_next(self.0.as_ptr())) }
    }

    /// Sets the DMA segment.
    ///
    /// # Safety
    ///
    /// The list is mapped, and nobody else uses its segments concurrently.
    #[inline]
    pub unsafe fn set_segment(self, piece: Piece) {
        // SAFETY: An entry (type invariant), whose segment nobody else uses (contract of this
        // function).
        unsafe {
            bindings::rdma_helper_sg_set_dma_address(self.0.as_ptr(), piece.addr);
            bindings::rdma_helper_sg_set_dma_len(self.0.as_ptr(), piece.len);
        }
    }
}

/// The first `left` entries of a list, in order.
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
    /// A table whose pages are used. A reference guarantees that the list has `orig_nents` entries
    /// with pages, and does not change.
    pub struct Pages: bindings::sg_table;
    fields {
        /// The list.
        const list at sgl: Passed<bindings::scatterlist>;
        /// Number of entries with pages.
        const orig_nents: u32;
    }
}

impl Pages {
    /// Iterates over the entries with pages.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        // INVARIANT: The list has as many entries (guarantee of a reference).
        Entries {
            at: NonNull::new(self.list().into_c()).map(|list| Entry(list, PhantomData)),
            left: self.orig_nents(),
        }
    }
}

crate::c_struct! {
    /// A table that is mapped for DMA. A reference guarantees that it is mapped, so that the list
    /// has `nents` segments, and that only the segments change.
    pub struct Mapped: bindings::sg_table;
    fields {
        /// The list.
        const list at sgl: Passed<bindings::scatterlist>;
        /// Number of entries with segments, from the start of the list.
        const nents: u32;
    }
}

impl Mapped {
    /// Iterates over the entries with segments.
    #[inline]
    pub fn entries(&self) -> Entries<'_> {
        // INVARIANT: The list has as many segments (guarantee of a reference).
        Entries {
            at: NonNull::new(self.list().into_c()).map(|list| Entry(list, PhantomData)),
            left: self.nents(),
        }
    }
}
