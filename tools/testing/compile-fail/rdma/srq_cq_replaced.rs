// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 set_cq

//! The completion queue of a shared receive queue, replaced by another: the use of the other one is
//! not counted, so it may be freed before the shared receive queue.

use rdma::edge::object::Owned;
use rdma::edge::verbs::Cq;
use rdma::edge::verbs::Srq;

pub fn replace(_srq: &mut Owned<Srq>, cq: &Cq) -> u32 {
    #[cfg(wrong)]
    Srq::set_cq(_srq, Some(cq));
    cq.cqe_used()
}
