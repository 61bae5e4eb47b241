// SPDX-License-Identifier: GPL-2.0

//! IP and UDP headers of RoCEv2 packets to be sent.
//!
//! They are first written as the ICRC covers them, with ones in all fields that routers may change,
//! and by words, because every packet has them. After the ICRC was computed, a [`Variable`] sets
//! the actual values. The sender computes the checksum of the IPv4 header; UDP has none.
//!
//! Source: RFC 791, 768, 8200; IBTA annex A17.

use super::ROCE_V2_UDP_PORT;

/// Length in bytes of an IPv4 and a UDP header.
const V4_LEN: usize = 28;
/// Length in bytes of an IPv6 and a UDP header.
const V6_LEN: usize = 48;
const PROTOCOL_UDP: u8 = 17;
/// The "don't fragment" bit.
const DONT_FRAGMENT: u16 = 0x4000;

/// Writes the headers of an IPv4 packet of `total` bytes. `None` if it is shorter than its headers.
#[inline]
pub fn write_ipv4(
    outer: &mut [u8; V4_LEN],
    (src, dst): ([u8; 4], [u8; 4]),
    src_port: u16,
    total: u16,
    ident: u16,
) -> Option<()> {
    let udp_len = total.checked_sub(20)?;
    // Version, class, length, ident, fragments.
    let first =
        0x45ff << 48 | u64::from(total) << 32 | u64::from(ident) << 16 | u64::from(DONT_FRAGMENT);
    outer[0..8].copy_from_slice(&first.to_be_bytes());
    // Time to live, protocol, checksum.
    let second = 0xff << 24 | u32::from(PROTOCOL_UDP) << 16 | 0xffff;
    outer[8..12].copy_from_slice(&second.to_be_bytes());
    outer[12..16].copy_from_slice(&src);
    outer[16..20].copy_from_slice(&dst);
    outer[20..28].copy_from_slice(&udp(src_port, udp_len));
    Some(())
}

/// Writes the headers of an IPv6 packet of `total` bytes. `None` if it is shorter than its headers.
#[inline]
pub fn write_ipv6(
    outer: &mut [u8; V6_LEN],
    (src, dst): ([u8; 16], [u8; 16]),
    src_port: u16,
    total: u16,
) -> Option<()> {
    let udp_len = total.checked_sub(40)?;
    // Version, class, flow label; length, protocol, hop limit.
    let first = 0x6fff_ffff << 32 | u64::from(udp_len) << 16 | u64::from(PROTOCOL_UDP) << 8 | 0xff;
    outer[0..8].copy_from_slice(&first.to_be_bytes());
    outer[8..24].copy_from_slice(&src);
    outer[24..40].copy_from_slice(&dst);
    outer[40..48].copy_from_slice(&udp(src_port, udp_len));
    Some(())
}

#[inline]
fn udp(src_port: u16, len: u16) -> [u8; 8] {
    // Ports, length, checksum.
    let words = u64::from(src_port) << 48
        | u64::from(ROCE_V2_UDP_PORT) << 32
        | u64::from(len) << 16
        | 0xffff;
    words.to_be_bytes()
}

/// Fields that routers may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Traffic class, or type of service.
    pub class: u8,
    /// Flow label of 20 bits; only for IPv6.
    pub flow_label: u32,
    /// Hop limit, or time to live.
    pub hop_limit: u8,
}

impl Variable {
    /// Sets the fields of an IPv4 header.
    #[inline]
    pub fn put_ipv4(self, outer: &mut [u8; V4_LEN]) {
        outer[1] = self.class;
        outer[8] = self.hop_limit;
        outer[10..12].fill(0);
        outer[26..28].fill(0);
    }

    /// Sets the fields of an IPv6 header.
    #[inline]
    pub fn put_ipv6(self, outer: &mut [u8; V6_LEN]) {
        let first = 6 << 28 | u32::from(self.class) << 20 | self.flow_label;
        outer[0..4].copy_from_slice(&first.to_be_bytes());
        outer[7] = self.hop_limit;
        outer[46..48].fill(0);
    }
}
