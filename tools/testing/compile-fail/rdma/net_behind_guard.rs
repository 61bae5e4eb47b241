// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505

//! The namespace of a network device, used after the RCU section that keeps it.

use rdma::net::NetDevice;
use rdma::sync::rcu;

/// Looks at it.
pub fn look(dev: &NetDevice) -> bool {
    let guard = rcu::read_lock();
    let net = dev.net(&guard);
    #[cfg(wrong)]
    drop(guard);
    dev.is_in(net)
}
