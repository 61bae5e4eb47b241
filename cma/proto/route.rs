// SPDX-License-Identifier: GPL-2.0

//! Paths. On RoCE no subnet administrator is asked: a path is made from the addresses, the network
//! device and the options of the ID.

use super::addr::Address;

/// Time that a packet may take, if the consumer gave no timeout: 4.096 us * 2^16.
const LIFE_TIME: u8 = 16;

/// Bytes of headers of a RoCE packet beyond those of Ethernet, at most: GRH, UDP, BTH, XRC, atomic
/// operation, ICRC.
const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;

/// The 20 bits of a flow label.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// Type of a GID (`enum ib_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE version 1.
    Roce,
    /// RoCE version 2: in UDP.
    RoceUdp,
}

impl GidType {
    /// The type with this number.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Ib,
            1 => Self::Roce,
            2 => Self::RoceUdp,
            _ => return None,
        })
    }

    /// The number of the type.
    pub const fn raw(self) -> u32 {
        match self {
            Self::Ib => 0,
            Self::Roce => 1,
            Self::RoceUdp => 2,
        }
    }

    /// Whether a mask of types contains this one.
    pub const fn is_in(self, mask: u64) -> bool {
        mask >> self.raw() & 1 != 0
    }

    /// The type that a port uses by default, of those that it supports: RoCE version 2, else the
    /// first. `None` for a mask without any.
    pub const fn preferred(mask: u64) -> Option<Self> {
        if Self::RoceUdp.is_in(mask) {
            return Some(Self::RoceUdp);
        }
        Self::from_raw(mask.trailing_zeros())
    }

    /// The name by which administrators know the type.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Ib | Self::Roce => b"IB/RoCE v1",
            Self::RoceUdp => b"RoCE v2",
        }
    }

    /// The first type with a name, which may have a newline behind it.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let name = name.strip_suffix(b"\n").unwrap_or(name);
        [Self::Ib, Self::RoceUdp]
            .into_iter()
            .find(|one| one.name() == name)
    }

    /// The type that a port with this mask of types gets when an administrator asks for this one.
    /// `None`: it does not support it.
    pub const fn of_port(self, mask: u64) -> Option<Self> {
        let wanted = match self {
            Self::Ib if Self::Roce.is_in(mask) => Self::Roce,
            Self::Ib | Self::Roce | Self::RoceUdp => self,
        };
        if wanted.is_in(mask) {
            Some(wanted)
        } else {
            None
        }
    }
}

/// How a destination is reached, as address resolution found it (`enum rdma_network_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// InfiniBand, or unknown.
    Ib,
    /// Ethernet, without a route of IP.
    RoceV1,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Network {
    /// The network with this number.
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::RoceV1,
            2 => Self::V4,
            3 => Self::V6,
            _ => Self::Ib,
        }
    }

    const fn gid_type(self) -> GidType {
        match self {
            Self::Ib => GidType::Ib,
            Self::RoceV1 => GidType::Roce,
            Self::V4 | Self::V6 => GidType::RoceUdp,
        }
    }
}

/// The GID type of a path: RoCE version 2 if the destination was found by IP.
pub fn gid_type(network: Network, supported: u64, default: GidType) -> GidType {
    let own = match network {
        Network::V4 | Network::V6 if GidType::RoceUdp.is_in(supported) => GidType::RoceUdp,
        Network::V4 | Network::V6 | Network::RoceV1 | Network::Ib => default,
    };
    own.max(network.gid_type())
}

/// The MTU of RoCE on a network device: 1 (256 bytes) to 5 (4096 bytes); `None` if not even the
/// smallest fits.
pub const fn mtu(of_device: u32) -> Option<u8> {
    let left = of_device.saturating_sub(HEADERS);
    Some(match left {
        4096.. => 5,
        2048..=4095 => 4,
        1024..=2047 => 3,
        512..=1023 => 2,
        256..=511 => 1,
        0..=255 => return None,
    })
}

/// The flow label of a connection: the one that the consumer gave with an IPv6 address; else a
/// number from both ports, so that connections take different ways.
pub const fn flow_label(source: &Address, destination: &Address) -> u32 {
    if let Address::V6(v6) = source {
        if v6.flow & FLOW_LABEL != 0 {
            return v6.flow & FLOW_LABEL;
        }
    }
    // CAST: widens. OVERFLOW: 65535 * 31 + 65535 fits.
    let hash = source.port() as u32 * 31 + destination.port() as u32;
    hash & FLOW_LABEL
}

/// The priority of packets with a type of service (`rt_tos2priority`).
pub const fn priority(tos: u8) -> u8 {
    match (tos & 0x1e) >> 3 {
        0 => 0,
        1 => 2,
        2 => 6,
        _ => 4,
    }
}

/// The time that a packet may take: half of the timeout of acknowledgements, if that was given.
pub const fn life_time(ack_timeout: Option<u8>) -> u8 {
    match ack_timeout {
        None | Some(0) => LIFE_TIME,
        // OVERFLOW: not 0.
        Some(timeout) => timeout - 1,
    }
}

/// What a path is made from.
#[derive(Clone, Copy, Debug)]
pub struct PathRequest<'a> {
    /// Local address.
    pub source: &'a Address,
    /// Remote address.
    pub destination: &'a Address,
    /// Type of service.
    pub tos: u8,
    /// Service level: what the network device makes of the type of service.
    pub sl: u8,
    /// Hop limit of the route.
    pub hop_limit: u8,
    /// MTU of the network device.
    pub mtu: u32,
    /// Timeout of acknowledgements, if the consumer gave one.
    pub ack_timeout: Option<u8>,
    /// Whether the port can send RoCE version 2.
    pub udp: bool,
}

/// A path, as far as it is not the same for all: P_Key 0xffff, exact selectors, rate of the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// GID of this end.
    pub sgid: [u8; 16],
    /// GID of the other end.
    pub dgid: [u8; 16],
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// MTU, 1 to 5.
    pub mtu: u8,
    /// Time that a packet may take.
    pub life_time: u8,
}

/// Makes a path; `None` if the MTU of the network device is too small. Addresses of `AF_IB` give
/// no GIDs.
pub fn path(from: &PathRequest<'_>) -> Option<Path> {
    let ib = matches!(from.destination, Address::Ib(_));
    Some(Path {
        sgid: from.source.gid().unwrap_or_default(),
        dgid: from.destination.gid().unwrap_or_default(),
        flow_label: if from.udp {
            flow_label(from.source, from.destination)
        } else {
            0
        },
        hop_limit: if ib { 1 } else { from.hop_limit },
        traffic_class: from.tos,
        sl: from.sl,
        mtu: mtu(from.mtu)?,
        life_time: life_time(from.ack_timeout),
    })
}

/// Whether a port with this GID is taken for a destination of `AF_IB`: it is the destination, or it
/// is active in the same subnet.
pub fn leads_to(gid: &[u8; 16], destination: &[u8; 16], active: bool) -> bool {
    gid == destination || (active && gid.first_chunk::<8>() == destination.first_chunk::<8>())
}

/// What a path from the subnet administrator is for, by its flags (`IB_PATH_GMP` and others).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Both directions, and messages of the connection manager.
    Primary,
    /// Data from the peer.
    Inbound,
    /// Data to the peer.
    Outbound,
}

impl Use {
    /// The use with these flags; `None` for none that is known.
    pub const fn of(flags: u32) -> Option<Self> {
        const GMP: u32 = 1 << 0;
        const OUTBOUND: u32 = 1 << 3;
        const INBOUND: u32 = 1 << 4;
        Some(match flags {
            0 => Self::Primary,
            flags if flags & GMP != 0 => Self::Primary,
            flags if flags & INBOUND != 0 => Self::Inbound,
            flags if flags & OUTBOUND != 0 => Self::Outbound,
            _ => return None,
        })
    }
}
