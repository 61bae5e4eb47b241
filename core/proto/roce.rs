// SPDX-License-Identifier: GPL-2.0

//! Headers and addresses of RoCE: what was before a datagram, and Ethernet addresses of GIDs.
//!
//! Before the payload of a received datagram stand 40 bytes: InfiniBand's global routing
//! header, or what takes its place in RoCE: an IPv6 header, which has the same form, or an
//! IPv4 header in the last 20 bytes, with anything before it (IBTA annex A17.4.5.1).

use super::gid::Gid;

/// Bytes before the payload of a datagram.
pub const AREA: usize = 40;

/// Where an IPv4 header begins in them.
const V4_AT: usize = 20;

/// UDP's number among IP's protocols.
const UDP: u8 = 17;

/// What is in the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// An IPv4 header in its second half.
    Ipv4,
    /// A header of the form of IPv6's.
    Ipv6,
}

/// The two ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Who sent it.
    pub source: Gid,
    /// Whom it was for.
    pub destination: Gid,
}

/// The bytes of an area from one place on, zeros after its end.
fn part<const N: usize>(area: &[u8; AREA], at: usize) -> [u8; N] {
    let mut part = [0; N];
    for (to, from) in part.iter_mut().zip(area.iter().skip(at)) {
        *to = *from;
    }
    part
}

/// Whether the checksum of an IPv4 header without options is right: the one's complement
/// sum of its words is all ones.
fn sums_up(header: &[u8; 20]) -> bool {
    let mut sum = 0u32;
    for pair in header.chunks_exact(2) {
        if let [high, low] = pair {
            // OVERFLOW: ten numbers of 16 bits.
            sum += u32::from(u16::from_be_bytes([*high, *low]));
        }
    }
    // OVERFLOW: ten words have 20 bits, and folding twice takes every carry.
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

/// Which header is in the area, if any. What looks like both is IPv4's if its checksum is
/// right: chance gives that once in 65536 times.
pub fn header(area: &[u8; AREA]) -> Option<Header> {
    let v4: [u8; 20] = part(area, V4_AT);
    if area[0] >> 4 != 6 {
        return (v4[0] >> 4 == 4).then_some(Header::Ipv4);
    }
    // RoCE has no options, so the header is five words long.
    if v4[0] & 0xf == 5 && sums_up(&v4) {
        Some(Header::Ipv4)
    } else {
        Some(Header::Ipv6)
    }
}

/// Whether the header of the form of IPv6's says that UDP follows.
pub fn is_udp(area: &[u8; AREA]) -> bool {
    area[6] == UDP
}

/// The ends, by the header that the area has.
pub fn ends(area: &[u8; AREA], header: Header) -> Ends {
    match header {
        Header::Ipv4 => Ends {
            source: Gid::from_ipv4(part(area, V4_AT + 12)),
            destination: Gid::from_ipv4(part(area, V4_AT + 16)),
        },
        Header::Ipv6 => Ends {
            source: Gid(part(area, 8)),
            destination: Gid(part(area, 24)),
        },
    }
}

/// Traffic class and flow label of a header of the form of IPv6's. Of an area with an IPv4
/// header they are whatever stood before it.
pub fn class_and_label(area: &[u8; AREA]) -> (u8, u32) {
    let word = u32::from_be_bytes(part(area, 0));
    // CAST: eight bits, and twenty.
    ((word >> 20) as u8, word & 0x000f_ffff)
}

/// The IPv4 address that a GID is mapped from, if it is.
fn ipv4_in(gid: &Gid) -> Option<[u8; 4]> {
    let [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] = gid.0 else {
        return None;
    };
    Some([a, b, c, d])
}

/// The Ethernet group of a multicast GID (RFC 1112, 6.4; RFC 2464, 7), if it is one.
pub fn group_mac(gid: &Gid) -> Option<[u8; 6]> {
    if let Some([first, b, c, d]) = ipv4_in(gid) {
        return (first >> 4 == 0xe).then_some([0x01, 0x00, 0x5e, b & 0x7f, c, d]);
    }
    let [0xff, .., a, b, c, d] = gid.0 else {
        return None;
    };
    Some([0x33, 0x33, a, b, c, d])
}

/// The Ethernet address that a link-local GID was made of ([`Gid::link_local`]), if it is one.
/// RoCE version 1 asks nobody for addresses of link-local GIDs.
pub fn mac_in(gid: &Gid) -> Option<[u8; 6]> {
    let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, _, _, d, e, f] = gid.0 else {
        return None;
    };
    Some([a ^ 2, b, c, d, e, f])
}

/// The UDP source port of a path: one of the dynamic ones, folded out of the flow label's 20
/// bits. IBTA annex A17.4.3 leaves it to the sender; this is how drivers agree on it.
pub const fn source_port(flow_label: u32) -> u16 {
    let (low, high) = (flow_label & 0x3fff, (flow_label >> 14) & 0x3f);
    // CAST: 14 bits.
    (low ^ high) as u16 | 0xc000
}
