// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0502 cannot borrow `*id` as mutable

//! A call that changes an identifier while its paths are looked at: the call frees them.

use kernel::prelude::*;
use rdma::cm::CmId;
use rdma::cm::CmUser;

/// Resolves, and returns the first path.
pub fn path<U: CmUser>(id: &mut CmId<U>) -> Result<Option<[u8; 64]>> {
    #[cfg(not(wrong))]
    id.resolve_route(100)?;
    let locked = id.lock()?;
    #[cfg(wrong)]
    id.resolve_route(100)?;
    Ok(locked.packed_path(0))
}
