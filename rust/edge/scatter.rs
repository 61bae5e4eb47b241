// SPDX-License-Identifier: GPL-2.0

//! Scatter lists of C (`struct scatterlist`), mapped for DMA.
//!
//! The last entry of a list is marked as such (`sg_init_table`), chained lists included, so that a
//! walk ends there whatever number of entries a caller names. C header: `include/linux/scatterlist.h`.

use super::FromC;
use super::IntoC;
use super::Passed;
use super::Within;
use crate::bindings;
use core::marker::PhantomData;

/// An entry as the device sees it.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Its address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
}

/// The entries of a list from one of them on.
///
/// # Invariants
///
/// `at` is null or an entry of a list that exists during `'a` and of which the last entry is marked.
#[derive(Clone)]
pub struct Scatter<'a> {
    at: *mut bindings::scatterlist,
    _list: PhantomData<&'a bindings::scatterlist>,
}

// SAFETY: `from_c`'s contract is the type invariant.
unsafe impl FromC for Scatter<'_> {
    type C = *mut bindings::scatterlist;

    #[inline(always)]
    unsafe fn from_c(at: Self::C) -> Self {
        // INVARIANT: `from_c`'s contract.
        Self {
            at,
            _list: PhantomData,
        }
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Scatter<'a> {}

impl IntoC<*mut bindings::scatterlist> for Scatter<'_> {
    #[inline(always)]
    fn into_c(self) -> *mut bindings::scatterlist {
        self.at
    }
}

impl Scatter<'_> {
    /// The list for a C function that is called while it exists.
    #[inline(always)]
    pub fn passed(&self) -> Passed<bindings::scatterlist> {
        // SAFETY: A `Passed` is not followed.
        unsafe { FromC::from_c(self.at) }
    }

    /// Goes on to the next entry.
    #[inline]
    pub fn skip_one(&mut self) {
        if !self.at.is_null() {
            // SAFETY: An entry of a list (type invariant).
            // INVARIANT: The entry after it, or null after the one that is marked.
            self.at = unsafe { bindings::sg_next(self.at) };
        }
    }

    /// The address of the first entry.
    #[inline(always)]
    pub fn addr(&self) -> Option<u64> {
        // SAFETY: An entry of a list (type invariant), not null.
        (!self.at.is_null()).then(|| unsafe { bindings::sg_dma_address(self.at) })
    }
}

/// The addresses and lengths for the device. Of a list that is not mapped they have no meaning.
impl Iterator for Scatter<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.at.is_null() {
            return None;
        }
        // SAFETY: An entry of a list (type invariant).
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
