// SPDX-License-Identifier: GPL-2.0

//! Where the pages of a region are.
//!
//! The region owns the list. It is filled before anybody else has the region, and only
//! read from then on, in any context; filling it may sleep.

use kernel::prelude::*;
use rdma::accounted;

/// So many pages are listed in the region itself.
const FEW: usize = 4;

/// Kernel addresses of a region's pages. It is not changed once the region is there.
pub(super) enum PageList {
    /// The first `count` of the list; not more than it has.
    Few { count: usize, list: [usize; FEW] },
    /// In memory of their own.
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

    /// All that were added, in order.
    #[inline]
    pub(super) fn all(&self) -> &[usize] {
        match self {
            Self::Few { count, list } => list.get(..*count).unwrap_or_default(),
            Self::Many(list) => list,
        }
    }
}
