// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308

//! The completion queues of a queue pair, restored on another one, which has not counted uses of
//! them.

use rdma::edge::object::Owned;
use rdma::edge::verbs::Qp;

pub fn create(qp: &mut Owned<Qp>, _other: &mut Owned<Qp>) -> u32 {
    Qp::keeping_cqs(qp, |qp| {
        #[cfg(wrong)]
        core::mem::swap(qp, _other);
        qp.port()
    })
}
