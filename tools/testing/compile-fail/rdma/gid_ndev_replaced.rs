// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 clear_ndev

//! The network device of a GID, which its table alone takes away: readers under RCU would use what a
//! holder of a reference had stored, and the table would drop a device that the entry does not hold.

use rdma::mad::Route;

/// Whether the local GID of a route has a network device.
pub fn has_ndev(route: &Route) -> bool {
    let Some(gid) = route.gid() else {
        return false;
    };
    #[cfg(not(wrong))]
    // SAFETY: The example is the table.
    unsafe {
        gid.clear_ndev();
    }
    #[cfg(wrong)]
    gid.clear_ndev();
    !gid.ndev().is_null()
}
