// SPDX-License-Identifier: GPL-2.0

//! Destinations of packets.
//!
//! A [`Path`] is a value made from an address handle; it holds no references. It resolves to a
//! [`CachedRoute`]: a route, or the fact that the destination is this device itself. Senders cache
//! routes and check them before use; a cached route keeps no device and no namespace.
//!
//! Source: IBTA annex A17.9 (header fields), A17.9.2 (UDP source port). C header:
//! `include/rdma/ib_verbs.h`.

use core::net::IpAddr;

use kernel::prelude::*;
use kernel::sync::rcu;

use rdma::net::AddrPair;
use rdma::net::Flow;
use rdma::net::GidAttr;
use rdma::net::NetDevice;
use rdma::net::NetworkType;
use rdma::net::Route;
use rdma::provider::AhAttr;
use rdma::wire::ROCE_V2_UDP_PORT;

use super::dev::Endpoint;
use super::edge::HeldRoute;
use super::rx::RxSink;

/// Lowest UDP source port (`IB_ROCE_UDP_ENCAP_VALID_PORT_MIN`); the lower 14 bits vary.
const SOURCE_PORT_MIN: u16 = 0xc000;

/// Bits of a flow label.
const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// Headroom in bytes beyond what the network device requires: the stack does not check the headroom
/// when it segments a train below a device that adds headers.
const TUNNEL_ROOM: u32 = 64;

/// Parameters of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathSpec {
    /// The local GID.
    pub(crate) sgid: [u8; 16],
    /// Index of the local GID in the port's table.
    pub(crate) sgid_index: u8,
    /// The peer's GID.
    pub(crate) dgid: [u8; 16],
    /// Hardware address of the peer or its multicast group.
    pub(crate) dmac: [u8; 6],
    /// IPv4 time to live, IPv6 hop limit.
    pub(crate) hop_limit: u8,
    /// IPv4 type of service, IPv6 traffic class.
    pub(crate) traffic_class: u8,
    /// IPv6 flow label, 20 bits.
    pub(crate) flow_label: u32,
}

impl PathSpec {
    /// Converts an address handle's attributes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not describe a RoCE destination with a global route.
    pub(crate) fn from_ah_attr(attr: &AhAttr, sgid: &GidAttr) -> Result<Self> {
        if !attr.has_grh() {
            return Err(EINVAL);
        }
        Ok(Self {
            sgid: sgid.gid(),
            sgid_index: attr.sgid_index(),
            dgid: attr.dgid(),
            dmac: attr.dmac().ok_or(EINVAL)?,
            hop_limit: attr.hop_limit(),
            traffic_class: attr.traffic_class(),
            flow_label: attr.flow_label(),
        })
    }
}

/// Destination of a queue pair or an address handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    spec: PathSpec,
    addrs: AddrPair,
    src_port: u16,
}

impl Path {
    /// Creates a path whose packets have the UDP source port `src_port` (see [`source_port`]).
    ///
    /// # Errors
    ///
    /// `EINVAL` if one GID is an IPv4 address and the other is not.
    pub(crate) fn new(spec: PathSpec, src_port: u16) -> Result<Self> {
        Ok(Self {
            spec,
            addrs: AddrPair::from_gids(&spec.sgid, &spec.dgid).ok_or(EINVAL)?,
            src_port,
        })
    }

    /// Returns the parameters of the path.
    pub(crate) fn spec(&self) -> &PathSpec {
        &self.spec
    }

    /// Returns the local address and the peer's.
    #[inline]
    pub(crate) fn addrs(&self) -> &AddrPair {
        &self.addrs
    }

    /// Returns the UDP source port of packets.
    #[inline]
    pub(crate) fn src_port(&self) -> u16 {
        self.src_port
    }

    /// Returns the flow label, masked to 20 bits.
    #[inline]
    pub(crate) fn flow_label(&self) -> u32 {
        self.spec.flow_label & FLOW_LABEL_MASK
    }

    /// Resolves the path. `sgid` is the GID table entry that holds the path's source GID. Process
    /// context or softirq.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the entry holds another GID, `ENODEV` if its network device is going away, and
    /// those of the routing tables.
    pub(crate) fn resolve<S: RxSink>(
        &self,
        endpoint: &Endpoint<S>,
        sgid: &GidAttr,
    ) -> Result<CachedRoute> {
        // Read first: a change during the lookup then makes the result stale at once.
        let generation = endpoint.generation();
        if sgid.gid() != self.spec.sgid {
            return Err(ENOENT);
        }
        match sgid.network_type() {
            NetworkType::Ipv4 | NetworkType::Ipv6 => {}
            NetworkType::Infiniband | NetworkType::RoceV1 => return Err(EINVAL),
        }
        let rcu = rcu::read_lock();
        self.resolve_on(endpoint, generation, sgid.ndev(&rcu)?, &rcu)
    }

    fn resolve_on<S: RxSink>(
        &self,
        endpoint: &Endpoint<S>,
        generation: u32,
        ndev: &NetDevice,
        rcu: &rcu::Guard,
    ) -> Result<CachedRoute> {
        if ndev.mac() == self.spec.dmac {
            return Ok(CachedRoute {
                via: Via::Local {
                    vlan: vlan_id(ndev),
                },
                generation,
                mtu: ndev.mtu(),
                trains: false,
                link_room: 0,
            });
        }
        let net = ndev.net(rcu);
        let route = Route::lookup(
            net,
            &Flow {
                addrs: self.addrs,
                ifindex: ndev.ifindex(),
                src_port: self.src_port,
                dst_port: ROCE_V2_UDP_PORT,
                flow_label: self.flow_label(),
            },
        )?;
        Ok(CachedRoute {
            generation,
            mtu: route.mtu(),
            trains: !route.is_transformed(),
            link_room: route.dev(rcu).link_room().saturating_add(TUNNEL_ROOM),
            via: Via::Wire {
                route: endpoint.hold(net, route, rcu)?,
                peer: self.addrs.dst(),
            },
        })
    }
}

fn vlan_id(ndev: &NetDevice) -> Option<u16> {
    ndev.vlan().map(|(_, id)| id)
}

/// The result of resolving a path.
pub(crate) struct CachedRoute {
    pub(super) via: Via,
    generation: u32,
    pub(super) mtu: u32,
    /// Whether packets may be sent as trains: each must leave unchanged.
    pub(super) trains: bool,
    pub(super) link_room: u32,
}

/// How packets reach their destination.
pub(super) enum Via {
    /// This device itself, over the given VLAN of it.
    Local { vlan: Option<u16> },
    /// Through the IP stack, to an address.
    Wire { route: HeldRoute, peer: IpAddr },
}

impl CachedRoute {
    /// Returns the VLAN if the route leads to the device itself; the outer `None` otherwise.
    #[inline]
    pub(crate) fn loopback(&self) -> Option<Option<u16>> {
        match self.via {
            Via::Local { vlan } => Some(vlan),
            Via::Wire { .. } => None,
        }
    }

    /// Returns whether the route may still be used. If not, the path must be resolved again.
    /// Softirq or process context.
    #[inline]
    pub(crate) fn is_valid<S: RxSink>(&self, endpoint: &Endpoint<S>) -> bool {
        self.generation == endpoint.generation()
            && match &self.via {
                Via::Local { .. } => true,
                Via::Wire { route, .. } => {
                    route.get(&rcu::read_lock()).is_some_and(Route::is_valid)
                }
            }
    }
}

/// Returns the UDP source port for packets from queue pair `local` to queue pair `remote`. It
/// distributes flows over links and CPUs; both ends compute the same. A flow label of zero leaves
/// the choice to the driver.
///
/// This is the convention of the core's `rdma_get_udp_sport`.
pub(crate) fn source_port(flow_label: u32, local: u32, remote: u32) -> u16 {
    let label = match flow_label & FLOW_LABEL_MASK {
        0 => {
            // OVERFLOW: 32 bits each.
            let mut v = u64::from(local) * u64::from(remote);
            v ^= v >> 20;
            v ^= v >> 40;
            // CAST: the upper bits have been folded in.
            v as u32 & FLOW_LABEL_MASK
        }
        label => label,
    };
    port_from_bits((label & 0x3fff) ^ (label >> 14))
}

/// Returns the UDP source port of a queue pair without a peer, derived from its number alone.
pub(crate) fn default_source_port(qpn: u32) -> u16 {
    const GOLDEN_RATIO_32: u32 = 0x61c8_8647;
    port_from_bits(qpn.wrapping_mul(GOLDEN_RATIO_32) >> 18)
}

fn port_from_bits(bits: u32) -> u16 {
    // CAST: 14 bits fit `u16`.
    SOURCE_PORT_MIN | (bits & 0x3fff) as u16
}
