// SPDX-License-Identifier: GPL-2.0

//! A received packet.
//!
//! An [`RxPacket`] has passed every check that needs no queue pair: the headers match the opcode,
//! the lengths are consistent, the ICRC is correct. It owns its buffer and borrows nothing, so it
//! may be kept indefinitely, for instance in an [`RxQueue`](super::RxQueue). It is passed by value
//! and therefore small: addresses and extension headers, which are needed only once, are read from
//! the buffer on use.
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

/// Length of a UDP header in bytes.
pub(super) const UDP_LEN: usize = 8;

/// Metadata of a packet, kept in the buffer's control block (`cb`). One word, since packets are
/// passed by value: the lower half holds the VLAN ID plus one, or zero; the upper half [`V6`],
/// [`LOCAL`], [`MARKED`].
#[derive(
    Clone, Copy, zerocopy_derive::FromBytes, zerocopy_derive::IntoBytes, zerocopy_derive::Immutable,
)]
#[repr(transparent)]
pub(super) struct Meta(u32);

impl Meta {
    /// No metadata.
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

    /// Returns whether the packet arrived over IPv6.
    #[inline(always)]
    pub(super) const fn is_v6(self) -> bool {
        self.has(V6)
    }
}

/// The packet arrived over IPv6.
const V6: u32 = 1 << 16;
/// This device sent the packet.
const LOCAL: u32 = 1 << 17;
/// The packet carries a congestion mark.
const MARKED: u32 = 1 << 18;

/// Value of the service bits of an opcode for datagrams.
const DATAGRAM: u8 = 0x60;

/// A received packet. Its buffer's data pointer is at the BTH.
pub(crate) struct RxPacket {
    skb: Skb,
    start: Start,
    meta: Meta,
}

impl RxPacket {
    /// Checks a datagram. `before` bytes of headers precede the data pointer: the IP header, with
    /// or without the UDP header. Softirq.
    #[inline(always)]
    pub(super) fn check(
        mut skb: Skb,
        before: usize,
        mut meta: Meta,
    ) -> Result<Self, (Skb, DropReason)> {
        let v6 = meta.is_v6();
        // Some network cards store packets in page fragments. One copy linearizes the buffer; the
        // CRC needs the bytes in the cache anyway.
        if skb.is_nonlinear() && skb.linearize().is_err() {
            return Err((skb, DropReason::NoMemory));
        }
        let framing = icrc::framing(v6);
        let checked = match skb.from_network_header_at_mut(before) {
            Some(packet) => {
                meta.0 |= mark(packet, v6);
                // Variant header fields of connected packets are not needed any more.
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

    /// Returns whether the ICRC of a shared buffer is correct. Returns `None` if anything but its
    /// IP header precedes the UDP header.
    #[cold]
    fn check_shared(skb: &Skb, before: usize, meta: &mut Meta) -> Option<bool> {
        let v6 = meta.is_v6();
        let (packet, offset) = skb.from_network_header()?;
        meta.0 |= mark(packet, v6);
        (offset == before).then(|| icrc::verify(icrc::framing(v6), packet))
    }

    /// Converts a packet that `tx` built for this device. Its data start with the IP header.
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

    /// Clones the packet for another receiver. Does not sleep.
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

    /// Returns the metadata.
    #[inline]
    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    /// Returns the parsed start: the base transport header and the payload's length.
    #[inline]
    pub(crate) fn start(&self) -> &Start {
        &self.start
    }

    /// Converts the packet to its compact form.
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

    /// Returns the extension headers; `None` if they contain a reserved code.
    #[inline(always)]
    pub(crate) fn ext(&self) -> Option<Ext> {
        self.start.ext(self.skb.data()).ok()
    }

    /// Returns the stream that the packet belongs to.
    #[inline]
    pub(crate) fn stream(&self) -> Stream {
        Stream::of(&self.start)
    }

    /// Returns the payload without pad.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        self.skb
            .data()
            .get(self.start.payload_offset()..)
            .and_then(|rest| rest.get(..self.start.payload_len() as usize))
            .unwrap_or(&[])
    }

    /// Returns the sender's address and the local one (or that of a multicast group).
    #[inline]
    pub(crate) fn addrs(&self) -> Option<AddrPair> {
        addresses(self.ip_header()?, self.is_v6())
    }

    /// Returns whether these are the packet's addresses.
    #[inline]
    pub(crate) fn has_addrs(&self, addrs: &AddrPair) -> bool {
        self.ip_header().is_some_and(|ip| match addrs {
            AddrPair::V4 { src, dst } => {
                !self.is_v6()
                    && ip.get(12..16) == Some(&src.octets())
                    && ip.get(16..20) == Some(&dst.octets())
            }
            AddrPair::V6 { src, dst } => {
                self.is_v6()
                    && ip.get(8..24) == Some(&src.octets())
                    && ip.get(24..40) == Some(&dst.octets())
            }
        })
    }

    /// Returns whether the packet's addresses are those of `to` with source and destination
    /// exchanged.
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

    /// Returns the IP header: only it and the UDP header precede the data pointer.
    #[inline]
    fn ip_header(&self) -> Option<&[u8]> {
        self.skb.before_data(icrc::outer_len(self.is_v6()))
    }

    /// Returns whether the packet arrived over IPv6.
    #[inline]
    pub(crate) fn is_v6(&self) -> bool {
        self.meta.is_v6()
    }

    /// Returns whether this device sent the packet.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.meta.has(LOCAL)
    }

    /// Returns whether the packet carries a congestion mark (RFC 3168).
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.meta.has(MARKED)
    }

    /// Returns the VLAN ID of the packet.
    #[inline]
    pub(crate) fn vlan(&self) -> Option<u16> {
        // CAST: truncates to the lower half, which holds the VLAN.
        (self.meta.0 as u16).checked_sub(1)
    }

    /// Returns the bytes from the IP header to the ICRC.
    #[inline]
    pub(crate) fn wire_len(&self) -> usize {
        icrc::outer_len(self.is_v6()).saturating_add(self.skb.len())
    }

    /// Returns the network header as a datagram's receiver sees it, in the 40 bytes of a GRH: an
    /// IPv6 header, or 20 zeros and an IPv4 header (IBTA A17.4.5.1).
    pub(crate) fn grh(&self) -> [u8; 40] {
        self.ip_header().map_or([0; 40], grh_of)
    }
}

/// A received packet in its compact form, for queueing.
pub(crate) struct KeptPacket(pub(super) Skb);

impl KeptPacket {
    /// Returns the memory that its buffer takes, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.0.memory()
    }

    /// Converts it back to a packet.
    #[inline]
    pub(crate) fn unkeep(self) -> Option<RxPacket> {
        let meta: Meta = self.0.cb();
        // The packet has not changed since it was parsed, so parsing succeeds again.
        RxPacket::parse(self.0, meta).ok()
    }
}

/// Returns whether a packet with a wrong ICRC is a FLUSH of the C driver.
#[cold]
fn is_flush_of_c(framing: Framing, skb: &Skb) -> bool {
    skb.from_network_header()
        .is_some_and(|(packet, _)| icrc::is_flush_of_c(framing, packet))
}

/// Returns [`MARKED`] if an IP header reports congestion (RFC 3168, section 5).
#[inline]
fn mark(ip: &[u8], v6: bool) -> u32 {
    match ip.get(1) {
        Some(byte) if !v6 && byte & 0x03 == 0x03 => MARKED,
        Some(byte) if v6 && byte & 0x30 == 0x30 => MARKED,
        Some(_) | None => 0,
    }
}

/// Returns the 40 bytes of a GRH for the IP and UDP headers of a packet.
#[inline]
pub(in crate::net) fn grh_of(outer: &[u8]) -> [u8; 40] {
    if let Some(ip) = outer.first_chunk() {
        return *ip;
    }
    let mut grh = [0; 40];
    if let (Some(space), Some(ip)) = (grh.last_chunk_mut::<20>(), outer.first_chunk()) {
        *space = *ip;
    }
    grh
}

/// Returns the addresses of an IP header.
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
