// SPDX-License-Identifier: GPL-2.0

//! Framing of the invariant CRC: which bytes it covers, and how they look to it.
//!
//! The ICRC is the CRC-32 of Ethernet over the packet from its network header to
//! the last pad byte, where each field that a router may change counts as ones.
//! The CRC itself is the caller's: a function `(crc, bytes) -> crc` that neither
//! presets nor inverts (`crc32_le` of the kernel).
//!
//! All masked fields lie in the first [`Framing::masked_len`] bytes. So a sender
//! either copies those to a [`Masked`] and feeds the rest from the packet, or
//! keeps its header template masked by [`Framing::mask`], feeds the packet in one
//! call, and puts the true values in afterwards. IP length, ident and fragment
//! bits are covered: nobody may rewrite them after the ICRC is made.
//!
//! Source: IBTA volume 1, 7.8.1 (ICRC); annexes A16 (RoCE) and A17
//! (RoCEv2). The C peer's form is `rxe_icrc.c`.

use super::headers::{Bth, Grh};
use super::opcode::{Opcode, Operation};

/// Length in bytes of the ICRC, which ends the packet.
pub const ICRC_LEN: usize = 4;

/// Length in bytes of the longest masked part.
pub const MAX_MASKED_LEN: usize = IPV6_LEN + UDP_LEN + Bth::LEN;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const LRH_LEN: usize = 8;

/// CRC state before any byte.
const PRESET: u32 = 0xffff_ffff;

/// CRC state after eight bytes of ones: the LRH, which counts as ones throughout
/// when a GRH or IP header follows, whether it is there (InfiniBand) or not.
const AFTER_MASKED_LRH: u32 = 0xdebb_20e3;

/// What precedes the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// RoCEv2 over IPv4: IP header of 20 bytes, UDP.
    Ipv4,
    /// RoCEv2 over IPv6: IP header without extensions, UDP.
    Ipv6,
    /// RoCE version 1, or a packet on an InfiniBand link that crosses routers
    /// (give it without its LRH): GRH.
    Grh,
    /// A packet within one InfiniBand subnet: LRH alone.
    Lrh,
}

impl Framing {
    /// Length in bytes of what precedes the BTH.
    #[inline]
    pub const fn outer_len(self) -> usize {
        match self {
            Self::Ipv4 => IPV4_LEN + UDP_LEN,
            Self::Ipv6 => IPV6_LEN + UDP_LEN,
            Self::Grh => Grh::LEN,
            Self::Lrh => LRH_LEN,
        }
    }

    /// Length in bytes of the part, BTH included, that has masked fields.
    #[inline]
    pub const fn masked_len(self) -> usize {
        // OVERFLOW: two small constants.
        self.outer_len().wrapping_add(Bth::LEN)
    }

    /// CRC state from which the masked part is to be fed.
    #[inline]
    pub const fn seed(self) -> u32 {
        match self {
            Self::Ipv4 | Self::Ipv6 | Self::Grh => AFTER_MASKED_LRH,
            Self::Lrh => PRESET,
        }
    }

    /// Sets the variable fields at the front of `packet` to ones, in place.
    ///
    /// `None`, with nothing changed, when `packet` is shorter than
    /// [`Framing::masked_len`] or does not begin with such a header (IPv4 options
    /// count as wrong, since RoCEv2 excludes them).
    #[inline]
    #[must_use = "a packet with a wrong header is left as it was"]
    pub fn mask(self, packet: &mut [u8]) -> Option<()> {
        // The fixed-size views let the compiler see that every index is in range.
        let (outer, rest) = packet.split_at_mut_checked(self.outer_len())?;
        let bth: &mut [u8; Bth::LEN] = rest.first_chunk_mut()?;
        match self {
            Self::Ipv4 => {
                let h: &mut [u8; IPV4_LEN + UDP_LEN] = outer.try_into().ok()?;
                if h[0] != 0x45 {
                    return None;
                }
                h[1] = 0xff; // type of service
                h[8] = 0xff; // time to live
                h[10..12].fill(0xff); // header checksum
                h[26..28].fill(0xff); // UDP checksum
            }
            Self::Ipv6 => {
                let h: &mut [u8; IPV6_LEN + UDP_LEN] = outer.try_into().ok()?;
                mask_ipv6(h.first_chunk_mut()?)?;
                h[46..48].fill(0xff); // UDP checksum
            }
            Self::Grh => mask_ipv6(outer.try_into().ok()?)?,
            Self::Lrh => {
                let h: &mut [u8; LRH_LEN] = outer.try_into().ok()?;
                h[0] |= 0xf0; // virtual lane
            }
        }
        bth[4] = 0xff; // FECN, BECN and reserved bits beside the queue pair number
        Some(())
    }
}

/// A GRH and an IPv6 header have one layout, and the same fields vary.
#[inline]
fn mask_ipv6(h: &mut [u8; IPV6_LEN]) -> Option<()> {
    if h[0] >> 4 != 6 {
        return None;
    }
    h[0] = 0x6f; // traffic class, upper half
    h[1..4].fill(0xff); // traffic class, lower half; flow label
    h[7] = 0xff; // hop limit
    Some(())
}

/// A copy of the front of a packet as the ICRC sees it.
#[derive(Clone, Copy, Debug)]
pub struct Masked {
    framing: Framing,
    bytes: [u8; MAX_MASKED_LEN],
}

impl Masked {
    /// Copies and masks the front of `packet`, which begins with the header that
    /// `framing` names. `None` on the same conditions as [`Framing::mask`].
    #[inline]
    pub fn new(framing: Framing, packet: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAX_MASKED_LEN];
        let front = bytes.get_mut(..framing.masked_len())?;
        front.copy_from_slice(packet.get(..framing.masked_len())?);
        framing.mask(front)?;
        Some(Self { framing, bytes })
    }

    /// CRC state after the masked part. What follows it in the packet, up to the
    /// last pad byte, is to be fed next; then [`finish`].
    #[inline]
    pub fn crc(&self, mut crc: impl FnMut(u32, &[u8]) -> u32) -> u32 {
        let front = self.bytes.get(..self.framing.masked_len());
        crc(self.framing.seed(), front.unwrap_or(&self.bytes))
    }
}

/// The ICRC field that belongs to a final CRC state, in wire order.
#[inline]
pub const fn finish(crc: u32) -> [u8; ICRC_LEN] {
    (!crc).to_le_bytes()
}

/// The ICRC field of a packet that lies in one piece, from the header that
/// `framing` names to the last pad byte (so without the ICRC field itself).
/// `None` on the same conditions as [`Framing::mask`].
#[inline]
pub fn icrc(
    framing: Framing,
    packet: &[u8],
    mut crc: impl FnMut(u32, &[u8]) -> u32,
) -> Option<[u8; ICRC_LEN]> {
    let state = Masked::new(framing, packet)?.crc(&mut crc);
    Some(finish(crc(state, packet.get(framing.masked_len()..)?)))
}

/// The ICRC that the C driver `rdma_rxe` gives a FLUSH: to it, a packet without payload in
/// its table has one that begins with the BTH, so that all headers from there on count a
/// second time, and nothing in them as ones. `packet` is as for [`icrc`]; `None` too if it
/// is no FLUSH.
///
/// A receiver may take a FLUSH that has it: such a packet carries no data and changes none.
pub fn icrc_of_c_flush(
    framing: Framing,
    packet: &[u8],
    mut crc: impl FnMut(u32, &[u8]) -> u32,
) -> Option<[u8; ICRC_LEN]> {
    let headers = packet.get(framing.outer_len()..)?;
    let opcode = Opcode::try_from(*headers.first()?).ok()?;
    if opcode.operation() != Operation::Flush || headers.len() != opcode.header_len() {
        return None;
    }
    let state = Masked::new(framing, packet)?.crc(&mut crc);
    let state = crc(state, packet.get(framing.masked_len()..)?);
    Some(finish(crc(state, headers)))
}
