// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 set_bound

//! A counter, stored in a queue pair without a count: it is freed while the queue pair refers to it.

use rdma::edge::verbs::Counter;
use rdma::edge::verbs::CounterLock;
use rdma::edge::verbs::Qp;

pub fn bind(qp: &Qp, by: &mut CounterLock<'_>, _counter: &Counter) {
    #[cfg(not(wrong))]
    qp.clear_bound(by);
    #[cfg(wrong)]
    qp.set_bound(by, Some(_counter));
}
