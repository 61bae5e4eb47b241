// SPDX-License-Identifier: GPL-2.0

//! Headers of received RoCE datagrams, and Ethernet addresses of GIDs.
//!
//! The payload of a received datagram is preceded by 40 bytes: the global routing header of
//! InfiniBand, or its counterpart in RoCE: an IPv6 header, which has the same layout, or an IPv4
//! header in the last 20 bytes, with undefined bytes before it (IBTA annex A17.4.5.1).

use super::gid::Gid;

/// Number of bytes before the payload of a datagram.
pub const AREA: usize = 40;

/// Offset of an IPv4 header in them.
const V4_AT: usize = 20;

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// Type of the header in the 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// An IPv4 header in the last 20 bytes.
    Ipv4,
    /// An IPv6 header or GRH.
    Ipv6,
}

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// GID of the sender.
    pub source: Gid,
    /// GID of the destination.
    pub destination: Gid,
}

/// The bytes from offset `at` on, padded with zeros.
fn part<const N: usize>(area: &[u8; AREA], at: usize) -> [u8; N] {
    let mut part = [0; N];
    for (to, from) in part.iter_mut().zip(area.iter().skip(at)) {
        *to = *from;
    }
    part
}

/// Returns whether the checksum of an IPv4 header without options is correct: the one's complement
/// sum of its words is all ones.
fn sums_up(header: &[u8; 20]) -> bool {
    let mut sum = 0u32;
    for pair in header.chunks_exact(2) {
        if let [high, low] = pair {
            // OVERFLOW: ten 16-bit numbers.
            sum += u32::from(u16::from_be_bytes([*high, *low]));
        }
    }
    // OVERFLOW: the sum of ten words has at most 20 bits, and folding twice absorbs every carry.
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

/// Returns the type of the header, if there is one. If it looks like both, it is IPv4 if the
/// checksum is correct: random bytes pass that with a probability of 1 in 65536.
pub fn header(area: &[u8; AREA]) -> Option<Header> {
    let v4: [u8; 20] = part(area, V4_AT);
    if area[0] >> 4 != 6 {
        return (v4[0] >> 4 == 4).then_some(Header::Ipv4);
    }
    // RoCE uses no IPv4 options, so the header is five words long.
    if v4[0] & 0xf == 5 && sums_up(&v4) {
        Some(Header::Ipv4)
    } else {
        Some(Header::Ipv6)
    }
}

/// Returns whether the next header of an IPv6 header is UDP.
pub fn is_udp(area: &[u8; AREA]) -> bool {
    area[6] == UDP
}

/// Returns source and destination, given the type of the header.
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

/// Traffic class and flow label of an IPv6 header or GRH. With an IPv4 header the result is
/// undefined.
pub fn class_and_label(area: &[u8; AREA]) -> (u8, u32) {
    let word = u32::from_be_bytes(part(area, 0));
    // CAST: eight and twenty bits remain.
    ((word >> 20) as u8, word & 0x000f_ffff)
}

/// The IPv4 address of an IPv4-mapped GID.
fn ipv4_in(gid: &Gid) -> Option<[u8; 4]> {
    let [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] = gid.0 else {
        return None;
    };
    Some([a, b, c, d])
}

/// The Ethernet group address of a multicast GID (RFC 1112, 6.4; RFC 2464, 7); `None` for others.
pub fn group_mac(gid: &Gid) -> Option<[u8; 6]> {
    if let Some([first, b, c, d]) = ipv4_in(gid) {
        return (first >> 4 == 0xe).then_some([0x01, 0x00, 0x5e, b & 0x7f, c, d]);
    }
    let [0xff, .., a, b, c, d] = gid.0 else {
        return None;
    };
    Some([0x33, 0x33, a, b, c, d])
}

/// The Ethernet address from which a link-local GID was derived ([`Gid::link_local`] with a
/// `dev_id` of 0). RoCE version 1 uses it without address resolution.
pub fn mac_in(gid: &Gid) -> Option<[u8; 6]> {
    let [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, _, _, d, e, f] = gid.0 else {
        return None;
    };
    Some([a ^ 2, b, c, d, e, f])
}

/// The UDP source port of a path: a dynamic port, computed from the 20 bits of the flow label. IBTA
/// annex A17.4.3 leaves the choice to the sender; drivers agree on this one.
pub const fn source_port(flow_label: u32) -> u16 {
    let (low, high) = (flow_label & 0x3fff, (flow_label >> 14) & 0x3f);
    // CAST: 14 bits remain.
    (low ^ high) as u16 | 0xc000
}
