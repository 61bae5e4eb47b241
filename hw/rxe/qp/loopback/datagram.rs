// SPDX-License-Identifier: GPL-2.0

//! Datagrams to queue pairs of the same device.
//!
//! A datagram is handed to the receive half of its destination inside the sender's turn, if that
//! half is idle and nothing was sent to it before that has not arrived. Otherwise it takes the lane
//! (`net::local`), as a packet. So order is preserved, and nobody waits: there is no connection by
//! which a receiver could wake the sender.
//!
//! Consecutive datagrams of a turn to the same destination make one *visit*: the receive half is
//! taken once, its regions are looked up once, and its consumer is notified at the end. Packets that
//! arrive meanwhile are queued and follow. A visit ends with the turn, which limits its datagrams, or
//! earlier: with a datagram to another queue pair of this device, one that takes the lane or the
//! network, or one that is dropped, and when the receiver has an error.
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
use super::requester::with_data;
use super::Request;
use crate::cq::Told;
use crate::device::MULTICAST_QPN;
use crate::mem::Batch;
use crate::proto::Disposition;
use crate::proto::Progress;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::queue::cqe::Network;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;
use rdma::token::Exclusive;

/// What became of a datagram that was handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handed {
    /// It was received.
    Over,
    /// The receiver dropped it.
    Dropped,
    /// Memory that it needs is absent.
    Parked,
}

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
    /// leads. Returns `None` if it must be sent as a packet.
    pub(in crate::qp) fn hand_datagram(
        &mut self,
        packet: &TxPacket,
        network: Network,
    ) -> Option<Result<(), TxError>> {
        let to = packet.dest.qpn().0;
        let addrs = self.io.destinations.found()?.path().addrs();
        if to == MULTICAST_QPN || addrs.is_multicast() {
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
        let (from, grh) = destinations.found()?.outer(packet.opcode, len as usize)?;
        let visit = visit.0.as_mut()?;
        // Errors in local memory must not affect the receiver.
        let handed = with_data(packet, queue, batch, |data| {
            let handed = visit.receive(Request {
                packet: &received(packet),
                from,
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
        match &self.visit.0 {
            Some(visit) if visit.qp.number == to && visit.goes_on() => Receiver::Visited,
            Some(_) | None => self.begin_visit(to),
        }
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
        self.visit = DatagramVisit(TakenHalf::take(peer));
        match self.visit.0 {
            Some(_) => Receiver::Visited,
            None => Receiver::Busy,
        }
    }

    /// Ends the present visit, if there is one.
    #[inline]
    pub(in crate::qp) fn end_visit(&mut self) {
        self.visit.end();
    }
}

/// The present visit of a sender's turn, if there is one. Its drop ends it: what the half was kicked
/// for meanwhile is done, and consumers are notified.
pub(in crate::qp) struct DatagramVisit<'a>(Option<TakenHalf<'a>>);

impl DatagramVisit<'_> {
    /// No visit.
    pub(in crate::qp) const NONE: Self = Self(None);

    #[inline]
    fn end(&mut self) {
        if self.0.is_some() {
            self.leave();
        }
    }

    #[inline(never)]
    fn leave(&mut self) {
        if let Some(half) = self.0.take() {
            half.release();
        }
    }
}

impl Drop for DatagramVisit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

/// A receive half on this device that takes datagrams of a sender's turn. Private to this file: a
/// [`DatagramVisit`] has it, and calls [`Self::release`].
struct TakenHalf<'a> {
    qp: ArcBorrow<'a, Qp>,
    half: Exclusive<'a, RecvHalf>,
    batch: Batch<'a>,
    notes: Notes,
}

impl<'a> TakenHalf<'a> {
    /// Takes the receive half of `qp`, if it is idle.
    fn take(qp: ArcBorrow<'a, Qp>) -> Option<Self> {
        let there = rdma::table::plain(qp);
        let half = there.recv.exclusive_idle()?;
        let taken = Self {
            qp,
            half,
            batch: there.batch(),
            notes: Notes::NONE,
        };
        // Packets that arrived earlier come first. Whoever queued them runs the half.
        if taken.half.parked.is_some() || taken.half.backlog.is_some() || qp.requests.len() != 0 {
            taken.release();
            return None;
        }
        Some(taken)
    }

    /// Returns whether the half takes another datagram. After an error it does not: the queue pair is
    /// about to fail, and must take no more requests from a shared receive queue.
    #[inline]
    fn goes_on(&self) -> bool {
        let is_well = matches!(self.notes.told, Told::Nothing | Told::Completed);
        is_well
            && !self.notes.has_events()
            && self.notes.fault.is_none()
            && self.qp.hears_requests()
    }

    /// Passes a datagram to the half.
    fn receive(&mut self, mut request: Request<'_>) -> Handed {
        // The next request that the user sends may be a reply.
        self.qp.heard.store(true, Relaxed);
        let RecvHalf { engine, io, .. } = &mut *self.half;
        let packet = request.packet;
        let mut host =
            io.host_datagram(&self.qp, &mut self.batch, request.borrow(), &mut self.notes);
        let disposition = engine.on_request(packet, &mut host);
        drop(host);
        match disposition {
            Disposition::Parked => Handed::Parked,
            Disposition::Early | Disposition::Done => Handed::Over,
            Disposition::Dropped(_) => {
                self.qp.count_dropped(disposition);
                Handed::Dropped
            }
        }
    }

    /// Ends the turn of the half, and releases it. Consumers are notified.
    fn release(self) {
        let Self {
            qp,
            mut half,
            mut batch,
            mut notes,
        } = self;
        let RecvHalf { engine, io, .. } = &mut *half;
        let mut host = io.host(&qp, &mut batch, &mut notes);
        let progress = engine.poll(&mut host, BUDGET);
        host.finish();
        drop(host);
        drop(batch);
        Qp::after_recv_turn(qp, &notes);
        match progress {
            Progress::Idle | Progress::Blocked => {}
            // The engine is flushing. The token is taken, so this only records the work.
            Progress::More => Qp::kick_recv(qp, work::POLL),
        }
        let turn = bounded(|half, bits| Qp::recv_turn(qp, half, bits, &mut None));
        Qp::after_recv(qp, half.finish(turn));
    }
}
