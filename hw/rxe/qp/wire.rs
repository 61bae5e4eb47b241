// SPDX-License-Identifier: GPL-2.0

//! From the engine's packets to the network's, and back: a path, and the route it is known by.

use crate::counters::Counter;
use crate::device::Dev;
use crate::mem::Room;
use crate::net;
use crate::net::CachedRoute;
use crate::net::Frame;
use crate::net::Outbox;
use crate::net::Path;
use crate::net::RxPacket;
use crate::net::Sent;
use crate::proto;
use crate::proto::QpType;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::queue::cqe::Network;
use crate::wire;
use crate::wire::Bth;
use crate::wire::Opcode;
use kernel::prelude::*;

/// Where packets go, and the way there as long as it holds.
pub(super) struct Sender {
    path: Path,
    route: Option<CachedRoute>,
    /// What leaves at the end of the turn, along `route`.
    outbox: Outbox,
    /// Packets of this turn were dropped because a queue is full.
    congested: bool,
    /// `route` was found to hold in this turn.
    checked: bool,
    /// Packets that were sent in this turn, and their bytes.
    packets: u32,
    bytes: usize,
}

impl Sender {
    /// A sender along `path`, which finds its way when it first sends.
    pub(super) fn new(path: Path) -> Self {
        Self {
            path,
            route: None,
            outbox: Outbox::new(),
            congested: false,
            checked: false,
            packets: 0,
            bytes: 0,
        }
    }

    /// Where it sends.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What a receiver hears of the network, if the path leads to the device itself.
    pub(super) fn loopback(&mut self, dev: &Dev) -> Option<Network> {
        self.find_route(dev)?;
        Some(Network {
            vlan: self.route.as_ref()?.loopback()?,
            is_v6: self.path.addrs().is_v6(),
        })
    }

    /// Sends a packet, whose payload `fill` writes, by [`Self::flush`] at the latest.
    /// Bottom halves are off.
    ///
    /// A packet for which there is no way, or which the stack refuses, is lost: the
    /// network may lose packets, and the protocol copes.
    ///
    /// # Errors
    ///
    /// [`TxError::Blocked`] without memory. Of a failure of `fill` only `fill`
    /// itself knows: it must look after it.
    pub(super) fn send(
        &mut self,
        dev: &Dev,
        packet: &TxPacket,
        fill: impl FnOnce(Room<'_>) -> Result,
    ) -> Result<(), TxError> {
        let Some(()) = self.find_route(dev) else {
            dev.counters.inc(Counter::SendError);
            return Ok(());
        };
        let Some(route) = &self.route else {
            return Ok(());
        };
        // CAST: u32 to usize, lossless on the 64-bit machines we support.
        let payload_len = packet.payload.len() as usize;
        let mut bth = Bth::new(packet.opcode, packet.dest.qpn().0, packet.psn);
        bth.pad = wire::pad_len(payload_len);
        bth.solicited = packet.solicited;
        bth.ack_req = packet.ack_req;
        bth.becn = packet.opcode == Opcode::Cnp;
        let frame = Frame {
            path: &self.path,
            route,
            bth,
            ext: &packet.ext,
            payload_len,
        };
        match self.outbox.send(&dev.endpoint, &frame, fill) {
            Ok((bytes, before)) => {
                self.packets = self.packets.wrapping_add(1);
                self.bytes = self.bytes.saturating_add(bytes);
                self.note(dev, before);
                Ok(())
            }
            Err(net::TxError::NoMemory) => Err(TxError::Blocked),
            Err(net::TxError::Payload(_)) => Ok(()),
            Err(net::TxError::TooLong | net::TxError::Headers) => {
                dev.counters.inc(Counter::SendError);
                Ok(())
            }
        }
    }

    /// Whether packets wait for company.
    #[inline]
    pub(super) fn has_company(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends what waits for company. At the end of each turn; bottom halves are off.
    /// Answers whether some of the turn's packets were dropped because a queue is full.
    #[inline]
    pub(super) fn flush(&mut self, dev: &Dev) -> bool {
        if !self.outbox.is_empty() {
            if let Some(route) = &self.route {
                let sent = self.outbox.flush(route);
                self.note(dev, sent);
            }
        }
        self.checked = false;
        if self.packets != 0 {
            let packets = core::mem::take(&mut self.packets);
            dev.counters.add(Counter::SentPackets, packets.into());
            let bytes = i64::try_from(core::mem::take(&mut self.bytes)).unwrap_or(0);
            dev.counters.add(Counter::SentBytes, bytes);
        }
        core::mem::take(&mut self.congested)
    }

    fn note(&mut self, dev: &Dev, sent: Sent) {
        match sent {
            Sent::Yes => {}
            Sent::Congested => self.congested = true,
            Sent::Refused(count) => dev.counters.add(Counter::SendError, count.into()),
        }
    }

    /// Sees to it that there is a way, looked up anew if it does not hold any more. In one
    /// turn it is asked once; packets may wait for it until the end of that.
    #[inline]
    fn find_route(&mut self, dev: &Dev) -> Option<()> {
        if self.checked {
            return Some(());
        }
        if self
            .route
            .as_ref()
            .is_none_or(|route| !route.is_valid(&dev.endpoint))
        {
            self.route = None;
            let gid = dev.source_gid(self.path.spec())?;
            self.route = Some(self.path.resolve(&dev.endpoint, &gid).ok()?);
        }
        self.checked = true;
        Some(())
    }
}

/// What the engine sees of a received packet; `None` if that is not for the queue pair
/// whose packets go where `sender` says: packets of a connected one come from there.
// Always: what is returned is large, and is not moved so.
#[inline(always)]
pub(super) fn engine_packet(
    kind: QpType,
    sender: Option<&Sender>,
    packet: &RxPacket,
) -> Option<proto::RxPacket> {
    if !kind.is_datagram()
        && !sender.is_some_and(|sender| packet.is_answer_to(sender.path().addrs()))
    {
        return None;
    }
    let start = packet.start();
    Some(proto::RxPacket {
        opcode: start.opcode(),
        psn: start.psn(),
        ack_req: start.ack_req(),
        solicited: start.solicited(),
        ext: packet.ext()?,
        len: start.payload_len(),
        mtu: None,
    })
}
