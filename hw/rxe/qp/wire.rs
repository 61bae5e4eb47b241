// SPDX-License-Identifier: GPL-2.0

//! Conversion between packets of the engine and of the network, and the cached route of a path.

use crate::counters::Counter;
use crate::device::Dev;
use crate::mem::Filled;
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
use kernel::sync::Arc;
use rdma::net::InFlight;

/// A destination, and the route to it while that is valid.
pub(super) struct Sender {
    path: Path,
    route: Option<CachedRoute>,
    /// Packets to be sent along `route`, at the end of the turn at the latest.
    outbox: Outbox,
    /// Packets of this turn were dropped because a network queue is full.
    congested: bool,
    /// `route` was validated in this turn.
    checked: bool,
    /// Packets sent in this turn, and their bytes.
    packets: u32,
    bytes: usize,
    /// The network header that a receiver on this device saw last, for the same opcode and length.
    grh: Option<Grh>,
}

struct Grh {
    opcode: Opcode,
    payload_len: usize,
    bytes: [u8; 40],
}

impl Sender {
    /// Creates a sender along `path`; the first packet resolves the route. `counted` counts its
    /// packets until they have left.
    pub(super) fn new(path: Path, counted: Option<Arc<InFlight>>) -> Self {
        Self {
            path,
            route: None,
            outbox: Outbox::new(counted),
            congested: false,
            checked: false,
            packets: 0,
            bytes: 0,
            grh: None,
        }
    }

    /// Returns the destination.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the network properties that a receiver sees, if the path leads to the device itself.
    pub(super) fn loopback(&mut self, dev: &Dev) -> Option<Network> {
        self.find_route(dev)?;
        Some(Network {
            vlan: self.route.as_ref()?.loopback()?,
            is_v6: self.path.addrs().is_v6(),
        })
    }

    /// Returns the network header that a receiver of a datagram on this device sees. A stream of one
    /// length has the same header.
    #[inline]
    pub(super) fn grh(&mut self, opcode: Opcode, payload_len: usize) -> Option<&[u8; 40]> {
        let same = self
            .grh
            .as_ref()
            .is_some_and(|kept| kept.opcode == opcode && kept.payload_len == payload_len);
        if !same {
            self.grh = Some(Grh {
                opcode,
                payload_len,
                bytes: net::grh(&self.path, opcode, payload_len),
            });
        }
        Some(&self.grh.as_ref()?.bytes)
    }

    /// Sends a packet whose payload `fill` writes; it leaves in [`Self::flush`] at the latest.
    /// Bottom halves are off.
    ///
    /// A packet that has no route or that the stack refuses is lost: the network may lose packets,
    /// and the protocol recovers.
    ///
    /// # Errors
    ///
    /// [`TxError::Blocked`] without memory. A failure of `fill` is not reported; `fill` must record
    /// it.
    pub(super) fn send(
        &mut self,
        dev: &Dev,
        packet: &TxPacket,
        fill: impl for<'f> FnOnce(Room<'f>) -> Result<Filled<'f>>,
    ) -> Result<(), TxError> {
        let Some(()) = self.find_route(dev) else {
            dev.counters.inc(Counter::SendError);
            return Ok(());
        };
        let Some(route) = &self.route else {
            return Ok(());
        };
        // CAST: u32 to usize, lossless on the supported 64-bit machines.
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

    /// Returns whether packets wait in the outbox.
    #[inline]
    pub(super) fn has_company(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends the packets in the outbox. Called at the end of each turn; bottom halves are off.
    /// Returns whether packets of the turn were dropped because a network queue is full.
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

    /// Ensures that there is a route, and looks it up again if it is not valid any more. It is
    /// checked once per turn; packets wait in the outbox until the turn's end at most.
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

/// Converts a received packet for the engine. Returns `None` if it is not for the queue pair:
/// packets of a connected one must come from the destination of `sender`.
// Always inlined: avoids moving the large result.
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
