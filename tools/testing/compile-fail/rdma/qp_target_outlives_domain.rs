// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 xrcd

//! A target queue pair, put into its XRC domain after that was destroyed.

use rdma::edge::object::Owned;
use rdma::edge::verbs::Qp;
use rdma::edge::verbs::Xrcd;
use rdma::edge::xrcd::Handler;
use rdma::edge::xrcd::NewTarget;

pub fn share(qp: Owned<Qp>, xrcd: Owned<Xrcd>, handler: Handler) -> bool {
    let real = NewTarget::new(qp, &xrcd, handler);
    #[cfg(wrong)]
    drop(xrcd);
    real.insert().is_ok()
}
