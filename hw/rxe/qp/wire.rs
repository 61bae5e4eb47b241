// SPDX-License-Identifier: GPL-2.0

//! From the engine's packets to the network's: a path, and the route it is known by.

use crate::counters::Counter;
use crate::device::Dev;
use crate::net;
use crate::net::CachedRoute;
use crate::net::Frame;
use crate::net::Path;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::queue::cqe::Network;
use crate::wire::Bth;
use kernel::prelude::*;

/// Where packets go, and the way there as long as it holds.
pub(super) struct Sender {
    path: Path,
    route: Option<CachedRoute>,
}

impl Sender {
    /// A sender along `path`, which finds its way when it first sends.
    pub(super) fn new(path: Path) -> Self {
        Self { path, route: None }
    }

    /// Where it sends.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What a receiver hears of the network, if the path leads to the device itself.
    pub(super) fn to_ourselves(&mut self, dev: &Dev) -> Option<Network> {
        let (path, route) = self.route(dev)?;
        Some(Network {
            vlan: route.to_ourselves()?,
            is_v6: path.addrs().is_v6(),
        })
    }

    /// Sends a packet, whose payload `fill` writes. Bottom halves are off.
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
        fill: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<(), TxError> {
        let Some((path, route)) = self.route(dev) else {
            dev.counters.inc(Counter::SendError);
            return Ok(());
        };
        let mut bth = Bth::new(packet.opcode, packet.dest.qpn().0, packet.psn);
        bth.solicited = packet.solicited;
        bth.ack_req = packet.ack_req;
        let frame = Frame {
            path,
            route,
            bth,
            ext: &packet.ext,
            // CAST: u32 to usize, lossless on the 64-bit machines we support.
            payload_len: packet.payload.len() as usize,
        };
        match net::send(&dev.endpoint, &frame, fill) {
            Ok(outcome) => {
                dev.counters.inc(Counter::SentPackets);
                let bytes = i64::try_from(outcome.bytes).unwrap_or(0);
                dev.counters.add(Counter::SentBytes, bytes);
                Ok(())
            }
            Err(net::TxError::NoMemory) => Err(TxError::Blocked),
            Err(net::TxError::Payload(_)) => Ok(()),
            Err(net::TxError::TooLong | net::TxError::Headers | net::TxError::Refused(_)) => {
                dev.counters.inc(Counter::SendError);
                Ok(())
            }
        }
    }

    /// The way, looked up anew if it does not hold any more.
    fn route(&mut self, dev: &Dev) -> Option<(&Path, &CachedRoute)> {
        let kept = self
            .route
            .take()
            .filter(|route| route.is_valid(&dev.endpoint));
        let route = match kept {
            Some(route) => route,
            None => {
                let gid = dev.source_gid(self.path.spec())?;
                self.path.resolve(&dev.endpoint, &gid).ok()?
            }
        };
        Some((&self.path, self.route.insert(route)))
    }
}
