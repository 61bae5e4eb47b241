// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308

//! A function that C calls asks for a reference that outlives the call.

use rdma::edge::verbs::Pd;

/// For the length of the call.
#[cfg(not(wrong))]
pub fn keep(_pd: &Pd) {}

/// For ever.
#[cfg(wrong)]
pub fn keep(_pd: &'static Pd) {}

rdma::callback! {
    /// For C.
    pub fn on_call(pd: &Pd) = keep;
}
