// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 borrow of moved value

//! An identifier of the connection manager that is used after it was destroyed: its memory is freed.

use kernel::prelude::*;
use rdma::cm::CmId;
use rdma::cm::CmUser;

/// Disconnects and destroys.
pub fn end<U: CmUser>(mut id: CmId<U>) -> Result {
    #[cfg(wrong)]
    id.end_and_wait()?;
    let result = id.disconnect();
    #[cfg(not(wrong))]
    id.end_and_wait()?;
    result
}
