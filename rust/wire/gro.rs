// SPDX-License-Identifier: GPL-2.0

//! Which packets that arrive one by one may go on as one buffer.
//!
//! A network card's driver hands the stack packet after packet. Those of one flow can be
//! chained, each left as it is, so that the stack is crossed once for all of them. What
//! is decided here is which: those that can be told apart again without loss, by us or by
//! whoever forwards the buffer after all, and behind which others may be expected soon.
//!
//! Taking apart works by the first packet: its IPv4 ident is counted up, or left alone if
//! the chain says so, and whoever asks for the longest packet asks the first one. All
//! else is each packet's own.
//!
//! Source: `Documentation/networking/segmentation-offloads.rst`, `include/net/gro.h`
//! (what must be the same), IBTA annex A17.9 (RoCEv2 header fields).

use super::opcode::{Opcode, Operation, Transport};

/// How many bytes behind the UDP header are looked at: those of the BTH.
pub const LOOK: usize = 12;
/// Most packets in a chain. With 1 KiB of payload each, one more would make the first
/// one's IP header speak of more than 64 KiB.
pub const MOST: u16 = 62;

/// Bytes of an IPv4 header without options, and of an IPv6 header.
const IP_LEN: [usize; 2] = [20, 40];
const UDP_LEN: usize = 8;
/// The two bits of a traffic class that are about congestion; both: it was met.
const CONGESTED: u8 = 3;
/// The bit of the BTH's ninth byte that asks for an acknowledgement.
const ACK_REQ: u8 = 0x80;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its bytes from the IP header to the end of the UDP header, wherever that is, and
    /// [`LOOK`] more. It is not a fragment.
    pub headers: &'a [u8],
    /// Bytes from the IP header to its end.
    pub len: usize,
}

/// Packets that have arrived before, between the same addresses and ports, and wait.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// IP and UDP headers of the first one.
    pub headers: &'a [u8],
    /// How many there are.
    pub count: u16,
    /// Bytes of all of them, with the IP and UDP headers of the first one only.
    pub len: usize,
    /// Whether they have one IPv4 ident, the same. Means nothing of a single one.
    pub same_ident: bool,
}

/// What is to become of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a packet has to go somewhere"]
pub enum Step {
    /// It goes on by itself, behind what waits.
    Alone,
    /// What waits goes on, and this one waits instead.
    Wait,
    /// It joins those that wait.
    Join {
        /// Whether they have one IPv4 ident, the same; otherwise it counts up.
        same_ident: bool,
        /// Whether all of them go on now.
        last: bool,
    },
}

/// What becomes of a packet when `chain` waits, or nothing.
///
/// Who asks for an answer, or is the end of one, keeps nobody waiting.
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

/// IP and UDP headers, and the BTH.
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

/// Whether a packet that may be in a chain is the end of it. `None` if it may not.
#[inline]
fn judge(outer: &[u8], bth: &[u8; LOOK], len: usize) -> Option<bool> {
    let (ip, udp) = outer.split_last_chunk::<UDP_LEN>()?;
    let class = match ip.len() {
        20 => *ip.get(1)?,
        _ => *ip.get(1)? >> 4,
    };
    // Marks are rare, and each is to be seen in its place.
    if class & CONGESTED == CONGESTED {
        return None;
    }
    let [_, _, _, _, len_high, len_low, sum_high, sum_low] = *udp;
    // A checksum would have to be made anew for the whole.
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
        // Nobody is asked for an answer.
        (Transport::Uc | Transport::Ud, _) | (_, Operation::ReadResponse) => {
            opcode.position().is_end()
        }
        (Transport::Rc | Transport::Xrc, _) => flags & ACK_REQ != 0,
    };
    Some(ends)
}

/// Whether there is one ident, the same, once a packet of `len` bytes has joined. `None` if
/// it may not.
#[inline]
fn join(outer: &[u8], len: usize, chain: &Chain<'_>) -> Option<bool> {
    let first = chain.headers.get(..outer.len())?;
    let ip_len = outer.len().checked_sub(UDP_LEN)?;
    // The length in the UDP header.
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
        // Version, class and flow label; protocol and hop limit.
        let same = first.get(..4)? == outer.get(..4)? && first.get(6..8)? == outer.get(6..8)?;
        return same.then_some(false);
    }
    // Version and class; flags, time to live and protocol.
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
