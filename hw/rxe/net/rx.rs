// SPDX-License-Identifier: GPL-2.0

//! Received packets.
//!
//! An [`RxPacket`] has passed every check that needs no queue pair: the headers
//! are those of its opcode, lengths agree, the ICRC is right. It owns its buffer
//! and needs nothing else, so it may be kept as long as one likes, for instance in
//! an [`RxQueue`]. It is handed on by value, so it is small: what is wanted once only,
//! addresses and extension headers, is read from the buffer when it is wanted.
//!
//! Source: IBTA 9.6 (packet header validation), annex A17.9.

use kernel::prelude::*;
use kernel::sync::rcu;

use rdma::net::skb::SkbBatch;
use rdma::net::skb::PROTOCOL_IPV4;
use rdma::net::skb::PROTOCOL_IPV6;
use rdma::net::AddrPair;
use rdma::net::NetDevice;
use rdma::net::NetdevEvent;
use rdma::net::Skb;
use rdma::net::SkbList;
use rdma::net::SkbQueue;
use rdma::wire;
use rdma::wire::icrc::Framing;
use rdma::wire::Ext;
use rdma::wire::Start;

use super::icrc;
use super::tx::TRANSPORT_MASK;
use crate::proto::Nanos;

/// Bytes in a UDP header.
const UDP_LEN: usize = 8;

/// What a device does with what comes from the network.
pub(crate) trait RxSink: Send + Sync + 'static {
    /// Packets have arrived, at least one. Softirq, inside an RCU read-side section.
    fn receive(&self, run: &mut RxRun<'_>);

    /// A packet for this device was dropped. Softirq.
    fn dropped(&self, reason: DropReason);

    /// Something happened to the device's network device. After
    /// [`NetdevEvent::Unregister`] no more packets come. Process context, may sleep;
    /// RTNL is held.
    fn link_event(&self, event: NetdevEvent, ndev: &NetDevice);
}

/// Why a received packet is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DropReason {
    /// There was no memory to bring it into one piece.
    NoMemory,
    /// It has IP options or extension headers, which RoCEv2 excludes.
    IpHeader,
    /// Its transport headers are wrong.
    Header(wire::DropReason),
    /// Its ICRC is wrong.
    Icrc,
}

/// What is known of a packet beside its bytes; kept in the buffer's scratch space. One word,
/// since packets are handed on: in the lower half the VLAN's number plus one, or zero; in the
/// upper half [`V6`], [`LOCAL`], [`MARKED`].
#[derive(
    Clone, Copy, zerocopy_derive::FromBytes, zerocopy_derive::IntoBytes, zerocopy_derive::Immutable,
)]
#[repr(transparent)]
struct Meta(u32);

impl Meta {
    #[inline]
    fn new(v6: bool, vlan: Option<u16>) -> Self {
        let vlan = vlan.map_or(0, |id| id.wrapping_add(1));
        Self(u32::from(vlan) | if v6 { V6 } else { 0 })
    }

    #[inline(always)]
    const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
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
    fn check(mut skb: Skb, before: usize, mut meta: Meta) -> Result<Self, (Skb, DropReason)> {
        let v6 = meta.has(V6);
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
        let v6 = meta.has(V6);
        let (packet, offset) = skb.from_network_header()?;
        meta.0 |= mark(packet, v6);
        (offset == before).then(|| icrc::verify(icrc::framing(v6), packet))
    }

    /// A packet that `tx` made for this device. Its data begin with the IP header.
    pub(super) fn from_local(
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
    pub(crate) fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            skb: self.skb.try_clone()?,
            start: self.start,
            meta: self.meta,
        })
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
        self.meta.has(V6)
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
pub(crate) struct KeptPacket(Skb);

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

/// Packets that arrived together, oldest first, each checked when its turn comes. What
/// is no packet is left out, and the sink is told.
pub(crate) struct RxRun<'a> {
    /// Checked, and looked at already.
    next: Option<RxPacket>,
    /// The buffer that came from the stack, and those that were in it.
    first: Option<Skb>,
    rest: SkbList,
    meta: Meta,
    dropped: Option<&'a dyn Fn(DropReason)>,
    packets: u32,
    bytes: u64,
    /// The time, and how many packets were taken when it was read.
    clock: Option<(Nanos, u32)>,
}

/// Packets of a run that may go by until the clock is read again.
const CLOCK_PACKETS: u32 = 2;

/// What packets have in common that one turn of a queue pair may take from a run: from the
/// lowest bits on its number, the partition key, the service and direction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream(u64);

impl Stream {
    #[inline(always)]
    fn of(start: &Start) -> Self {
        let class = start.opcode().class();
        Self(u64::from(start.dest_qpn()) | u64::from(start.pkey()) << 32 | u64::from(class) << 48)
    }

    /// Whether they are requests, for the receive half.
    #[inline]
    pub(crate) fn is_request(self) -> bool {
        self.0 & 1 << 48 != 0
    }
}

impl<'a> RxRun<'a> {
    /// A run of one packet.
    #[inline]
    pub(crate) fn one(packet: RxPacket) -> Self {
        Self {
            meta: packet.meta,
            next: Some(packet),
            first: None,
            rest: SkbList::empty(),
            dropped: None,
            packets: 0,
            bytes: 0,
            clock: None,
        }
    }

    /// A run to be loaded; `dropped` hears of what is no packet.
    #[inline]
    pub(super) fn new(dropped: &'a dyn Fn(DropReason)) -> Self {
        Self {
            next: None,
            first: None,
            rest: SkbList::empty(),
            meta: Meta(0),
            dropped: Some(dropped),
            packets: 0,
            bytes: 0,
            clock: None,
        }
    }

    /// Loads the packets in a datagram, or a train of them, that a tunnel socket handed to
    /// us. (A run is large, so it stays where it is.) Softirq.
    ///
    /// # Errors
    ///
    /// Hands the buffer back, with the reason, if there cannot be a packet in it.
    #[inline]
    pub(super) fn load(
        &mut self,
        mut skb: Skb,
        ndev: &NetDevice,
        _rcu: &rcu::Guard,
    ) -> Result<(), (Skb, DropReason)> {
        let v6 = match skb.protocol() {
            PROTOCOL_IPV4 => false,
            PROTOCOL_IPV6 => true,
            _ => return Err((skb, DropReason::IpHeader)),
        };
        self.meta = Meta::new(v6, ndev.vlan().map(|(_, id)| id));
        self.rest = match SkbList::of(&mut skb) {
            Ok(rest) => rest,
            Err(_) => return Err((skb, DropReason::NoMemory)),
        };
        // The buffer may be kept longer than what the stack lent to it.
        skb.detach();
        if !self.rest.is_empty() {
            restore_lengths(&mut skb, v6);
        }
        self.first = Some(skb);
        Ok(())
    }

    /// The next packet, without taking it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<&RxPacket> {
        if self.next.is_none() {
            self.next = self.fetch();
        }
        self.next.as_ref()
    }

    /// Takes the next packet.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<RxPacket> {
        let packet = match self.next.take() {
            Some(packet) => packet,
            None => self.fetch()?,
        };
        self.count(&packet);
        Some(packet)
    }

    /// Takes the packet that [`Self::peek`] has shown; `None` if there was none.
    #[inline(always)]
    pub(crate) fn take_peeked(&mut self) -> Option<RxPacket> {
        let packet = self.next.take()?;
        self.count(&packet);
        Some(packet)
    }

    /// Takes the next packet if it belongs to `stream`.
    #[inline(always)]
    pub(crate) fn take_of(&mut self, stream: Stream) -> Option<RxPacket> {
        // A packet is large, so it is put down only if it must wait.
        let packet = match self.next.take() {
            Some(packet) => packet,
            None => self.fetch()?,
        };
        if packet.stream() != stream {
            self.next = Some(packet);
            return None;
        }
        self.count(&packet);
        Some(packet)
    }

    /// Checks the next of the rest that is a packet.
    #[inline(always)]
    fn fetch(&mut self) -> Option<RxPacket> {
        loop {
            let outer = icrc::outer_len(self.meta.has(V6));
            let (skb, before) = match self.first.take() {
                // The stack leaves the data pointer at the UDP header.
                Some(skb) => (skb, outer - UDP_LEN),
                None => (self.rest.next()?, outer),
            };
            match RxPacket::check(skb, before, self.meta) {
                Ok(packet) => return Some(packet),
                Err((skb, reason)) => {
                    if let Some(dropped) = self.dropped {
                        dropped(reason);
                    }
                    skb.discard();
                }
            }
        }
    }

    /// The time: now, or that of the turn before if that was short.
    #[inline]
    pub(crate) fn now(&mut self) -> Nanos {
        match self.clock {
            Some((at, packets)) if self.packets.wrapping_sub(packets) <= CLOCK_PACKETS => at,
            Some(_) | None => {
                let at = Nanos(rdma::timer::monotonic_nanos());
                self.clock = Some((at, self.packets));
                at
            }
        }
    }

    #[inline]
    fn count(&mut self, packet: &RxPacket) {
        let bytes = u64::try_from(packet.wire_len()).unwrap_or(0);
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// How many packets were taken, and the bytes from their IP headers to the ICRCs.
    #[inline]
    pub(crate) fn taken(&self) -> (u32, u64) {
        (self.packets, self.bytes)
    }
}

/// Whether a packet whose ICRC is wrong is a FLUSH of the C driver's all the same.
#[cold]
fn is_flush_of_c(framing: Framing, skb: &Skb) -> bool {
    skb.from_network_header()
        .is_some_and(|(packet, _)| icrc::is_flush_of_c(framing, packet))
}

/// Puts right the lengths in the headers of a train's first packet, which speak of the
/// whole train. Its data pointer is at the UDP header. If others see the buffer, which
/// does not happen to what was just taken apart, they stay, and the ICRC will be wrong.
fn restore_lengths(skb: &mut Skb, v6: bool) {
    let rest = skb.len();
    let Some((packet, before)) = skb.from_network_header_mut() else {
        return;
    };
    let Ok(len) = u16::try_from(before.saturating_add(rest)) else {
        return;
    };
    let udp = icrc::outer_len(v6) - UDP_LEN;
    let (at, ip_len) = if v6 {
        (4, len.saturating_sub(40))
    } else {
        (2, len)
    };
    if let Some(field) = packet.get_mut(at..at + 2) {
        field.copy_from_slice(&ip_len.to_be_bytes());
    }
    let udp_len = u16::try_from(udp).map_or(0, |udp| len.saturating_sub(udp));
    if let Some(field) = packet.get_mut(udp + 4..udp + 6) {
        field.copy_from_slice(&udp_len.to_be_bytes());
    }
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
            src: (*src).into(),
            dst: (*dst).into(),
        })
    } else {
        let src: &[u8; 4] = ip.get(12..)?.first_chunk()?;
        let dst: &[u8; 4] = ip.get(16..)?.first_chunk()?;
        Some(AddrPair::V4 {
            src: (*src).into(),
            dst: (*dst).into(),
        })
    }
}

/// A queue of packets that any number of CPUs fill and one empties at a time,
/// without a lock and without memory of its own.
pub(crate) struct RxQueue(SkbQueue);

impl RxQueue {
    /// An empty queue.
    pub(crate) const fn new() -> Self {
        Self(SkbQueue::new())
    }

    /// How many packets there are, about.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.len()
    }

    /// Appends a packet. Returns whether the queue was empty before.
    #[inline]
    pub(crate) fn push(&self, packet: RxPacket) -> bool {
        self.0.push(packet.keep().0)
    }

    /// Takes all packets, oldest first. Those that are not taken out of the batch
    /// are dropped with it.
    #[inline]
    pub(crate) fn take_all(&self) -> RxBatch {
        RxBatch(self.0.take_all())
    }
}

/// Packets taken from a queue.
pub(crate) struct RxBatch(SkbBatch);

impl Iterator for RxBatch {
    type Item = RxPacket;

    #[inline]
    fn next(&mut self) -> Option<RxPacket> {
        KeptPacket(self.0.next()?).unkeep()
    }
}

const _: () = assert!(Framing::Ipv4.outer_len() == 20 + UDP_LEN);
