// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308

//! A function with a duty of its own is handed to C, whose contract is that of the types alone.

use rdma::edge::verbs::Pd;

/// Has no duty.
#[cfg(not(wrong))]
pub fn told(_pd: &Pd) {}

/// # Safety
///
/// The caller has a duty.
#[cfg(wrong)]
pub unsafe fn told(_pd: &Pd) {}

rdma::callback! {
    /// For C.
    pub fn on_call(pd: &Pd) = told;
}
