// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 lend_to

//! A copy of a route without a reference to its GID, in a vector whose owner may drop the reference
//! that it finds there.

use rdma::edge::verbs::AhAttr;
use rdma::mad::Route;

/// Copies a route.
pub fn copy(route: &Route, to: &AhAttr) {
    #[cfg(not(wrong))]
    // SAFETY: The example uses no vectors.
    unsafe {
        route.lend_to(to)
    };
    #[cfg(wrong)]
    route.lend_to(to);
}
