// SPDX-License-Identifier: GPL-2.0

//! Whether a path of RoCE leads anywhere.

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
    /// It is on the link, or this machine.
    Direct,
    /// Behind a router, where only packets of RoCE version 2 go.
    Routed,
}

/// Looks up how a GID is reached from another one, by the network device of a local GID's
/// entry. Does not sleep.
///
/// # Errors
///
/// `EINVAL` for GIDs of different families, or an entry that was deleted; `ENODEV` without a
/// network device; those of routing.
pub(crate) fn reach(entry: &GidAttr, from: Gid, to: Gid) -> Result<Reach> {
    let addrs = AddrPair::from_gids(&from.0, &to.0).ok_or(EINVAL)?;
    if entry.ndev().is_null() {
        return Err(EINVAL);
    }
    let netdev = netdev_of_gid(entry)?;
    // It keeps the namespace, out of which the device may be moved meanwhile.
    let rcu = rcu::read_lock();
    let net = netdev.net(&rcu);
    let (route, addrs) = Route::reach(net, netdev.ifindex(), addrs)?;
    let to = match addrs {
        AddrPair::V4 { src: _, dst } => IpAddr::V4(dst),
        AddrPair::V6 { src: _, dst } => IpAddr::V6(dst),
    };
    let kind = if route.is_local() {
        // Nothing is sent by the loopback device: whoever has the address is meant.
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
