// SPDX-License-Identifier: GPL-2.0

//! C scatter lists that are mapped for DMA (`struct scatterlist`).
//!
//! The last entry of a list, also of a chained one, is marked (`sg_init_table`), so a walk ends
//! there whatever number of entries a caller passes. C header: `include/linux/scatterlist.h`.

use super::FromC;
use super::IntoC;
use super::Passed;
use super::Within;
use crate::bindings;
use core::marker::PhantomData;

/// DMA address and length of an entry.
#[derive(Clone, Copy)]
pub struct Piece {
    /// DMA address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// The remaining entries of a list.
///
/// # Invariants
///
/// `at` is null or an entry of a list that exists during `'a` and whose last entry is marked.
#[derive(Clone)]
pub struct Scatter<'a> {
    at: *mut bindings::scatterlist,
    _list: PhantomData<&'a bindings::scatterlist>,
}

// SAFETY: The contract of `from_c` is the type invariant.
unsafe impl FromC for Scatter<'_> {
    type C = *mut bindings::scatterlist;

    #[inline(always)]
    unsafe fn from_c(at: Self::C) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self {
            at,
            _list: PhantomData,
        }
    }
}
// SAFETY: The list has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Scatter<'a> {}

impl IntoC<*mut bindings::scatterlist> for Scatter<'_> {
    #[inline(always)]
    fn into_c(self) -> *mut bindings::scatterlist {
        self.at
    }
}

impl Scatter<'_> {
    /// Returns the list, for a C function that is called while it exists.
    #[inline(always)]
    pub fn passed(&self) -> Passed<bindings::scatterlist> {
        // SAFETY: A `Passed` is not dereferenced.
        unsafe { FromC::from_c(self.at) }
    }

    /// Moves to the next entry.
    #[inline]
    pub fn skip_one(&mut self) {
        if !self.at.is_null() {
            // SAFETY: `at` is an entry of a list (type invariant).
            // INVARIANT: `sg_next` returns the next entry, or null after the marked one.
            self.at = unsafe { bindings::sg_next(self.at) };
        }
    }

    /// Returns the DMA address of the first entry, if any.
    #[inline(always)]
    pub fn addr(&self) -> Option<u64> {
        // SAFETY: `at` is not null, so it is an entry of a list (type invariant).
        (!self.at.is_null()).then(|| unsafe { bindings::sg_dma_address(self.at) })
    }
}

/// Iterates over DMA addresses and lengths. They are undefined if the list is not mapped.
impl Iterator for Scatter<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.at.is_null() {
            return None;
        }
        // SAFETY: `at` is not null, so it is an entry of a list (type invariant).
        let piece = unsafe {
            Piece {
                addr: bindings::sg_dma_address(self.at),
                len: bindings::sg_dma_len(self.at),
            }
        };
        self.skip_one();
        Some(piece)
    }
}
