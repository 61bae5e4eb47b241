// SPDX-License-Identifier: GPL-2.0

//! Building packets and sending them.
//!
//! A packet is built in one piece: IP, UDP, transport headers, then the payload
//! right behind by the caller, pad, and one CRC over all of it.
//!
//! Packets of one path that are sent in one go leave as a train: one buffer for the
//! stack. It may be taken apart on the way, so each packet is made as it will look then:
//! its own lengths, and the IPv4 ident that counts from 0 in each train, since the
//! ICRC covers both. Packets may not be fragmented, so nobody else rewrites these.
//!
//! Source: IBTA annex A17.9.1 (RoCEv2 header fields), RFC 6864 (ident of atomic
//! datagrams), RFC 6936 (zero UDP checksum over IPv6).

use core::mem::MaybeUninit;

use kernel::prelude::*;

use rdma::net::skb::zeroed;
use rdma::net::skb::PROTOCOL_IPV4;
use rdma::net::skb::PROTOCOL_IPV6;
use rdma::net::AddrPair;
use rdma::net::NewSkb;
use rdma::net::Train;
use rdma::wire;
use rdma::wire::outer;
use rdma::wire::outer::Variable;
use rdma::wire::Bth;
use rdma::wire::Ext;
use rdma::wire::Opcode;
use rdma::wire::ICRC_LEN;

use super::dev::Endpoint;
use super::icrc;
use super::icrc::BTH_VARIANT;
use super::path::CachedRoute;
use super::path::Path;
use super::path::Via;
use super::rx::RxSink;
use crate::mem::Room;

const UDP_LEN: usize = 8;
/// The bit of a congestion notification in the byte of the BTH that routers may change.
const BECN: u8 = 1 << 6;
/// The bits of an opcode that tell the transport service; none are set for a reliable
/// connection.
pub(super) const TRANSPORT_MASK: u8 = 0xe0;
/// The bits of a traffic class that are about congestion.
const ECN_MASK: u8 = 3;
/// "ECN-capable transport": may be marked.
const ECT_0: u8 = 2;

/// A packet to be sent, but for its payload.
pub(crate) struct Frame<'a> {
    /// Where it goes.
    pub(crate) path: &'a Path,
    /// What that resolved to, and valid.
    pub(crate) route: &'a CachedRoute,
    /// Base transport header; its pad is that of the payload.
    pub(crate) bth: Bth,
    /// The extension headers of its opcode.
    pub(crate) ext: &'a Ext,
    /// Bytes of payload, without pad.
    pub(crate) payload_len: usize,
}

impl Frame<'_> {
    /// Bytes of the packet, from the IP header to the ICRC; `None` beyond reason.
    #[inline]
    fn total(&self) -> Option<usize> {
        // OVERFLOW: sizes of headers.
        let headers = icrc::outer_len(self.path.addrs().is_v6()) + self.bth.opcode.header_len();
        let pad = usize::from(self.bth.pad);
        self.payload_len.checked_add(headers + pad + ICRC_LEN)
    }

    /// The traffic class: what the user asked for. If that leaves the two bits of RFC 3168
    /// alone, they say of requests and responses of reliable connections that a switch may
    /// mark them rather than drop them: their sender hears of it, and slows down.
    #[inline]
    fn class(&self) -> u8 {
        let class = self.path.spec().traffic_class;
        let opcode = self.bth.opcode;
        let heeds = u8::from(opcode) & TRANSPORT_MASK == 0
            && opcode != Opcode::RcAck
            && opcode != Opcode::RcAtomicAck;
        if heeds && class & ECN_MASK == 0 {
            class | ECT_0
        } else {
            class
        }
    }
}

/// Why a packet could not be sent. Nothing left the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TxError<E> {
    /// There is no memory. A later try may succeed.
    NoMemory,
    /// It is longer than the path carries.
    TooLong,
    /// The extension headers are not those of the opcode.
    Headers,
    /// The payload cannot be had.
    Payload(E),
}

/// What became of packets that were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a congested path wants fewer packets"]
pub(crate) enum Sent {
    /// They are on their way.
    Yes,
    /// At least one packet of the path was dropped because a queue is full. That is a
    /// loss in the network like any other, but we know of it.
    Congested,
    /// The stack refused so many.
    Refused(u16),
}

/// Most packets in a train. With 1 KiB of payload each, one more would make the first
/// one's IP header speak of more than 64 KiB.
pub(crate) const TRAIN_PACKETS: u16 = 62;
/// Most bytes in a train: what an IPv4 header can say, and with link headers still what a
/// network device takes by default.
const TRAIN_BYTES: usize = u16::MAX as usize - 64;

/// Packets that leave together along one route. They are sent by [`Outbox::flush`]; what
/// is dropped is lost.
pub(crate) struct Outbox {
    train: Option<Train>,
    /// Bytes of the first packet, from its IP header on. None is longer, so that nobody
    /// finds a packet too long who asks the first.
    longest: usize,
}

impl Outbox {
    /// Nothing waits.
    pub(crate) const fn new() -> Self {
        Self {
            train: None,
            longest: 0,
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.train.is_none()
    }

    /// Builds a packet and sends it at once, or with those that wait when it is time.
    /// `fill` writes the payload: all of the room that it is given, or it fails. All that waits
    /// goes by the same route. Bottom halves must be disabled.
    ///
    /// The first value is the packet's bytes, from the IP header to the ICRC; the second
    /// is about other packets, which had to leave before it.
    ///
    /// # Errors
    ///
    /// See [`TxError`].
    #[inline]
    pub(crate) fn send<S: RxSink, E>(
        &mut self,
        endpoint: &Endpoint<S>,
        frame: &Frame<'_>,
        fill: impl FnOnce(Room<'_>) -> Result<(), E>,
    ) -> Result<(usize, Sent), TxError<E>> {
        let total = frame.total().ok_or(TxError::TooLong)?;
        let v6 = frame.path.addrs().is_v6();
        let mut before = Sent::Yes;
        if !self.has_room(total, v6) {
            before = self.flush(frame.route);
        }
        let ident = self.train.as_ref().map_or(0, Train::count);
        let mut skb = build(frame, total, ident, fill)?;
        match &frame.route.via {
            Via::Local { vlan } => {
                unmask(skb.data_mut(), frame).ok_or(TxError::Headers)?;
                let lane = endpoint.lane(frame.bth.dest_qpn);
                if lane.push(skb.finish(), v6, *vlan).is_err() {
                    before = Sent::Congested;
                }
            }
            Via::Wire(_) => {
                let packet = skb.data_mut();
                icrc::seal(icrc::framing(v6), packet).ok_or(TxError::Headers)?;
                unmask(packet, frame).ok_or(TxError::Headers)?;
                match &mut self.train {
                    None => {
                        self.longest = total;
                        self.train = Some(Train::new(skb));
                    }
                    Some(train) => train
                        .push(skb, icrc::outer_len(v6))
                        .ok_or(TxError::Headers)?,
                }
                if !frame.route.trains {
                    before = self.flush(frame.route);
                }
            }
        }
        Ok((total, before))
    }

    /// Whether a packet of `total` bytes may join those that wait.
    #[inline]
    fn has_room(&self, total: usize, v6: bool) -> bool {
        self.train.as_ref().is_none_or(|train| {
            // OVERFLOW: small constants.
            train.count() < TRAIN_PACKETS
                && total <= self.longest
                && train.len().saturating_add(total) <= TRAIN_BYTES + icrc::outer_len(v6)
        })
    }

    /// Sends what waits along the route that it waits for. Bottom halves must be disabled.
    #[inline]
    pub(crate) fn flush(&mut self, route: &CachedRoute) -> Sent {
        let (Some(mut train), Via::Wire(route)) = (self.train.take(), &route.via) else {
            return Sent::Yes;
        };
        let count = train.count();
        let header_len = icrc::outer_len(route.is_v6());
        if count > 1 {
            // The stack sets the IP header's length, but not this one.
            // OVERFLOW: the outer headers end with the UDP header.
            let len = train.len().saturating_sub(header_len - UDP_LEN);
            let len = u16::try_from(len).unwrap_or(u16::MAX);
            let udp = train.head_mut().get_mut(header_len - UDP_LEN..header_len);
            if let Some(field) = udp.and_then(|udp| udp.get_mut(4..6)) {
                field.copy_from_slice(&len.to_be_bytes());
            }
        }
        match route.send(train, header_len) {
            Ok(rdma::net::Sent::Yes) => Sent::Yes,
            Ok(rdma::net::Sent::Congested) => Sent::Congested,
            Err(_) => Sent::Refused(count),
        }
    }
}

/// The complete packet, but for the ICRC, in one piece from its IP header on, with ones where
/// the ICRC has it so.
#[inline]
fn build<E>(
    frame: &Frame<'_>,
    total: usize,
    ident: u16,
    fill: impl FnOnce(Room<'_>) -> Result<(), E>,
) -> Result<NewSkb, TxError<E>> {
    let v6 = frame.path.addrs().is_v6();
    let outer_len = icrc::outer_len(v6);
    let header_len = frame.bth.opcode.header_len();
    let bytes = u16::try_from(total).map_err(|_| TxError::TooLong)?;
    if u32::from(bytes) > frame.route.mtu {
        return Err(TxError::TooLong);
    }

    let room = usize::try_from(frame.route.link_room).map_err(|_| TxError::NoMemory)?;
    let mut skb = NewSkb::alloc(room, total).map_err(|_| TxError::NoMemory)?;
    let packet = skb.put(total).map_err(|_| TxError::NoMemory)?;

    let (outer, rest) = packet
        .split_at_mut_checked(outer_len)
        .ok_or(TxError::TooLong)?;
    let (headers, rest) = rest
        .split_at_mut_checked(header_len)
        .ok_or(TxError::TooLong)?;
    let (payload, tail) = rest
        .split_at_mut_checked(frame.payload_len)
        .ok_or(TxError::TooLong)?;
    // So few bytes that to clear them first costs nothing beside the rest.
    let (outer, headers) = (zeroed(outer), zeroed(headers));
    write_outer(outer, frame, bytes, ident).ok_or(TxError::Headers)?;
    let _: usize = wire::write_headers(headers, &frame.bth, frame.ext).ok_or(TxError::Headers)?;
    *headers.get_mut(BTH_VARIANT).ok_or(TxError::Headers)? = 0xff;
    if !payload.is_empty() {
        fill(Room::of_unwritten(payload)).map_err(TxError::Payload)?;
    }
    // The ICRC's place, and mostly nothing else.
    let (pad, icrc) = tail
        .split_last_chunk_mut::<ICRC_LEN>()
        .ok_or(TxError::Headers)?;
    *icrc = [MaybeUninit::new(0); ICRC_LEN];
    for byte in pad {
        *byte = MaybeUninit::new(0);
    }

    if v6 {
        skb.set_headers(PROTOCOL_IPV6, 40);
    } else {
        skb.set_headers(PROTOCOL_IPV4, 20);
    }
    Ok(skb)
}

/// Writes IP and UDP headers of a packet of `total` bytes, as the ICRC sees them. `None` if
/// the space is not that of the path's family.
#[inline]
fn write_outer(outer: &mut [u8], frame: &Frame<'_>, total: u16, ident: u16) -> Option<()> {
    let port = frame.path.src_port();
    match frame.path.addrs() {
        AddrPair::V4 { src, dst } => {
            let ends = (src.octets(), dst.octets());
            outer::write_ipv4(outer.try_into().ok()?, ends, port, total, ident)
        }
        AddrPair::V6 { src, dst } => {
            let ends = (src.octets(), dst.octets());
            outer::write_ipv6(outer.try_into().ok()?, ends, port, total)
        }
    }
}

/// Puts in what the ICRC does not cover. `None` if the packet has no such headers.
#[inline]
fn unmask(packet: &mut [u8], frame: &Frame<'_>) -> Option<()> {
    let path = frame.path;
    let variable = Variable {
        class: frame.class(),
        flow_label: path.flow_label(),
        hop_limit: path.spec().hop_limit,
    };
    let bth = match path.addrs() {
        AddrPair::V4 { .. } => {
            let (outer, bth) = packet.split_first_chunk_mut()?;
            variable.put_ipv4(outer);
            bth
        }
        AddrPair::V6 { .. } => {
            let (outer, bth) = packet.split_first_chunk_mut()?;
            variable.put_ipv6(outer);
            bth
        }
    };
    *bth.get_mut(BTH_VARIANT)? = if frame.bth.becn { BECN } else { 0 };
    Some(())
}
