// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 mr

//! A region that was given back to its pool is destroyed: the next borrower gets freed memory.

use crate::edge::mr_pool::Pool;
use crate::mr;
use kernel::prelude::*;

pub(crate) fn use_one(pool: Pool<'_>) -> Result {
    let mr = pool.lend().ok_or(ENOMEM)?;
    #[cfg(wrong)]
    pool.take_back(mr);
    mr::dereg(mr, None)
}
