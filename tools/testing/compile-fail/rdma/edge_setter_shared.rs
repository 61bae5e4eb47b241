// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 SoleOwner

//! A constant field of an object that others may use already is written. Only its sole owner may.

use rdma::edge::object::Owned;
use rdma::edge::verbs::Pd;

/// The owner writes it.
#[cfg(not(wrong))]
pub fn set(pd: &mut Owned<Pd>) {
    Pd::set_local_dma_lkey(pd, 1);
}

/// Anybody writes it.
#[cfg(wrong)]
pub fn set(pd: &mut &Pd) {
    Pd::set_local_dma_lkey(pd, 1);
}
