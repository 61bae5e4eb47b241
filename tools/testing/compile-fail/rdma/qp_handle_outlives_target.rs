// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 real

//! A handle of a shared queue pair, listed after the queue pair was given to whoever destroys it.

use kernel::prelude::*;
use rdma::edge::object::Owned;
use rdma::edge::verbs::Qp;
use rdma::edge::verbs::QpInit;
use rdma::edge::xrcd::NewTarget;
use rdma::edge::xrcd::Unlisted;

pub fn open(real: NewTarget<'_>, init: QpInit<'_>) -> Result<Owned<Qp>> {
    let handle = Unlisted::new(real.shared(), init)?;
    #[cfg(wrong)]
    let _ = real.into_owned();
    Ok(handle.list())
}
