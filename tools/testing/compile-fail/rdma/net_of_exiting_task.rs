// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 Option

//! The namespace of a task that exits, which has none any more.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::net::CountedNet;

pub fn mine() -> Result<ARef<CountedNet>> {
    #[cfg(not(wrong))]
    let net = CountedNet::current().ok_or(ESRCH)?;
    #[cfg(wrong)]
    let net: ARef<CountedNet> = CountedNet::current();
    Ok(net)
}
