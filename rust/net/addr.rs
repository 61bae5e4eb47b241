// SPDX-License-Identifier: GPL-2.0

//! Addresses of both ends of a path, and the GIDs that represent them.
//!
//! Pure. Source: IBTA annex A17.4.5.2 (a RoCEv2 GID is an IPv6 address; an IPv4 address is mapped
//! into it). C header: `include/rdma/ib_addr.h`.

use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;

/// Source and destination, of the same family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddrPair {
    /// IPv4.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
    },
}

impl AddrPair {
    /// Converts two GIDs to addresses. `None` if they are of different families.
    pub fn from_gids(src: &[u8; 16], dst: &[u8; 16]) -> Option<Self> {
        match (gid_to_ip(src), gid_to_ip(dst)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Self::V4 { src, dst }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Self::V6 { src, dst }),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    /// Returns the destination.
    pub const fn dst(&self) -> IpAddr {
        match *self {
            Self::V4 { dst, .. } => IpAddr::V4(dst),
            Self::V6 { dst, .. } => IpAddr::V6(dst),
        }
    }

    /// Returns the pair as seen from the other end.
    pub const fn reversed(self) -> Self {
        match self {
            Self::V4 { src, dst } => Self::V4 { src: dst, dst: src },
            Self::V6 { src, dst } => Self::V6 { src: dst, dst: src },
        }
    }

    /// Returns whether a packet with the addresses `other` comes from the destination of packets
    /// with these addresses.
    #[inline]
    pub fn is_answered_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::V4 { src, dst }, Self::V4 { src: from, dst: to }) => src == to && dst == from,
            (Self::V6 { src, dst }, Self::V6 { src: from, dst: to }) => src == to && dst == from,
            (Self::V4 { .. }, Self::V6 { .. }) | (Self::V6 { .. }, Self::V4 { .. }) => false,
        }
    }

    /// Returns the source as a GID.
    pub fn src_gid(&self) -> [u8; 16] {
        match self {
            Self::V4 { src, dst: _ } => ip_to_gid(IpAddr::V4(*src)),
            Self::V6 { src, dst: _ } => ip_to_gid(IpAddr::V6(*src)),
        }
    }

    /// Returns the destination as a GID.
    pub fn dst_gid(&self) -> [u8; 16] {
        match self {
            Self::V4 { src: _, dst } => ip_to_gid(IpAddr::V4(*dst)),
            Self::V6 { src: _, dst } => ip_to_gid(IpAddr::V6(*dst)),
        }
    }

    /// Returns whether the destination is a multicast group.
    pub const fn is_multicast(&self) -> bool {
        match self {
            Self::V4 { src: _, dst } => dst.is_multicast(),
            Self::V6 { src: _, dst } => dst.is_multicast(),
        }
    }

    /// Returns whether the addresses are IPv6.
    pub const fn is_v6(&self) -> bool {
        matches!(self, Self::V6 { .. })
    }
}

/// Converts a RoCEv2 GID to an address.
pub fn gid_to_ip(gid: &[u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(*gid);
    match v6.to_ipv4_mapped() {
        Some(v4) => IpAddr::V4(v4),
        None => IpAddr::V6(v6),
    }
}

/// Converts an address to a RoCEv2 GID.
pub fn ip_to_gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
