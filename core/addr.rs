// SPDX-License-Identifier: GPL-2.0

//! Where an address is: link-layer addresses for GIDs.
//!
//! A RoCE GID is an IP address, so the network stack's tables say where it is: a route from
//! the local GID's network device, and the neighbour on it. Whose address is not known yet
//! is asked for, and waited for, for a second at most.
//!
//! * [`resolve`] fills in an address vector;
//! * [`device_of`] finds the network device that has an address;
//! * [`lag`] says which device of a bond packets leave by;
//! * [`path`] says whether a path of RoCE leads anywhere.
//!
//! * [`request`] finds IP addresses for connection managers, who are told later; one
//!   [`attempt`] after the other;
//! * `abi` has the exported functions, [`edge`] the C structures.

mod abi;
mod attempt;
mod edge;
pub(crate) mod lag;
pub(crate) mod path;
mod request;

pub(crate) use abi::GatewayGid;

use crate::errno::eaddrnotavail;
use crate::gid::edge::entry::Entry;
use crate::object::Filled;
use crate::proto::gid::Gid;
use crate::proto::roce;
use core::net::IpAddr;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::edge::verbs::GidAttr;
use rdma::net::neighbour::ChangeNotifier;
use rdma::net::neighbour::Changes;
use rdma::net::route::Route;
use rdma::net::AddrPair;
use rdma::net::Net;
use rdma::net::NetDevice;

/// The VLAN of what is on none.
pub(crate) const NO_VLAN: u16 = 0xffff;

/// How long a neighbour is waited for, in jiffies: a second.
const PATIENCE: isize = bindings::HZ as isize;

/// `ARPHRD_INFINIBAND`.
const INFINIBAND: u16 = 32;

/// The changes of neighbours.
static NEIGHBOURS: Changes = Changes::new();

/// What the module owns for addresses.
pub(crate) struct Subsystem {
    // The notifier goes before what it wakes.
    _neighbours: Pin<KBox<ChangeNotifier>>,
    _requests: request::Subsystem,
}

impl Subsystem {
    pub(crate) fn new() -> Result<Self> {
        let requests = request::Subsystem::new()?;
        let notifier = ChangeNotifier::register(&NEIGHBOURS, request::wake_all);
        Ok(Self {
            _neighbours: KBox::pin_init(notifier, GFP_KERNEL)?,
            _requests: requests,
        })
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// The address on the link.
    pub(crate) mac: [u8; 6],
    /// How many hops it may go.
    pub(crate) limit: u8,
}

/// The network device of a GID. Any context.
///
/// # Errors
///
/// `EINVAL` if the GID has been deleted; `ENODEV` if it has no network device.
pub(crate) fn netdev_of_gid(gid: &GidAttr) -> Result<ARef<NetDevice>> {
    Entry::of(gid).netdev()
}

/// The network device that has an address, whatever its own namespace says of it. Any context.
///
/// # Errors
///
/// `EADDRNOTAVAIL`.
pub(crate) fn device_of(net: &Net, ip: IpAddr) -> Result<ARef<NetDevice>> {
    let rcu = rcu::read_lock();
    net.device_with(ip, &rcu)
        .map(NetDevice::hold)
        .ok_or_else(eaddrnotavail)
}

/// One attempt to find the next hop: `None` if its address was asked for.
fn try_hop(gid: &GidAttr, addrs: AddrPair) -> Result<Option<Hop>> {
    let netdev = netdev_of_gid(gid)?;
    // It keeps the namespace, out of which the device may be moved meanwhile.
    let rcu = rcu::read_lock();
    let net = netdev.net(&rcu);
    let (route, addrs) = Route::reach(net, netdev.ifindex(), addrs)?;
    let to = match addrs {
        AddrPair::V4 { src: _, dst } => IpAddr::V4(dst),
        AddrPair::V6 { src: _, dst } => IpAddr::V6(dst),
    };
    let limit = route.hop_limit();
    if route.is_local() {
        // This machine: the device of the GID is both ends.
        device_of(net, to).map_err(|_| ENODEV)?;
        let mac = netdev.mac();
        return Ok(Some(Hop { mac, limit }));
    }
    let on_infiniband = route.dev(&rcu).hardware_type() == INFINIBAND;
    drop(rcu);
    if on_infiniband && route.has_gateway() {
        // A gateway of IP over InfiniBand is known to a user's program, if to anybody.
        return Err(eaddrnotavail());
    }
    let Some(neighbour) = route.neighbour(to) else {
        return Ok(None);
    };
    let Some(address) = neighbour.address() else {
        neighbour.probe();
        return Ok(None);
    };
    let [a, b, c, d, e, f, ..] = address;
    let mac = [a, b, c, d, e, f];
    Ok(Some(Hop { mac, limit }))
}

/// Where packets from a local GID to another go next. Sleeps, for a second at most.
///
/// # Errors
///
/// `EINVAL` for GIDs of different families; `ENODEV` if the network device has gone;
/// those of routing; `ETIMEDOUT` if the neighbour does not answer.
pub(crate) fn next_hop(gid: &GidAttr, to: &[u8; 16]) -> Result<Hop> {
    let addrs = AddrPair::from_gids(&Entry::of(gid).gid().0, to).ok_or(EINVAL)?;
    let start = kernel::time::Instant::<kernel::time::Monotonic>::now();
    let patience = kernel::time::Delta::from_secs(1);
    loop {
        let seen = NEIGHBOURS.seen();
        if let Some(hop) = try_hop(gid, addrs)? {
            return Ok(hop);
        }
        // OVERFLOW: times since boot have centuries of room.
        let left = patience - start.elapsed();
        if left.is_negative() || left.is_zero() {
            return Err(ETIMEDOUT);
        }
        let left = isize::try_from(left.as_millis())
            .unwrap_or(0)
            .saturating_mul(PATIENCE)
            / 1000;
        // What was missed at the end of the time is seen by the last attempt.
        let _: bool = NEIGHBOURS.wait(seen, left.max(1));
    }
}

/// Fills in the link layer's address and the hop limit of a RoCE vector that leads to one
/// destination. May sleep, for a second at most.
///
/// # Errors
///
/// `EINVAL` for a vector without a local GID; those of [`next_hop`].
pub(crate) fn resolve_unicast(path: &mut Filled<'_>) -> Result {
    let to = path.destination();
    let gid = path.gid().ok_or(EINVAL)?;
    // Between link-local GIDs of the older RoCE, addresses are in the GIDs themselves.
    let in_gid = if gid.gid_type() == bindings::ib_gid_type_IB_GID_TYPE_ROCE {
        roce::mac_in(&Gid(to))
    } else {
        None
    };
    match in_gid {
        Some(mac) => path.set_mac(mac),
        None => {
            let hop = next_hop(gid, &to)?;
            path.set_mac(hop.mac);
            path.set_hop_limit(hop.limit);
        }
    }
    Ok(())
}

/// As [`resolve_unicast`], for groups too.
pub(crate) fn resolve(path: &mut Filled<'_>) -> Result {
    match roce::group_mac(&Gid(path.destination())) {
        Some(mac) => {
            path.set_mac(mac);
            Ok(())
        }
        None => resolve_unicast(path),
    }
}
