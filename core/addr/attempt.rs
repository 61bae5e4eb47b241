// SPDX-License-Identifier: GPL-2.0

//! One attempt to resolve an IP address: the route, its network device and the link-layer address.
//!
//! If the route is on InfiniBand and has a gateway, user space is asked for the gateway's GID
//! (`RDMA_NL_LS_OP_IP_RESOLVE`), provided that a program listens.

use super::device_of;
use super::edge::Asker;
use super::edge::DevAddr;
use super::edge::Socket;
use super::netdev_of_gid;
use super::request::Request;
use super::INFINIBAND;
use crate::netlink;
use crate::proto::nla;
use crate::proto::nla::Full;
use crate::proto::nla::Sink;
use crate::proto::resolve::Outcome;
use core::net::IpAddr;
use kernel::ffi::c_int;
use kernel::pr_warn_once;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::errno::eaddrnotavail;
use rdma::net::route::Route;
use rdma::net::AddrPair;
use rdma::net::Net;
use rdma::net::NetDevice;

/// Source address of a request: initially the requester's, then the one chosen by the route.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// Socket address as given by the requester: family, port and other fields.
    pub(super) socket: Socket,
    /// Current IP address.
    pub(super) ip: IpAddr,
}

impl Source {
    /// Returns the requester's socket address with the current IP address in it.
    pub(super) fn to_socket(self) -> Socket {
        self.socket.with_ip(self.ip)
    }
}

/// Copies the hardware addresses, hardware type and interface index of a network device.
pub(super) fn copy_source(to: &DevAddr, dev: &NetDevice) {
    to.set_dev_type(dev.hardware_type());
    to.set_source(dev.hardware_addr());
    to.set_broadcast(dev.broadcast_addr());
    // CAST: interface indices are from 1 to `c_int::MAX`.
    to.set_bound_dev_if(dev.ifindex() as c_int);
}

/// Returns the network device with this interface index or, if the index is 0, the one that has the
/// address.
///
/// # Errors
///
/// `ENODEV` if there is no such device; `EADDRNOTAVAIL` if none has the address.
pub(super) fn device_at(net: &Net, ifindex: u32, ip: Option<IpAddr>) -> Result<ARef<NetDevice>> {
    if ifindex == 0 {
        return device_of(net, ip.ok_or_else(eaddrnotavail)?);
    }
    let ifindex = c_int::try_from(ifindex).map_err(|_| ENODEV)?;
    net.device_by_index(ifindex).ok_or(ENODEV)
}

/// Stores a GID as the destination's link-layer address. On InfiniBand it follows four bytes that
/// hold the queue pair number.
pub(super) fn set_gid(addr: &DevAddr, gid: &[u8; 16]) {
    let at = if addr.dev_type() == INFINIBAND { 4 } else { 0 };
    let mut destination = addr.destination();
    for (to, from) in destination.iter_mut().skip(at).zip(gid) {
        *to = *from;
    }
    addr.set_destination(destination);
}

/// Namespace and network device that a request is bound to.
enum Bound<'a> {
    /// Given by the requester.
    Asker(&'a Net, u32),
    /// Device of the source GID.
    Gid(ARef<NetDevice>),
}

impl Bound<'_> {
    fn net<'a>(&'a self, rcu: &'a rcu::Guard) -> &'a Net {
        match self {
            Self::Asker(net, _) => net,
            Self::Gid(dev) => dev.net(rcu),
        }
    }

    fn ifindex(&self) -> u32 {
        match self {
            Self::Asker(_, ifindex) => *ifindex,
            Self::Gid(dev) => dev.ifindex(),
        }
    }
}

/// Tries once to resolve the destination of a request. May sleep.
pub(super) fn attempt(asker: &Asker, source: &mut Source, request: &Request) -> Outcome<Error> {
    let found = find(asker, source, request);
    if asker.is_by_gid() {
        // Callers of requests by GID expect the initial namespace and no bound device.
        let addr = asker.addr();
        addr.set_net(Net::init());
        addr.set_bound_dev_if(0);
    }
    match found {
        Ok(true) => Outcome::Found,
        Ok(false) => Outcome::Asked,
        Err(error) => Outcome::Failed(error),
    }
}

/// Fills in the source and, if it is known, the destination. Returns whether it is known. May
/// sleep.
fn find(asker: &Asker, source: &mut Source, request: &Request) -> Result<bool> {
    let addr = asker.addr();
    let to = request.to();
    let Some(net) = addr.net() else {
        pr_warn_once!("an address without a namespace is not resolved\n");
        return Err(EINVAL);
    };
    let bound = if asker.is_by_gid() {
        Bound::Gid(netdev_of_gid(asker.gid().ok_or(EINVAL)?)?)
    } else {
        let ifindex = u32::try_from(addr.bound_dev_if()).map_err(|_| ENODEV)?;
        Bound::Asker(net, ifindex)
    };
    let ends = match (source.ip, to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => AddrPair::V4 { src, dst },
        (IpAddr::V6(src), IpAddr::V6(dst)) => AddrPair::V6 { src, dst },
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return Err(EINVAL),
    };
    // RCU keeps the namespace of a GID's device alive: the device may be moved to another one.
    let rcu = rcu::read_lock();
    let net = bound.net(&rcu);
    let (route, ends) = Route::reach(net, bound.ifindex(), ends)?;
    source.ip = match ends {
        AddrPair::V4 { src, dst: _ } => IpAddr::V4(src),
        AddrPair::V6 { src, dst: _ } => IpAddr::V6(src),
    };
    addr.set_hop_limit(c_int::from(route.hop_limit()));

    let on_infiniband = if route.is_local() {
        // The loopback device has no RDMA device: use the device that owns the address instead.
        let dev = device_of(route.dev(&rcu).net(&rcu), to).map_err(|_| ENODEV)?;
        copy_source(addr, &*device_at(net, bound.ifindex(), Some(to))?);
        dev.hardware_type() == INFINIBAND
    } else {
        let dev = route.dev(&rcu);
        copy_source(addr, dev);
        dev.hardware_type() == INFINIBAND
    };
    drop(rcu);
    // Traffic through a gateway is RoCEv2 unless the link is InfiniBand.
    let gateway = route.has_gateway();
    addr.set_network(match to {
        _ if !gateway || on_infiniband => bindings::rdma_network_type_RDMA_NETWORK_IB,
        IpAddr::V4(_) => bindings::rdma_network_type_RDMA_NETWORK_IPV4,
        IpAddr::V6(_) => bindings::rdma_network_type_RDMA_NETWORK_IPV6,
    });
    if route.is_local() {
        addr.set_destination(addr.source());
        return Ok(true);
    }
    if gateway && on_infiniband {
        ask_user(addr.bound_dev_if(), to, request.seq())?;
        return Ok(false);
    }
    Ok(match neighbour(&route, request) {
        Some(at) => {
            addr.set_destination(at);
            true
        }
        None => false,
    })
}

/// Returns the link-layer address of the next hop. If it is not known, the request is woken when it
/// is, and the neighbour is probed.
fn neighbour(route: &Route, request: &Request) -> Option<[u8; 32]> {
    let Some(neighbour) = route.neighbour(request.to()) else {
        request.watch(None);
        return None;
    };
    if let Some(at) = neighbour.address() {
        return Some(at);
    }
    // Look again after that: it may have become known before the request was in the list.
    request.watch(Some(neighbour.id()));
    let at = neighbour.address();
    if at.is_none() {
        neighbour.probe();
    }
    at
}

/// Asks user space for the GID of a gateway. May sleep.
///
/// # Errors
///
/// `EADDRNOTAVAIL` if no program listens; `ENOMEM`.
fn ask_user(ifindex: c_int, to: IpAddr, seq: u32) -> Result {
    /// Netlink message type.
    // CAST: message types have 16 bits.
    const RESOLVE: u16 = ((bindings::RDMA_NL_LS << 10) | bindings::RDMA_NL_LS_OP_IP_RESOLVE) as u16;
    /// A program that does not know the attribute must not respond.
    // CAST: attribute types have 16 bits, flags included.
    const MANDATORY: u16 = bindings::RDMA_NLA_F_MANDATORY as u16;
    const IPV4: u16 = MANDATORY | bindings::LS_NLA_TYPE_IPV4 as u16;
    const IPV6: u16 = MANDATORY | bindings::LS_NLA_TYPE_IPV6 as u16;

    if !netlink::has_listeners(bindings::RDMA_NL_GROUP_LS) {
        return Err(eaddrnotavail());
    }
    let mut message = netlink::Message::new()?;
    let head = nla::Message {
        message_type: RESOLVE,
        // CAST: a flag of 16 bits.
        flags: bindings::NLM_F_REQUEST as u16,
        seq,
        port: 0,
    };
    message.writer().message(head, |w| -> Result<(), Full> {
        let header = w.sink().grow(size_of::<c_int>()).ok_or(Full)?;
        header.copy_from_slice(&ifindex.to_ne_bytes());
        match to {
            IpAddr::V4(ip) => w.put(IPV4, &ip.octets()),
            IpAddr::V6(ip) => w.put(IPV6, &ip.octets()),
        }
    })?;
    // If the last listener is gone meanwhile, the request times out.
    let _: Result = netlink::multicast(Net::init(), message, bindings::RDMA_NL_GROUP_LS);
    Ok(())
}

/// Returns the GID in a user program's response, if there is one.
pub(super) fn gid_in(answer: &netlink::Answer<'_>) -> Option<[u8; 16]> {
    // CAST: attribute types and flags have 16 bits.
    const DGID: u16 = bindings::LS_NLA_TYPE_DGID as u16;
    if answer.flags() & bindings::RDMA_NL_LS_F_ERR as u16 != 0 {
        return None;
    }
    let mut gid = None;
    let kind = |attr| match attr {
        DGID => nla::Kind::AtLeast(16),
        _ => nla::Kind::Unnamed,
    };
    let types = bindings::LS_NLA_TYPE_MAX as usize;
    let liberal = nla::Strictness::Liberal;
    nla::judge(answer.payload(), liberal, kind, types, |_, attr| {
        if attr.attr == DGID {
            gid = attr.payload.first_chunk().copied();
        }
    })
    .ok()?;
    gid
}
