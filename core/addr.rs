// SPDX-License-Identifier: GPL-2.0

//! Address resolution: link-layer addresses and network devices for GIDs.
//!
//! A RoCE GID is an IP address, so it is resolved with the tables of the network stack: a route
//! from the network device of the local GID, then the neighbour entry on that route. If the
//! neighbour is not known yet, it is probed and waited for, for at most one second.
//!
//! * [`resolve`] fills in an address vector;
//! * [`device_of`] finds the network device that has an address;
//! * [`lag`] selects the port of a bond that packets leave by;
//! * [`path`] checks whether the destination of a RoCE path is reachable.
//!
//! * [`request`] resolves IP addresses asynchronously for connection managers, as a series of
//!   [`attempt`]s;
//! * `abi` has the exported functions, [`edge`] the C structures.

mod abi;
mod attempt;
mod edge;
pub(crate) mod lag;
pub(crate) mod path;
mod request;

pub(crate) use abi::GatewayGid;

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
use rdma::errno::eaddrnotavail;
use rdma::net::neighbour::ChangeNotifier;
use rdma::net::neighbour::Changes;
use rdma::net::route::Route;
use rdma::net::AddrPair;
use rdma::net::Net;
use rdma::net::NetDevice;

/// VLAN ID that stands for "no VLAN".
pub(crate) const NO_VLAN: u16 = 0xffff;

/// Maximum time to wait for a neighbour, in jiffies: one second.
const PATIENCE: isize = bindings::HZ as isize;

/// `ARPHRD_INFINIBAND`.
const INFINIBAND: u16 = 32;

/// Counts neighbour updates; resolution waits on it.
static NEIGHBOURS: Changes = Changes::new();

/// Module-wide state of address resolution.
pub(crate) struct Subsystem {
    // Dropped first: the notifier wakes the requests.
    _neighbours: Pin<KBox<ChangeNotifier>>,
    _requests: request::Subsystem,
}

impl Subsystem {
    pub(crate) fn new() -> Result<Self> {
        let requests = request::Subsystem::new()?;
        let notifier = ChangeNotifier::register(rdma::resident!(), &NEIGHBOURS, request::wake);
        Ok(Self {
            _neighbours: KBox::pin_init(notifier, GFP_KERNEL)?,
            _requests: requests,
        })
    }
}

/// Next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// Link-layer address.
    pub(crate) mac: [u8; 6],
    /// Hop limit.
    pub(crate) limit: u8,
}

/// Returns the network device of a GID. Any context.
///
/// # Errors
///
/// `EINVAL` if the GID has been deleted; `ENODEV` if it has no network device.
pub(crate) fn netdev_of_gid(gid: &GidAttr) -> Result<ARef<NetDevice>> {
    Entry::of(gid).netdev()
}

/// Returns the network device that owns `ip` according to `net`, whatever namespace the device
/// itself is in. Any context.
///
/// # Errors
///
/// `EADDRNOTAVAIL` if no device has the address.
pub(crate) fn device_of(net: &Net, ip: IpAddr) -> Result<ARef<NetDevice>> {
    let rcu = rcu::read_lock();
    net.device_with(ip, &rcu)
        .map(NetDevice::hold)
        .ok_or_else(eaddrnotavail)
}

/// Tries once to find the next hop. Returns `None` after a probe for its link-layer address.
fn try_hop(gid: &GidAttr, addrs: AddrPair) -> Result<Option<Hop>> {
    let netdev = netdev_of_gid(gid)?;
    // RCU keeps the namespace alive: the device may be moved to another one meanwhile.
    let rcu = rcu::read_lock();
    let net = netdev.net(&rcu);
    let (route, addrs) = Route::reach(net, netdev.ifindex(), addrs)?;
    let to = match addrs {
        AddrPair::V4 { src: _, dst } => IpAddr::V4(dst),
        AddrPair::V6 { src: _, dst } => IpAddr::V6(dst),
    };
    let limit = route.hop_limit();
    if route.is_local() {
        // Local destination: the GID's device is both source and destination.
        device_of(net, to).map_err(|_| ENODEV)?;
        let mac = netdev.mac();
        return Ok(Some(Hop { mac, limit }));
    }
    let on_infiniband = route.dev(&rcu).hardware_type() == INFINIBAND;
    drop(rcu);
    if on_infiniband && route.has_gateway() {
        // IPoIB gateways are resolved by user space only, see `request`.
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

/// Returns the next hop from a local GID to the GID `to`. Sleeps for at most one second.
///
/// # Errors
///
/// `EINVAL` for GIDs of different families; `ENODEV` if the network device is gone; routing errors;
/// `ETIMEDOUT` if the neighbour does not answer.
pub(crate) fn next_hop(gid: &GidAttr, to: &[u8; 16]) -> Result<Hop> {
    let addrs = AddrPair::from_gids(&Entry::of(gid).gid().0, to).ok_or(EINVAL)?;
    let start = kernel::time::Instant::<kernel::time::Monotonic>::now();
    let patience = kernel::time::Delta::from_secs(1);
    loop {
        let seen = NEIGHBOURS.seen();
        if let Some(hop) = try_hop(gid, addrs)? {
            return Ok(hop);
        }
        // OVERFLOW: both are nanoseconds since boot, which 64 bits hold for centuries.
        let left = patience - start.elapsed();
        if left.is_negative() || left.is_zero() {
            return Err(ETIMEDOUT);
        }
        let left = isize::try_from(left.as_millis())
            .unwrap_or(0)
            .saturating_mul(PATIENCE)
            / 1000;
        // After a timeout, one last attempt is made before the deadline check above.
        let _: bool = NEIGHBOURS.wait(seen, left.max(1));
    }
}

/// Fills in the link-layer address and the hop limit of a RoCE address vector with a unicast
/// destination. Sleeps for at most one second.
///
/// # Errors
///
/// `EINVAL` for an address vector without a local GID; those of [`next_hop`].
pub(crate) fn resolve_unicast(path: &mut Filled<'_>) -> Result {
    let to = path.destination();
    let gid = path.gid().ok_or(EINVAL)?;
    // In RoCEv1, a link-local GID contains the MAC address.
    let in_gid = if gid.attr().gid_type() == bindings::ib_gid_type_IB_GID_TYPE_ROCE {
        roce::mac_in(&Gid(to))
    } else {
        None
    };
    match in_gid {
        Some(mac) => path.set_mac(mac),
        None => {
            let hop = next_hop(gid.attr(), &to)?;
            path.set_mac(hop.mac);
            path.set_hop_limit(hop.limit);
        }
    }
    Ok(())
}

/// Same as [`resolve_unicast`], but also accepts multicast destinations.
pub(crate) fn resolve(path: &mut Filled<'_>) -> Result {
    match roce::group_mac(&Gid(path.destination())) {
        Some(mac) => {
            path.set_mac(mac);
            Ok(())
        }
        None => resolve_unicast(path),
    }
}
