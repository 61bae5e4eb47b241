// SPDX-License-Identifier: GPL-2.0

//! A received packet.
//!
//! An [`RxPacket`] has passed every check that needs no queue pair: the headers match the
//! opcode, the lengths agree, the ICRC is right. It owns its buffer and borrows nothing, so it
//! may be kept for any time, for instance in an [`RxQueue`](super::RxQueue). It is passed by
//! value, so it is small: what is needed only once, addresses and extension headers, is read
//! from the buffer on use.
//!
//! Source: IBTA 9.6 (packet header validation), annex A17.9.

use super::run::Stream;
use super::DropReason;
use crate::net::icrc;
use crate::net::tx::TRANSPORT_MASK;
use kernel::prelude::*;
use rdma::net::AddrPair;
use rdma::net::Skb;
use rdma::wire;
use rdma::wire::icrc::Framing;
use rdma::wire::Ext;
use rdma::wire::Start;

/// Bytes in a UDP header.
pub(super) const UDP_LEN: usize = 8;

/// Metadata of a packet, kept in the buffer's scratch space. One word, since packets are passed
/// by value: in the lower half the VLAN's number plus one, or zero; in the
/// upper half [`V6`], [`LOCAL`], [`MARKED`].
#[derive(
    Clone, Copy, zerocopy_derive::FromBytes, zerocopy_derive::IntoBytes, zerocopy_derive::Immutable,
)]
#[repr(transparent)]
pub(super) struct Meta(u32);

impl Meta {
    /// Nothing is known.
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) fn new(v6: bool, vlan: Option<u16>) -> Self {
        let vlan = vlan.map_or(0, |id| id.wrapping_add(1));
        Self(u32::from(vlan) | if v6 { V6 } else { 0 })
    }

    #[inline(always)]
    const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Whether it came over IPv6.
    #[inline(always)]
    pub(super) const fn is_v6(self) -> bool {
        self.has(V6)
    }
}

/// It came over IPv6.
const V6: u32 = 1 << 16;
/// This device sent it.
const LOCAL: u32 = 1 << 17;
/// It met congestion on its way.
const MARKED: u32 = 1 << 18;

/// What the bits of an opcode that tell the service are of a datagram.
const DATAGRAM: u8 = 0x60;

/// A received packet. Its buffer's data pointer is at the BTH.
pub(crate) struct RxPacket {
    skb: Skb,
    start: Start,
    meta: Meta,
}

impl RxPacket {
    /// Checks a datagram whose headers are known to lie in front of the data pointer as
    /// `before` says: the IP header, and the UDP header or not. Softirq.
    #[inline(always)]
    pub(super) fn check(
        mut skb: Skb,
        before: usize,
        mut meta: Meta,
    ) -> Result<Self, (Skb, DropReason)> {
        let v6 = meta.is_v6();
        // Buffers with page fragments come from network cards that store packets so. One
        // copy, while the CRC wants the bytes in the cache anyway, makes them like others.
        if skb.is_nonlinear() && skb.linearize().is_err() {
            return Err((skb, DropReason::NoMemory));
        }
        let framing = icrc::framing(v6);
        let checked = match skb.from_network_header_at_mut(before) {
            Some(packet) => {
                meta.0 |= mark(packet, v6);
                // Of connected packets nobody asks for what routers may change.
                match packet.get(icrc::outer_len(v6)) {
                    Some(opcode) if opcode & TRANSPORT_MASK != DATAGRAM => {
                        Some(icrc::verify_masking(framing, packet))
                    }
                    Some(_) | None => Some(icrc::verify_in_place(framing, packet)),
                }
            }
            None => Self::check_shared(&skb, before, &mut meta),
        };
        match checked {
            Some(true) => {}
            Some(false) if is_flush_of_c(framing, &skb) => {}
            Some(false) => return Err((skb, DropReason::Icrc)),
            None => return Err((skb, DropReason::IpHeader)),
        }
        let udp = icrc::outer_len(v6).saturating_sub(before);
        if udp != 0 && skb.pull(udp).is_none() {
            return Err((skb, DropReason::Header(wire::DropReason::TooShort)));
        }
        Self::parse(skb, meta)
    }

    /// Whether the ICRC is right of a packet that others see too. `None` if something else than
    /// its IP header precedes the UDP header.
    #[cold]
    fn check_shared(skb: &Skb, before: usize, meta: &mut Meta) -> Option<bool> {
        let v6 = meta.is_v6();
        let (packet, offset) = skb.from_network_header()?;
        meta.0 |= mark(packet, v6);
        (offset == before).then(|| icrc::verify(icrc::framing(v6), packet))
    }

    /// A packet that `tx` made for this device. Its data begin with the IP header.
    pub(in crate::net) fn from_local(
        mut skb: Skb,
        v6: bool,
        vlan: Option<u16>,
    ) -> Result<Self, (Skb, DropReason)> {
        let meta = Meta(Meta::new(v6, vlan).0 | LOCAL);
        if skb.pull(icrc::outer_len(v6)).is_none() {
            return Err((skb, DropReason::Header(wire::DropReason::TooShort)));
        }
        Self::parse(skb, meta)
    }

    #[inline(always)]
    fn parse(skb: Skb, meta: Meta) -> Result<Self, (Skb, DropReason)> {
        let datagram = skb.data();
        match Start::parse(datagram, datagram.len()) {
            Ok(start) => Ok(Self { skb, start, meta }),
            Err(reason) => Err((skb, DropReason::Header(reason))),
        }
    }

    /// The same packet for one more receiver. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn try_clone(&mut self) -> Result<Self> {
        Ok(Self {
            skb: self.skb.try_clone()?,
            start: self.start,
            meta: self.meta,
        })
    }

    /// The metadata.
    #[inline]
    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    /// The base transport header, and the payload's length.
    #[inline]
    pub(crate) fn start(&self) -> &Start {
        &self.start
    }

    /// The same packet, to be looked at later.
    #[inline]
    pub(crate) fn keep(self) -> KeptPacket {
        let Self {
            mut skb,
            start: _,
            meta,
        } = self;
        skb.set_cb(meta);
        KeptPacket(skb)
    }

    /// The extension headers; `None` if they have a code that is reserved.
    #[inline(always)]
    pub(crate) fn ext(&self) -> Option<Ext> {
        self.start.ext(self.skb.data()).ok()
    }

    /// Which stream of packets it belongs to.
    #[inline]
    pub(crate) fn stream(&self) -> Stream {
        Stream::of(&self.start)
    }

    /// The payload, without pad.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        self.skb
            .data()
            .get(self.start.payload_offset()..)
            .and_then(|rest| rest.get(..self.start.payload_len() as usize))
            .unwrap_or(&[])
    }

    /// The sender's address and ours (or that of a multicast group).
    #[inline]
    pub(crate) fn addrs(&self) -> Option<AddrPair> {
        addresses(self.ip_header()?, self.is_v6())
    }

    /// Whether it is from and to where the answers to packets of `to` come from and go to.
    #[inline]
    pub(crate) fn is_answer_to(&self, to: &AddrPair) -> bool {
        self.ip_header().is_some_and(|ip| match to {
            AddrPair::V4 { src, dst } => {
                !self.is_v6()
                    && ip.get(12..16) == Some(&dst.octets())
                    && ip.get(16..20) == Some(&src.octets())
            }
            AddrPair::V6 { src, dst } => {
                self.is_v6()
                    && ip.get(8..24) == Some(&dst.octets())
                    && ip.get(24..40) == Some(&src.octets())
            }
        })
    }

    /// The IP header: nothing but it and the UDP header precedes the data pointer.
    #[inline]
    fn ip_header(&self) -> Option<&[u8]> {
        self.skb.before_data(icrc::outer_len(self.is_v6()))
    }

    /// Whether it came over IPv6.
    #[inline]
    pub(crate) fn is_v6(&self) -> bool {
        self.meta.is_v6()
    }

    /// Whether this device sent it.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.meta.has(LOCAL)
    }

    /// Whether it met congestion on its way (RFC 3168).
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.meta.has(MARKED)
    }

    /// The VLAN it came over.
    #[inline]
    pub(crate) fn vlan(&self) -> Option<u16> {
        // CAST: the lower half.
        (self.meta.0 as u16).checked_sub(1)
    }

    /// Bytes from the IP header to the ICRC.
    #[inline]
    pub(crate) fn wire_len(&self) -> usize {
        icrc::outer_len(self.is_v6()).saturating_add(self.skb.len())
    }

    /// The network header as a datagram's receiver sees it, in the 40 bytes of a GRH:
    /// an IPv6 header, or 20 zeros and an IPv4 header (IBTA A17.4.5.1).
    pub(crate) fn grh(&self) -> [u8; 40] {
        let mut grh = [0; 40];
        let from = if self.is_v6() { 0 } else { 20 };
        if let (Some(space), Some(ip)) = (grh.get_mut(from..), self.ip_header()) {
            for (to, byte) in space.iter_mut().zip(ip) {
                *to = *byte;
            }
        }
        grh
    }
}

/// A received packet that waits, in as little room as there can be.
pub(crate) struct KeptPacket(pub(super) Skb);

impl KeptPacket {
    /// Bytes of memory that its buffer takes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.0.memory()
    }

    /// The packet as it was.
    #[inline]
    pub(crate) fn unkeep(self) -> Option<RxPacket> {
        let meta: Meta = self.0.cb();
        // Nothing has changed since the packet was parsed, so this succeeds again.
        RxPacket::parse(self.0, meta).ok()
    }
}

/// Whether a packet whose ICRC is wrong is a FLUSH of the C driver's all the same.
#[cold]
fn is_flush_of_c(framing: Framing, skb: &Skb) -> bool {
    skb.from_network_header()
        .is_some_and(|(packet, _)| icrc::is_flush_of_c(framing, packet))
}

/// [`MARKED`], if an IP header says that congestion was experienced (RFC 3168, section 5).
#[inline]
fn mark(ip: &[u8], v6: bool) -> u32 {
    match ip.get(1) {
        Some(byte) if !v6 && byte & 0x03 == 0x03 => MARKED,
        Some(byte) if v6 && byte & 0x30 == 0x30 => MARKED,
        Some(_) | None => 0,
    }
}

/// The addresses in an IP header.
#[inline]
fn addresses(ip: &[u8], v6: bool) -> Option<AddrPair> {
    if v6 {
        let src: &[u8; 16] = ip.get(8..)?.first_chunk()?;
        let dst: &[u8; 16] = ip.get(24..)?.first_chunk()?;
        Some(AddrPair::V6 {
            src: From::from(*src),
            dst: From::from(*dst),
        })
    } else {
        let src: &[u8; 4] = ip.get(12..)?.first_chunk()?;
        let dst: &[u8; 4] = ip.get(16..)?.first_chunk()?;
        Some(AddrPair::V4 {
            src: From::from(*src),
            dst: From::from(*dst),
        })
    }
}

const _: () = assert!(Framing::Ipv4.outer_len() == 20 + UDP_LEN);
