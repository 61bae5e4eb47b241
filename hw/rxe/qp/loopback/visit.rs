// SPDX-License-Identifier: GPL-2.0

//! Visits: a receive half on this device that is taken for several requests of a sender's turn.
//!
//! The half is taken once, its regions are looked up once, and its consumer is notified at the end.
//! Packets that arrive meanwhile are queued and follow. A visit ends with the turn at the latest,
//! which limits its requests.
//!
//! Context: the runner of the send half; softirq, or bottom halves off.

use super::super::recv::RecvHalf;
use super::super::turn::bounded;
use super::super::turn::BUDGET;
use super::super::work;
use super::super::Notes;
use super::super::Qp;
use super::Answers;
use super::Request;
use crate::cq::Told;
use crate::mem::Batch;
use crate::proto::Disposition;
use crate::proto::Progress;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;
use rdma::token::Exclusive;

/// What became of a request that was handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    /// It was received.
    Over,
    /// The receiver dropped it.
    Dropped,
    /// Memory that it needs is absent.
    Parked,
}

/// The present visit of a sender's turn, if there is one. Its drop ends it: what the half was kicked
/// for meanwhile is done, and consumers are notified.
pub(in crate::qp) struct Visit<'a>(Option<TakenHalf<'a>>);

impl<'a> Visit<'a> {
    /// No visit.
    pub(in crate::qp) const NONE: Self = Self(None);

    /// Returns whether this is a visit to queue pair `number` that takes another request.
    #[inline(always)]
    pub(super) fn goes_on(&self, number: u32) -> bool {
        matches!(&self.0, Some(half) if half.qp.number == number && half.goes_on())
    }

    /// Begins a visit to `qp`, if its receive half is idle; one that is still present ends first. Returns
    /// whether the half is visited.
    #[inline]
    pub(super) fn begin(&mut self, qp: ArcBorrow<'a, Qp>) -> bool {
        self.end();
        self.0 = TakenHalf::take(qp);
        self.0.is_some()
    }

    /// Returns the half that is being visited.
    #[inline]
    pub(super) fn half(&mut self) -> Option<&mut TakenHalf<'a>> {
        self.0.as_mut()
    }

    /// Ends the visit, if there is one.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.0.is_some() {
            self.leave(None);
        }
    }

    /// Ends the visit to a connected queue pair, whose responses are put into `answers`. Returns
    /// whether it has more of them; `None` if there was no visit.
    #[inline]
    pub(super) fn end_with(&mut self, answers: &mut Answers) -> Option<bool> {
        match self.0 {
            Some(_) => self.leave(Some(answers)),
            None => None,
        }
    }

    #[inline(never)]
    fn leave(&mut self, answers: Option<&mut Answers>) -> Option<bool> {
        let half = self.0.take()?;
        Some(half.release(answers))
    }
}

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

/// A receive half on this device that takes requests of a sender's turn. Only [`Visit`] makes one, and
/// ends it by [`Self::release`].
pub(super) struct TakenHalf<'a> {
    qp: ArcBorrow<'a, Qp>,
    half: Exclusive<'a, RecvHalf>,
    batch: Batch<'a>,
    notes: Notes,
}

impl<'a> TakenHalf<'a> {
    /// Takes the receive half of `qp`, if it is idle.
    #[inline]
    fn take(qp: ArcBorrow<'a, Qp>) -> Option<Self> {
        let there = rdma::table::plain(qp);
        Some(Self {
            qp,
            half: there.recv.exclusive_idle()?,
            batch: there.batch(),
            notes: Notes::NONE,
        })
    }

    /// Returns the half.
    #[inline]
    pub(super) fn state(&mut self) -> &mut RecvHalf {
        &mut self.half
    }

    /// Returns whether packets arrived earlier that it has not handled. Whoever queued them runs the
    /// half.
    #[inline]
    pub(super) fn has_earlier_packets(&self) -> bool {
        self.half.parked.is_some() || self.half.backlog.is_some() || self.qp.requests.len() != 0
    }

    /// Returns whether the half takes another request. After an error it does not: the queue pair is
    /// about to fail, and must take no more requests from a shared receive queue.
    #[inline]
    fn goes_on(&self) -> bool {
        let is_well = matches!(self.notes.told, Told::Nothing | Told::Completed);
        is_well
            && !self.notes.has_events()
            && self.notes.fault.is_none()
            && self.qp.hears_requests()
    }

    /// Passes a request to the half.
    #[inline(always)]
    pub(super) fn receive(&mut self, mut request: Request<'_>) -> Handed {
        // The next request that the user sends may be a reply.
        self.qp.heard.store(true, Relaxed);
        let RecvHalf { engine, io, .. } = &mut *self.half;
        let packet = request.packet;
        let mut host =
            io.host_request(&self.qp, &mut self.batch, request.borrow(), &mut self.notes);
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

    /// Ends the turn of the half, and releases it. Consumers are notified. Responses are put into
    /// `answers`; returns whether there are more of them.
    fn release(self, answers: Option<&mut Answers>) -> bool {
        let Self {
            qp,
            mut half,
            mut batch,
            mut notes,
        } = self;
        let RecvHalf { engine, io, .. } = &mut *half;
        let mut host = match answers {
            Some(answers) => io.host_answers(&qp, &mut batch, answers, &mut notes),
            None => io.host(&qp, &mut batch, &mut notes),
        };
        let progress = engine.poll(&mut host, BUDGET);
        host.finish();
        drop(host);
        drop(batch);
        Qp::after_recv_turn(qp, &notes);
        if notes.flushes {
            // The requester tries again, in a turn of its own.
            qp.recv_wanted.store(1, Relaxed);
        }
        let owed = match progress {
            Progress::Idle => false,
            Progress::Blocked => true,
            Progress::More => {
                // The engine is flushing. The token is taken, so this only records the work.
                Qp::kick_recv(qp, work::POLL);
                false
            }
        };
        let turn = bounded(|half, bits| Qp::recv_turn(qp, half, bits, &mut None));
        Qp::after_recv(qp, half.finish(turn));
        owed
    }
}
