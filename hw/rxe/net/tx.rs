// SPDX-License-Identifier: GPL-2.0

//! Building packets and sending them.
//!
//! A packet is built in one piece: IP, UDP, transport headers, then the payload
//! right behind by the caller, pad, and one CRC over all of it. IPv4 packets have
//! ident 0 and may not be fragmented, so nobody need rewrite what the ICRC covers.
//!
//! Source: IBTA annex A17.9.1 (RoCEv2 header fields), RFC 6864 (ident of atomic
//! datagrams), RFC 6936 (zero UDP checksum over IPv6).

use kernel::prelude::*;

use rdma::net::inflight::Token;
use rdma::net::skb::PROTOCOL_IPV4;
use rdma::net::skb::PROTOCOL_IPV6;
use rdma::net::AddrPair;
use rdma::net::NewSkb;
use rdma::net::Sent;
use rdma::net::TxWake;
use rdma::wire;
use rdma::wire::Bth;
use rdma::wire::Ext;
use rdma::wire::ICRC_LEN;
use rdma::wire::ROCE_V2_UDP_PORT;

use super::dev::Endpoint;
use super::icrc;
use super::path::CachedRoute;
use super::path::Path;
use super::path::Via;
use super::rx::RxSink;

const UDP_LEN: usize = 8;
const PROTOCOL_UDP: u8 = 17;
/// The "don't fragment" bit.
const DONT_FRAGMENT: u16 = 0x4000;

/// A packet to be sent, but for its payload.
pub(crate) struct Frame<'a> {
    /// Where it goes.
    pub(crate) path: &'a Path,
    /// What that resolved to, and valid.
    pub(crate) route: &'a CachedRoute,
    /// Base transport header; its pad is filled in here.
    pub(crate) bth: Bth,
    /// The extension headers of its opcode.
    pub(crate) ext: &'a Ext,
    /// Bytes of payload, without pad.
    pub(crate) payload_len: usize,
}

/// What became of a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// Its bytes, from the IP header to the ICRC.
    pub(crate) bytes: usize,
    /// It, or another packet of this path, was dropped because a queue is full. That
    /// is a loss in the network like any other, but we know of it.
    pub(crate) congested: bool,
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
    /// The IP stack refused it.
    Refused(Error),
}

/// Builds a packet and sends it. `fill` writes the payload: all of the bytes that
/// it is given. Bottom halves must be disabled.
///
/// # Errors
///
/// See [`TxError`].
#[inline]
pub(crate) fn send<S: RxSink, E>(
    endpoint: &Endpoint<S>,
    frame: &Frame<'_>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Outcome, TxError<E>> {
    submit(endpoint, frame, build(frame, fill)?)
}

/// Like [`send`]; `token` comes back to its sender when the packet's buffer is freed.
///
/// # Errors
///
/// See [`TxError`]; the token is given back at once then.
#[inline]
#[expect(dead_code, reason = "no sender limits itself yet")]
pub(crate) fn send_counted<S: RxSink, W: TxWake, E>(
    endpoint: &Endpoint<S>,
    frame: &Frame<'_>,
    token: Token<W>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Outcome, TxError<E>> {
    let mut skb = build(frame, fill)?;
    token.attach(&mut skb);
    submit(endpoint, frame, skb)
}

/// The complete packet, but for the ICRC, in one piece from its IP header on.
#[inline]
fn build<E>(
    frame: &Frame<'_>,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<NewSkb, TxError<E>> {
    let v6 = frame.path.addrs().is_v6();
    let outer_len = icrc::outer_len(v6);
    let header_len = frame.bth.opcode.header_len();
    let mut bth = frame.bth;
    bth.pad = wire::pad_len(frame.payload_len);
    let pad = usize::from(bth.pad);

    let total = frame
        .payload_len
        .checked_add(outer_len + header_len + pad + ICRC_LEN)
        .ok_or(TxError::TooLong)?;
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
    write_outer(outer, frame.path, bytes).ok_or(TxError::Headers)?;
    let _: usize = wire::write_headers(headers, &bth, frame.ext).ok_or(TxError::Headers)?;
    if !payload.is_empty() {
        fill(payload).map_err(TxError::Payload)?;
    }
    tail.fill(0);

    if v6 {
        skb.set_headers(PROTOCOL_IPV6, 40);
    } else {
        skb.set_headers(PROTOCOL_IPV4, 20);
    }
    Ok(skb)
}

/// Sends a packet that [`build`] made.
#[inline]
fn submit<S: RxSink, E>(
    endpoint: &Endpoint<S>,
    frame: &Frame<'_>,
    mut skb: NewSkb,
) -> Result<Outcome, TxError<E>> {
    let v6 = frame.path.addrs().is_v6();
    let bytes = skb.data_mut().len();
    let congested = match &frame.route.via {
        Via::Local { vlan } => endpoint
            .lane(frame.bth.dest_qpn)
            .push(skb.finish(), v6, *vlan)
            .is_err(),
        Via::Wire(route) => {
            icrc::seal(icrc::framing(v6), skb.data_mut()).ok_or(TxError::Headers)?;
            match route.send(skb).map_err(TxError::Refused)? {
                Sent::Yes => false,
                Sent::Congested => true,
            }
        }
    };
    Ok(Outcome { bytes, congested })
}

/// Writes IP and UDP headers of a packet of `total` bytes. The IPv4 header checksum
/// is left to the stack. `None` if the space is not that of the path's family.
#[inline]
fn write_outer(outer: &mut [u8], path: &Path, total: u16) -> Option<()> {
    let spec = path.spec();
    let udp: &mut [u8; UDP_LEN];
    let udp_len: u16;
    match path.addrs() {
        AddrPair::V4 { src, dst } => {
            let (ip, rest) = outer.split_first_chunk_mut::<20>()?;
            udp = rest.try_into().ok()?;
            udp_len = total.checked_sub(20)?;
            ip[0] = 0x45;
            ip[1] = spec.traffic_class;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            ip[4..6].fill(0);
            ip[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
            ip[8] = spec.hop_limit;
            ip[9] = PROTOCOL_UDP;
            ip[10..12].fill(0);
            ip[12..16].copy_from_slice(&src.octets());
            ip[16..20].copy_from_slice(&dst.octets());
        }
        AddrPair::V6 { src, dst } => {
            let (ip, rest) = outer.split_first_chunk_mut::<40>()?;
            udp = rest.try_into().ok()?;
            udp_len = total.checked_sub(40)?;
            let first = 6 << 28 | u32::from(spec.traffic_class) << 20 | path.flow_label();
            ip[0..4].copy_from_slice(&first.to_be_bytes());
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
            ip[6] = PROTOCOL_UDP;
            ip[7] = spec.hop_limit;
            ip[8..24].copy_from_slice(&src.octets());
            ip[24..40].copy_from_slice(&dst.octets());
        }
    }
    udp[0..2].copy_from_slice(&path.src_port().to_be_bytes());
    udp[2..4].copy_from_slice(&ROCE_V2_UDP_PORT.to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..8].fill(0);
    Some(())
}
