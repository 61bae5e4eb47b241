// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived together.
//!
//! The stack passes one buffer, which may contain several packets of one connection (GRO).
//! [`RxRun`] owns the remaining packets and checks each when it is taken. Softirq.

use super::packet::Meta;
use super::packet::RxPacket;
use super::packet::UDP_LEN;
use super::DropReason;
use crate::net::icrc;
use crate::proto::Nanos;
use kernel::sync::rcu;
use rdma::net::skb::PROTOCOL_IPV4;
use rdma::net::skb::PROTOCOL_IPV6;
use rdma::net::AddrPair;
use rdma::net::NetDevice;
use rdma::net::Skb;
use rdma::net::SkbList;
use rdma::wire::Start;

/// Packets that arrived together, oldest first; each is checked when it is reached. Invalid packets
/// are skipped and reported to the sink.
pub(crate) struct RxRun<'a> {
    /// The next packet, checked already.
    next: Option<RxPacket>,
    /// The buffer from the stack, and the packets that were merged into it.
    first: Option<Skb>,
    rest: SkbList,
    meta: Meta,
    dropped: Option<&'a dyn Fn(DropReason)>,
    packets: u32,
    bytes: u64,
    /// A reading of the clock, and the number of packets taken by then.
    clock: Option<(Nanos, u32)>,
    /// The addresses that the following packets of a stream of datagrams must have.
    addrs: Option<AddrPair>,
}

/// Packets that may be taken before the clock is read again.
const CLOCK_PACKETS: u32 = 2;

/// Common properties of packets that one turn of a queue pair may take from a run. From the lowest
/// bits: destination QPN, P_Key, service and direction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream(u64);

impl Stream {
    #[inline(always)]
    pub(super) fn of(start: &Start) -> Self {
        let class = start.opcode().class();
        Self(u64::from(start.dest_qpn()) | u64::from(start.pkey()) << 32 | u64::from(class) << 48)
    }

    /// Returns whether the packets are requests, for the receive half.
    #[inline]
    pub(crate) fn is_request(self) -> bool {
        self.0 & 1 << 48 != 0
    }
}

impl<'a> RxRun<'a> {
    /// Creates a run of one packet.
    #[inline]
    pub(crate) fn one(packet: RxPacket) -> Self {
        Self {
            meta: packet.meta(),
            next: Some(packet),
            first: None,
            rest: SkbList::empty(),
            dropped: None,
            packets: 0,
            bytes: 0,
            clock: None,
            addrs: None,
        }
    }

    /// Creates a run to be loaded; invalid packets are reported to `dropped`.
    #[inline]
    pub(in crate::net) fn new(dropped: &'a dyn Fn(DropReason)) -> Self {
        Self {
            next: None,
            first: None,
            rest: SkbList::empty(),
            meta: Meta::NONE,
            dropped: Some(dropped),
            packets: 0,
            bytes: 0,
            clock: None,
            addrs: None,
        }
    }

    /// Loads a datagram, or the packets of a GRO buffer, received from a tunnel socket. Works in
    /// place, since a run is large. Softirq.
    ///
    /// # Errors
    ///
    /// Returns the buffer and the reason if it cannot contain a packet.
    #[inline]
    pub(in crate::net) fn load(
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
        // The buffer may be kept longer than the references that the stack attached to it.
        skb.detach();
        if !self.rest.is_empty() {
            restore_lengths(&mut skb, v6);
        }
        self.first = Some(skb);
        Ok(())
    }

    /// Returns the next packet without taking it.
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

    /// Takes the packet that [`Self::peek`] returned; `None` if there was none.
    #[inline(always)]
    pub(crate) fn take_peeked(&mut self) -> Option<RxPacket> {
        let packet = self.next.take()?;
        self.count(&packet);
        Some(packet)
    }

    /// Takes the next packet if it belongs to `stream`.
    #[inline(always)]
    pub(crate) fn take_of(&mut self, stream: Stream) -> Option<RxPacket> {
        // A packet is large, so it is stored only if it must wait.
        let packet = match self.next.take() {
            Some(packet) => packet,
            None => self.fetch()?,
        };
        if packet.stream() != stream || !self.is_alike(&packet) {
            self.next = Some(packet);
            return None;
        }
        self.count(&packet);
        Some(packet)
    }

    /// Lets [`Self::take_of`] take packets with these addresses only: nothing but the packet checks
    /// those of a datagram. `None` removes the condition.
    #[inline]
    pub(crate) fn only(&mut self, addrs: Option<AddrPair>) {
        self.addrs = addrs;
    }

    #[inline(always)]
    fn is_alike(&self, packet: &RxPacket) -> bool {
        match &self.addrs {
            None => true,
            Some(addrs) => packet.has_addrs(addrs),
        }
    }

    /// Checks the remaining packets up to the first valid one, and returns that.
    #[inline(always)]
    fn fetch(&mut self) -> Option<RxPacket> {
        loop {
            let outer = icrc::outer_len(self.meta.is_v6());
            let (skb, before) = match self.first.take() {
                // The stack leaves the data pointer at the UDP header.
                Some(skb) => (skb, outer.saturating_sub(UDP_LEN)),
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

    /// Returns the time: read now, or at a previous turn if few packets were taken since.
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

    /// Returns the number of packets taken, and their bytes from IP header to ICRC.
    #[inline]
    pub(crate) fn taken(&self) -> (u32, u64) {
        (self.packets, self.bytes)
    }
}

/// Corrects the lengths in the headers of a train's first packet, which cover the whole train. The
/// data pointer is at the UDP header. The headers of a shared buffer stay as they are, and the ICRC
/// check will fail; a buffer that was just split is not shared.
fn restore_lengths(skb: &mut Skb, v6: bool) {
    let rest = skb.len();
    let Some((packet, before)) = skb.from_network_header_mut() else {
        return;
    };
    let Ok(len) = u16::try_from(before.saturating_add(rest)) else {
        return;
    };
    let udp = icrc::outer_len(v6).saturating_sub(UDP_LEN);
    let (at, ip_len) = if v6 {
        (4, len.saturating_sub(40))
    } else {
        (2, len)
    };
    put(packet, at, ip_len);
    let udp_len = u16::try_from(udp).map_or(0, |udp| len.saturating_sub(udp));
    put(packet, udp.saturating_add(4), udp_len);
}

/// Writes a 16-bit field at `at`, if it lies within `header`.
#[inline]
fn put(header: &mut [u8], at: usize, value: u16) {
    let field = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(field) = field {
        *field = value.to_be_bytes();
    }
}
