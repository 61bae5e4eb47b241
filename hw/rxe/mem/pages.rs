// SPDX-License-Identifier: GPL-2.0

//! Addresses of a region's pages, and of kernel memory.
//!
//! The region owns the list. It is filled before the region is published and only read afterwards,
//! in any context; creating it may sleep.

use crate::edge::{is_mapped, Address};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::accounted;

/// Number of pages up to which the list is stored inline.
const FEW: usize = 4;

/// Kernel addresses of a region's pages. Immutable once the region is published.
pub(super) enum PageList {
    /// The first `count` entries of `list`; `count` does not exceed its length.
    Few { count: usize, list: [usize; FEW] },
    /// Allocated separately.
    Many(KVVec<usize>),
}

impl PageList {
    /// An empty list with room for `count` pages, charged to the current task.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn with_capacity(count: usize) -> Result<Self> {
        if count <= FEW {
            let list = [0; FEW];
            return Ok(Self::Few { count: 0, list });
        }
        Ok(Self::Many(accounted::with_capacity(count)?))
    }

    /// Adds a page.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the list is full.
    pub(super) fn push(&mut self, page: usize) -> Result {
        match self {
            Self::Few { count, list } => {
                *list.get_mut(*count).ok_or(EINVAL)? = page;
                *count = count.saturating_add(1);
            }
            Self::Many(list) => list.push_within_capacity(page).map_err(|_| EINVAL)?,
        }
        Ok(())
    }

    /// Returns all pages in the order in which they were added.
    #[inline]
    pub(super) fn all(&self) -> &[usize] {
        match self {
            Self::Few { count, list } => list.get(..*count).unwrap_or_default(),
            Self::Many(list) => list,
        }
    }
}

/// Returns whether these kernel addresses are mapped. The kernel user decides to give a peer a key
/// to all kernel memory, but the driver must ensure that the addresses exist.
pub(super) fn is_memory(start: usize, len: usize) -> bool {
    let Some(last) = start.checked_add(len.saturating_sub(1)) else {
        return false;
    };
    let mut at = start;
    loop {
        if !is_mapped(Address(at)) {
            return false;
        }
        let Some(next) = (at | (PAGE_SIZE - 1)).checked_add(1) else {
            return true;
        };
        if next > last {
            return true;
        }
        at = next;
    }
}
