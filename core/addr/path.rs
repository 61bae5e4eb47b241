// SPDX-License-Identifier: GPL-2.0

//! Reachability of the destination of a RoCE path.

use super::device_of;
use super::netdev_of_gid;
use super::INFINIBAND;
use crate::proto::gid::Gid;
use core::net::IpAddr;
use kernel::prelude::*;
use kernel::sync::rcu;
use rdma::edge::verbs::GidAttr;
use rdma::net::route::Route;
use rdma::net::AddrPair;

/// How a destination is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The destination is on the same link, or local.
    Direct,
    /// The destination is behind a router, which only RoCEv2 packets pass.
    Routed,
}

/// Returns how the GID `to` is reached from the GID `from` over the network device of `entry`. Does
/// not sleep.
///
/// # Errors
///
/// `EINVAL` for GIDs of different families or a deleted entry; `ENODEV` without a network device;
/// routing errors.
pub(crate) fn reach(entry: &GidAttr, from: Gid, to: Gid) -> Result<Reach> {
    let addrs = AddrPair::from_gids(&from.0, &to.0).ok_or(EINVAL)?;
    if entry.ndev().is_null() {
        return Err(EINVAL);
    }
    let netdev = netdev_of_gid(entry)?;
    // RCU keeps the namespace alive: the device may be moved to another one meanwhile.
    let rcu = rcu::read_lock();
    let net = netdev.net(&rcu);
    let (route, addrs) = Route::reach(net, netdev.ifindex(), addrs)?;
    let to = match addrs {
        AddrPair::V4 { src: _, dst } => IpAddr::V4(dst),
        AddrPair::V6 { src: _, dst } => IpAddr::V6(dst),
    };
    let kind = if route.is_local() {
        // A local route points to the loopback device: use the device that owns the address
        // instead.
        device_of(net, to).map_err(|_| ENODEV)?.hardware_type()
    } else {
        route.dev(&rcu).hardware_type()
    };
    if route.has_gateway() && kind != INFINIBAND {
        Ok(Reach::Routed)
    } else {
        Ok(Reach::Direct)
    }
}
