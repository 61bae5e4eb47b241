// SPDX-License-Identifier: GPL-2.0

//! Generic receive offload (GRO): which received packets are chained into one buffer.
//!
//! The driver of a network card passes packets to the stack one by one. Packets of one flow can be
//! chained, each unchanged, so that they pass through the stack once. This file decides which:
//! those that can be segmented again without loss, by the receiver or when the buffer is forwarded,
//! and that are likely to be followed by others soon.
//!
//! Segmentation follows the first packet: IPv4 IDs count up from it, or are left alone if the chain
//! says so, and the maximum packet size is that of the first one. Everything else is taken from
//! each packet.
//!
//! Source: `Documentation/networking/segmentation-offloads.rst`, `include/net/gro.h` (fields that
//! must be equal), IBTA annex A17.9 (RoCEv2 header fields).

use super::opcode::{Opcode, Operation, Transport};

/// Number of bytes examined behind the UDP header: those of the BTH.
pub const LOOK: usize = 12;
/// Maximum number of packets in a chain. With 1 KiB of payload each, one more would make the length
/// in the first IP header exceed 64 KiB.
pub const MOST: u16 = 62;

/// Lengths of an IPv4 header without options, and of an IPv6 header.
const IP_LEN: [usize; 2] = [20, 40];
const UDP_LEN: usize = 8;
/// The two ECN bits of a traffic class; both set: congestion experienced.
const CONGESTED: u8 = 3;
/// The AckReq bit, in the ninth byte of the BTH.
const ACK_REQ: u8 = 0x80;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its bytes from the IP header to the end of the UDP header, and [`LOOK`] more. It is not a
    /// fragment.
    pub headers: &'a [u8],
    /// Length in bytes, from the IP header.
    pub len: usize,
}

/// Waiting packets, which were received before, between the same addresses and ports.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// IP and UDP headers of the first packet.
    pub headers: &'a [u8],
    /// Number of packets.
    pub count: u16,
    /// Length of all packets in bytes, with the IP and UDP headers of the first one only.
    pub len: usize,
    /// Whether all packets have the same IPv4 ID. Undefined for a single packet.
    pub same_ident: bool,
}

/// What is done with a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a packet has to go somewhere"]
pub enum Step {
    /// The waiting packets are passed on, then this one.
    Alone,
    /// The waiting packets are passed on, and this one waits.
    Wait,
    /// The packet joins the waiting ones.
    Join {
        /// Whether all packets have the same IPv4 ID; otherwise it counts up.
        same_ident: bool,
        /// Whether the chain is passed on now.
        last: bool,
    },
}

/// Decides about a packet, while `chain` waits, or nothing.
///
/// A packet that requests a response, or ends one, is not delayed.
#[inline]
pub fn step(new: &Arrival<'_>, chain: Option<&Chain<'_>>) -> Step {
    let Some((outer, bth)) = split(new.headers) else {
        return Step::Alone;
    };
    let Some(ends) = judge(outer, bth, new.len) else {
        return Step::Alone;
    };
    let joined = chain.and_then(|chain| join(outer, new.len, chain).map(|same| (chain, same)));
    match joined {
        Some((chain, same_ident)) => Step::Join {
            same_ident,
            last: ends || chain.count.saturating_add(1) >= MOST,
        },
        None if ends => Step::Alone,
        None => Step::Wait,
    }
}

/// Splits off IP and UDP headers, and the BTH.
#[inline]
fn split(headers: &[u8]) -> Option<(&[u8], &[u8; LOOK])> {
    let ip_len = match headers.first()? {
        0x45 => IP_LEN[0],
        version if version >> 4 == 6 => IP_LEN[1],
        _ => return None,
    };
    let (outer, rest) = headers.split_at_checked(ip_len.checked_add(UDP_LEN)?)?;
    Some((outer, rest.try_into().ok()?))
}

/// Returns whether a packet that may be chained ends the chain. `None` if it must not be chained.
#[inline]
fn judge(outer: &[u8], bth: &[u8; LOOK], len: usize) -> Option<bool> {
    let (ip, udp) = outer.split_last_chunk::<UDP_LEN>()?;
    let class = match ip.len() {
        20 => *ip.get(1)?,
        _ => *ip.get(1)? >> 4,
    };
    // Congestion marks are rare, and must be seen for each packet.
    if class & CONGESTED == CONGESTED {
        return None;
    }
    let [_, _, _, _, len_high, len_low, sum_high, sum_low] = *udp;
    // A checksum would have to be recomputed for the chain.
    if [sum_high, sum_low] != [0, 0] {
        return None;
    }
    if usize::from(u16::from_be_bytes([len_high, len_low])).checked_add(ip.len()) != Some(len) {
        return None;
    }
    let [opcode, _, _, _, _, _, _, _, flags, ..] = *bth;
    let opcode = Opcode::try_from(opcode).ok()?;
    let ends = match (opcode.transport(), opcode.operation()) {
        (Transport::Cnp, _) | (_, Operation::Acknowledge | Operation::AtomicAcknowledge) => true,
        // No response is requested.
        (Transport::Uc | Transport::Ud, _) | (_, Operation::ReadResponse) => {
            opcode.position().is_end()
        }
        (Transport::Rc | Transport::Xrc, _) => flags & ACK_REQ != 0,
    };
    Some(ends)
}

/// Returns whether all packets have the same IPv4 ID after a packet of `len` bytes has joined.
/// `None` if it must not join.
#[inline]
fn join(outer: &[u8], len: usize, chain: &Chain<'_>) -> Option<bool> {
    let first = chain.headers.get(..outer.len())?;
    let ip_len = outer.len().checked_sub(UDP_LEN)?;
    // Length in the UDP header.
    let longest = first.get(ip_len..)?.get(4..)?.first_chunk()?;
    let longest = usize::from(u16::from_be_bytes(*longest));
    let all = chain.len.checked_add(len)?.checked_sub(outer.len())?;
    if len > longest.checked_add(ip_len)?
        || all > usize::from(u16::MAX)
        || chain.count == 0
        || chain.count >= MOST
    {
        return None;
    }
    if ip_len == IP_LEN[1] {
        // Version, traffic class and flow label; protocol and hop limit.
        let same = first.get(..4)? == outer.get(..4)? && first.get(6..8)? == outer.get(6..8)?;
        return same.then_some(false);
    }
    // Version and type of service; flags, time to live and protocol.
    if first.get(..2)? != outer.get(..2)? || first.get(6..10)? != outer.get(6..10)? {
        return None;
    }
    let ident = |ip: &[u8]| Some(u16::from_be_bytes(*ip.get(4..6)?.first_chunk()?));
    let ahead = ident(outer)?.wrapping_sub(ident(first)?);
    if ahead == 0 && (chain.count == 1 || chain.same_ident) {
        Some(true)
    } else {
        (ahead == chain.count && (chain.count == 1 || !chain.same_ident)).then_some(false)
    }
}
