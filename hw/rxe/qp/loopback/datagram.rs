// SPDX-License-Identifier: GPL-2.0

//! Datagrams to queue pairs of the same device.
//!
//! A datagram is handed to the receive half of its destination inside the sender's turn, if that
//! half is idle and nothing was sent to it before that has not arrived. Otherwise it takes the lane
//! (`net::local`), as a packet. So order is preserved, and nobody waits: there is no connection by
//! which a receiver could wake the sender.
//!
//! Consecutive datagrams of a turn to the same destination make one [`visit`](super::visit), which
//! ends with the turn, or earlier: with a datagram to another queue pair of this device, one that takes
//! the lane or the network, or one that is dropped, and when the receiver has an error.
//!
//! What a packet from the network goes through applies here, too: the destination may not exist, be
//! of another type, or have no receive request; the datagram is lost then.
//!
//! Context: the runner of the send half; softirq, or bottom halves off.

use super::super::send::SendIo;
use super::super::send::SendWorld;
use super::answers::received;
use super::requester::with_data;
use super::visit::Handed;
use super::Request;
use crate::device::MULTICAST_QPN;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::queue::cqe::Network;

/// The receiver that a queue pair number of this device refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiver {
    /// The queue pair that is being visited.
    Visited,
    /// The half is busy, or must handle other packets first.
    Busy,
    /// Nobody who receives datagrams.
    Nobody,
}

impl SendWorld<'_> {
    /// Passes a datagram to its destination on this device, to which the sender that was found last
    /// leads, which is not multicast. Returns `None` if it must be sent as a packet.
    pub(in crate::qp) fn hand_datagram(
        &mut self,
        packet: &TxPacket,
        network: Network,
    ) -> Option<Result<(), TxError>> {
        let to = packet.dest.qpn().0;
        if to == MULTICAST_QPN {
            return None;
        }
        if self.spent.all() {
            return Some(Err(TxError::Enough));
        }
        let len = packet.payload.len();
        match self.visit(to) {
            Receiver::Visited => {}
            Receiver::Busy => return None,
            Receiver::Nobody => {
                let checked = with_data(packet, &mut self.io.queue, &mut self.batch, |_| ());
                if let Err(error) = checked {
                    return Some(Err(self.refused(error)));
                }
                self.spent.add(len);
                return Some(Ok(()));
            }
        }
        let Self {
            io, batch, visit, ..
        } = self;
        let SendIo {
            queue,
            destinations,
            ..
        } = &mut **io;
        // CAST: u32 to usize, lossless on the supported 64-bit machines.
        let grh = destinations.found()?.grh(packet.opcode, len as usize)?;
        let half = visit.half()?;
        // Errors in local memory must not affect the receiver.
        let handed = with_data(packet, queue, batch, |data| {
            let handed = half.receive(Request {
                packet: &received(packet),
                network,
                grh: Some(grh),
                fill: &mut |at, room, locks| data.fill(at, room, locks),
            });
            (handed, data.failed())
        });
        match handed {
            Err(error) => Some(Err(self.refused(error))),
            Ok((Handed::Over, _)) => {
                self.spent.add(len);
                Some(Ok(()))
            }
            Ok((Handed::Dropped, _)) => {
                self.spent.add(len);
                // A sender with a wrong Q_Key, say, must not keep the receiver busy.
                self.end_visit();
                Some(Ok(()))
            }
            Ok((Handed::Parked, failed)) => failed.map(|error| Err(self.refused(error))),
        }
    }

    /// Visits queue pair `to` of this device, unless this is the present visit.
    #[inline]
    fn visit(&mut self, to: u32) -> Receiver {
        if self.visit.goes_on(to) {
            return Receiver::Visited;
        }
        self.begin_visit(to)
    }

    #[inline(never)]
    fn begin_visit(&mut self, to: u32) -> Receiver {
        self.end_visit();
        let dev = &self.qp.dev;
        if !dev.endpoint.is_lane_empty(to) {
            return Receiver::Busy;
        }
        let peer = dev.qps.borrow(to, self.rcu);
        let Some(peer) = peer.filter(|peer| peer.kind.is_datagram() && peer.hears_requests())
        else {
            return Receiver::Nobody;
        };
        if !self.visit.begin(peer) {
            return Receiver::Busy;
        }
        if self
            .visit
            .half()
            .is_some_and(|half| half.has_earlier_packets())
        {
            self.end_visit();
            return Receiver::Busy;
        }
        Receiver::Visited
    }

    /// Ends the present visit, if there is one.
    #[inline]
    pub(in crate::qp) fn end_visit(&mut self) {
        self.visit.end();
    }
}
