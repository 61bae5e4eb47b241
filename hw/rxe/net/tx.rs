// SPDX-License-Identifier: GPL-2.0

//! Builds packets and sends them.
//!
//! A packet is built in one buffer: IP, UDP and transport headers, then the payload, written in
//! place by the caller, the pad, and one CRC over everything.
//!
//! Packets of one path that are sent together leave as a train: one GSO buffer for the stack. The
//! train may be segmented on the way, so each packet is built as it will look after segmentation:
//! its own lengths, and an IPv4 ident that counts from 0 in each train, since the ICRC covers both.
//! Packets must not be fragmented, so nothing else rewrites these fields. Where rules inspect packets on
//! their way, packets are sent one by one, so that the rules apply to each.
//!
//! Source: IBTA annex A17.9.1 (RoCEv2 header fields), RFC 6864 (ident of atomic
//! datagrams), RFC 6936 (zero UDP checksum over IPv6).

use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;

use rdma::net::skb::PROTOCOL_IPV4;
use rdma::net::skb::PROTOCOL_IPV6;
use rdma::net::AddrPair;
use rdma::net::InFlight;
use rdma::net::NewSkb;
use rdma::net::Route;
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
use super::rx::grh_of;
use super::rx::RxSink;
use crate::mem::Filled;
use crate::mem::Room;

const UDP_LEN: usize = 8;
/// The BECN bit, in the BTH byte that routers may change.
const BECN: u8 = 1 << 6;
/// Opcode bits that encode the transport service; all zero for reliable connections.
pub(super) const TRANSPORT_MASK: u8 = 0xe0;
/// ECN bits of the traffic class (RFC 3168).
const ECN_MASK: u8 = 3;
/// ECN codepoint ECT(0): routers may mark the packet.
const ECT_0: u8 = 2;

/// A packet to be sent, except for its payload.
pub(crate) struct Frame<'a> {
    /// Destination.
    pub(crate) path: &'a Path,
    /// A valid route to `path`.
    pub(crate) route: &'a CachedRoute,
    /// Base transport header; its pad count matches the payload.
    pub(crate) bth: Bth,
    /// Extension headers of the opcode.
    pub(crate) ext: &'a Ext,
    /// Bytes of payload, without pad.
    pub(crate) payload_len: usize,
}

impl Frame<'_> {
    /// Returns the packet's length from the IP header to the ICRC; `None` on overflow.
    #[inline]
    fn total(&self) -> Option<usize> {
        // OVERFLOW: header sizes are small.
        let headers = icrc::outer_len(self.path.addrs().is_v6()) + self.bth.opcode.header_len();
        let pad = usize::from(self.bth.pad);
        self.payload_len.checked_add(headers + pad + ICRC_LEN)
    }

    /// Returns the traffic class that the user requested. If its ECN bits (RFC 3168) are zero,
    /// ECT(0) is set for requests and responses of reliable connections, so that a switch may mark
    /// packets rather than drop them: the sender is notified and slows down.
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

/// Reasons why a packet was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TxError<E> {
    /// There is no memory. A later try may succeed.
    NoMemory,
    /// The packet is longer than the path's MTU.
    TooLong,
    /// The extension headers do not match the opcode.
    Headers,
    /// The payload is not available.
    Payload(E),
}

/// Errors of a packet buffer: there is no memory for it.
impl<E> From<Error> for TxError<E> {
    fn from(_: Error) -> Self {
        Self::NoMemory
    }
}

/// Result of sending packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a congested path wants fewer packets"]
pub(crate) enum Sent {
    /// They were passed to the stack.
    Yes,
    /// At least one packet of the path was dropped because a queue is full: a loss in the network
    /// like any other, but known to the sender.
    Congested,
    /// The stack refused this number of packets.
    Refused(u16),
}

/// Maximum number of packets in a train. With 1 KiB of payload each, one more would exceed the 64
/// KiB that the first packet's IP header can express.
pub(crate) const TRAIN_PACKETS: u16 = 62;
/// Maximum number of bytes in a train: the limit of an IPv4 header and, with link headers, the
/// default limit of network devices.
const TRAIN_BYTES: usize = u16::MAX as usize - 64;

/// Packets that are sent together along one route by [`Outbox::flush`]. Dropping an outbox loses
/// its packets.
pub(crate) struct Outbox {
    train: Option<Train>,
    /// Length of the first packet, from its IP header on. No other packet is longer, so that a
    /// length check of the first covers all.
    longest: usize,
    /// Counts packets from the flush until they have left.
    counted: Option<Arc<InFlight>>,
}

impl Outbox {
    /// Creates an empty outbox. `counted` counts its packets from the flush until they have left.
    pub(crate) const fn new(counted: Option<Arc<InFlight>>) -> Self {
        Self {
            train: None,
            longest: 0,
            counted,
        }
    }

    /// Returns whether no packets are queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.train.is_none()
    }

    /// Builds a packet and sends it at once or with the next flush. `fill` must write the whole
    /// payload room that it is given, or fail. All queued packets use the same route. Bottom halves
    /// must be disabled.
    ///
    /// Returns the packet's length from the IP header to the ICRC, and the result for other
    /// packets, which had to be sent before it.
    ///
    /// # Errors
    ///
    /// See [`TxError`].
    #[inline]
    pub(crate) fn send<S: RxSink, E>(
        &mut self,
        endpoint: &Endpoint<S>,
        frame: &Frame<'_>,
        fill: impl for<'f> FnOnce(Room<'f>) -> Result<Filled<'f>, E>,
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
            Via::Wire { .. } => {
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

    /// Returns whether a packet of `total` bytes fits the train.
    #[inline]
    fn has_room(&self, total: usize, v6: bool) -> bool {
        self.train.as_ref().is_none_or(|train| {
            // OVERFLOW: small constants.
            train.count() < TRAIN_PACKETS
                && total <= self.longest
                && train.len().saturating_add(total) <= TRAIN_BYTES + icrc::outer_len(v6)
        })
    }

    /// Sends the queued packets along `route`, for which they were queued. Bottom halves must be
    /// disabled.
    #[inline]
    pub(crate) fn flush(&mut self, route: &CachedRoute) -> Sent {
        let (Some(mut train), Via::Wire { route, peer }) = (self.train.take(), &route.via) else {
            return Sent::Yes;
        };
        let count = train.count();
        let rcu = rcu::read_lock();
        let Some(route) = route.get(&rcu) else {
            return Sent::Refused(count);
        };
        let header_len = icrc::outer_len(route.is_v6());
        if count > 1 {
            if !route.carries_trains(*peer) {
                return send_apart(route, train, header_len, self.counted.as_ref());
            }
            // The stack updates the length in the IP header, but not in the UDP header.
            // OVERFLOW: the outer headers end with the UDP header.
            let len = train.len().saturating_sub(header_len - UDP_LEN);
            let len = u16::try_from(len).unwrap_or(u16::MAX);
            let udp = train.head_mut().get_mut(header_len - UDP_LEN..header_len);
            if let Some(field) = udp.and_then(|udp| udp.get_mut(4..6)) {
                field.copy_from_slice(&len.to_be_bytes());
            }
        }
        match route.send(train, header_len, self.counted.as_ref()) {
            Ok(rdma::net::Sent::Yes) => Sent::Yes,
            Ok(rdma::net::Sent::Congested) => Sent::Congested,
            Err(_) => Sent::Refused(count),
        }
    }
}

/// Sends the packets of a train one by one.
fn send_apart(
    route: &Route,
    train: Train,
    header_len: usize,
    counted: Option<&Arc<InFlight>>,
) -> Sent {
    let (mut congested, mut refused) = (false, 0_u16);
    route.send_apart(train, header_len, counted, |sent| match sent {
        Ok(rdma::net::Sent::Yes) => {}
        Ok(rdma::net::Sent::Congested) => congested = true,
        Err(_) => refused = refused.saturating_add(1),
    });
    match (refused, congested) {
        (0, false) => Sent::Yes,
        (0, true) => Sent::Congested,
        (refused, _) => Sent::Refused(refused),
    }
}

/// Builds a packet in one buffer from its IP header on, complete except for the ICRC, with variant
/// fields set to ones as the ICRC requires.
#[inline]
fn build<E>(
    frame: &Frame<'_>,
    total: usize,
    ident: u16,
    fill: impl for<'f> FnOnce(Room<'f>) -> Result<Filled<'f>, E>,
) -> Result<NewSkb, TxError<E>> {
    let v6 = frame.path.addrs().is_v6();
    let outer_len = icrc::outer_len(v6);
    let header_len = frame.bth.opcode.header_len();
    let bytes = u16::try_from(total).map_err(|_| TxError::TooLong)?;
    if u32::from(bytes) > frame.route.mtu {
        return Err(TxError::TooLong);
    }

    let room = usize::try_from(frame.route.link_room).map_err(|_| TxError::NoMemory)?;
    let mut skb = NewSkb::alloc(room, total)?;
    // Clearing so few bytes first costs little compared with the rest.
    // OVERFLOW: small constants.
    let (outer, headers) = (skb.append_zeroed(outer_len + header_len)?)
        .split_at_mut_checked(outer_len)
        .ok_or(TxError::Headers)?;
    write_outer(outer, frame, bytes, ident).ok_or(TxError::Headers)?;
    let _: usize = wire::write_headers(headers, &frame.bth, frame.ext).ok_or(TxError::Headers)?;
    *headers.get_mut(BTH_VARIANT).ok_or(TxError::Headers)? = 0xff;
    if frame.payload_len != 0 {
        skb.append(frame.payload_len, |room| {
            let written = Room::initialise(room, fill).map_err(TxError::Payload)?;
            written.ok_or(TxError::Headers)
        })?;
    }
    // The room for the ICRC, and usually no pad.
    let tail = total.saturating_sub(skb.len());
    skb.append_zeroed(tail)?;

    if v6 {
        skb.set_headers(PROTOCOL_IPV6, 40);
    } else {
        skb.set_headers(PROTOCOL_IPV4, 20);
    }
    Ok(skb)
}

/// Returns the network header of a packet of this device to itself, as a datagram's receiver sees
/// it: see [`RxPacket::grh`](super::RxPacket::grh).
pub(crate) fn grh(path: &Path, opcode: Opcode, payload_len: usize) -> [u8; 40] {
    let v6 = path.addrs().is_v6();
    let pad = usize::from(wire::pad_len(payload_len));
    // OVERFLOW: small constants.
    let rest = icrc::outer_len(v6) + opcode.header_len() + pad + ICRC_LEN;
    let total = u16::try_from(payload_len.saturating_add(rest)).unwrap_or(u16::MAX);
    let variable = variable(path, path.spec().traffic_class);
    let port = path.src_port();
    match path.addrs() {
        AddrPair::V4 { src, dst } => {
            let mut outer = [0; 28];
            let ends = (src.octets(), dst.octets());
            let _: Option<()> = outer::write_ipv4(&mut outer, ends, port, total, 0);
            variable.put_ipv4(&mut outer);
            grh_of(&outer)
        }
        AddrPair::V6 { src, dst } => {
            let mut outer = [0; 48];
            let ends = (src.octets(), dst.octets());
            let _: Option<()> = outer::write_ipv6(&mut outer, ends, port, total);
            variable.put_ipv6(&mut outer);
            grh_of(&outer)
        }
    }
}

/// Returns the fields that routers may change.
#[inline]
fn variable(path: &Path, class: u8) -> Variable {
    Variable {
        class,
        flow_label: path.flow_label(),
        hop_limit: path.spec().hop_limit,
    }
}

/// Writes the IP and UDP headers of a packet of `total` bytes, with variant fields masked for the
/// ICRC. Returns `None` if the space does not match the path's address family.
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

/// Writes the fields that the ICRC does not cover. Returns `None` if the packet is too short.
#[inline]
fn unmask(packet: &mut [u8], frame: &Frame<'_>) -> Option<()> {
    let path = frame.path;
    let variable = variable(path, frame.class());
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
