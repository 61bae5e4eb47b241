// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382

//! An object is given to C twice, which would free it twice.

use rdma::edge::object::Given;
use rdma::edge::object::Owned;
use rdma::edge::verbs::Pd;

/// Once.
#[cfg(not(wrong))]
pub fn give(pd: Owned<Pd>) -> Given<Pd> {
    Given::of(pd)
}

/// Twice.
#[cfg(wrong)]
pub fn give(pd: Owned<Pd>) -> (Given<Pd>, Given<Pd>) {
    (Given::of(pd), Given::of(pd))
}
