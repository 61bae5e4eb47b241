// SPDX-License-Identifier: GPL-2.0

//! Datagrams to queue pairs of the same device.
//!
//! A datagram is handed to the receive half of its destination inside the sender's turn, if that
//! half is idle and nothing was sent to it before that has not arrived. Otherwise it takes the lane
//! (`net::local`), as a packet. So order is preserved, and nobody waits: there is no connection by
//! which a receiver could wake the sender.
//!
//! What a packet from the network goes through applies here, too: the destination may not exist, be
//! of another type, or have no receive request; the datagram is lost then.
//!
//! Context: the runner of the send half; softirq, or bottom halves off.

use super::super::recv::RecvHalf;
use super::super::send::SendIo;
use super::super::send::SendWorld;
use super::super::turn::bounded;
use super::super::turn::BUDGET;
use super::super::work;
use super::super::Notes;
use super::super::Qp;
use super::answers::received;
use super::requester::Data;
use super::Request;
use crate::device::MULTICAST_QPN;
use crate::net;
use crate::proto::Disposition;
use crate::proto::Progress;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::queue::cqe::Network;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;
use rdma::token::Turn;

/// What became of a datagram that was handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handed {
    /// It was received or dropped.
    Over,
    /// The half is busy, or must handle other packets first.
    Busy,
    /// Memory that it needs is absent.
    Parked,
}

impl SendWorld<'_> {
    /// Passes a datagram along `path`, which leads to this device, to its destination. Returns
    /// `None` if it must be sent as a packet.
    pub(in crate::qp) fn hand_datagram(
        &mut self,
        packet: &TxPacket,
        path: &net::Path,
        network: Network,
    ) -> Option<Result<(), TxError>> {
        let qp = self.qp;
        let dev = &qp.dev;
        let to = packet.dest.qpn().0;
        if to == MULTICAST_QPN || path.addrs().is_multicast() || !dev.endpoint.is_lane_empty(to) {
            return None;
        }
        if self.spent.all() {
            return Some(Err(TxError::Enough));
        }
        // Errors in local memory must not affect the receiver.
        if let Err(error) = self.check_payload(packet) {
            return Some(Err(error));
        }
        let len = packet.payload.len();
        let peer = dev.qps.borrow(to, self.rcu);
        let Some(peer) = peer.filter(|peer| peer.kind.is_datagram() && peer.hears_requests())
        else {
            self.spent.add(len);
            return Some(Ok(()));
        };
        // CAST: u32 to usize, lossless on the supported 64-bit machines.
        let grh = net::grh(path, packet.opcode, len as usize);
        let SendIo { queue, .. } = &mut *self.io;
        let mut data = Data::new(packet, queue, &mut self.batch);
        let handed = Qp::take_datagram(
            peer,
            Request {
                packet: &received(packet),
                from: path.addrs(),
                network,
                grh: Some(&grh),
                fill: &mut |at, room, locks| data.fill(at, room, locks),
            },
        );
        let failed = data.failed();
        match handed {
            Handed::Over => {
                self.spent.add(len);
                Some(Ok(()))
            }
            Handed::Parked => failed.map(|error| Err(self.refused(error))),
            Handed::Busy => None,
        }
    }
}

impl Qp {
    /// Runs a turn of the receive half inside the turn of a sender on this device, for its datagram.
    fn take_datagram(this: ArcBorrow<'_, Self>, request: Request<'_>) -> Handed {
        let mut request = Some(request);
        let mut handed = Handed::Busy;
        let kick = this.recv.kick_idle(
            0,
            bounded(|half: &mut RecvHalf, bits| {
                let Some(request) = request.take() else {
                    return Self::recv_turn(this, half, bits, &mut None);
                };
                let (turn, became) = Self::datagram_taken(this, half, request);
                handed = became;
                turn
            }),
        );
        match kick {
            Some(kick) => {
                Self::after_recv(this, kick);
                handed
            }
            None => Handed::Busy,
        }
    }

    /// Body of the first turn of [`Self::take_datagram`].
    fn datagram_taken(
        this: ArcBorrow<'_, Self>,
        half: &mut RecvHalf,
        mut request: Request<'_>,
    ) -> (Turn, Handed) {
        let RecvHalf {
            engine,
            io,
            backlog,
            delayed_ack: _,
            parked,
            requester_waits: _,
        } = half;
        // Packets that arrived earlier come first. Whoever queued them runs the half.
        if parked.is_some() || backlog.is_some() || this.requests.len() != 0 {
            return (Turn::Done, Handed::Busy);
        }
        // The next request that the user sends may be a reply.
        this.heard.store(true, Relaxed);
        let mut notes = Notes::NONE;
        let packet = *request.packet;
        let mut host = io.host_datagram(&this, request.borrow(), &mut notes);
        let disposition = engine.on_request(&packet, &mut host);
        this.count_dropped(disposition);
        host.drop_packet();
        let progress = engine.poll(&mut host, BUDGET);
        host.finish();
        drop(host);
        Self::after_recv_turn(this, &notes);
        let turn = match progress {
            Progress::Idle | Progress::Blocked => Turn::Done,
            // The engine is flushing.
            Progress::More => Turn::Later(work::POLL),
        };
        let handed = match disposition {
            Disposition::Parked => Handed::Parked,
            Disposition::Early | Disposition::Done | Disposition::Dropped(_) => Handed::Over,
        };
        (turn, handed)
    }
}
