// SPDX-License-Identifier: GPL-2.0

//! Sending again as little as will do: the oldest unanswered packet, and what its answer
//! tells. The parent module has the idea.

use crate::wire::Ext;
use crate::wire::Psn;

use super::super::host::Progress;
use super::super::host::SendHost;
use super::super::host::TxError;
use super::super::packet::Dest;
use super::super::packet::TxPacket;
use super::super::types::ahead;
use super::super::types::Nanos;
use super::super::wqe::SendOp;
use super::request;
use super::SendSide;
use super::SeqNak;
use super::SlotState;
use super::Slots;
use super::Step;
use super::Wait;

/// How often a peer must be seen to keep nothing before we go back at once.
const DOUBTS: u32 = 2;
/// How many gaps are filled one by one after a silence.
const GAPS: u32 = 3;
/// How often we go back at once before such a peer is tried again.
const TRY_AGAIN: u32 = 8;

/// The oldest packet sent again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SingleRetransmit {
    /// It is to be sent.
    wanted: bool,
    /// It was sent and is not answered.
    sent: Option<(Psn, Nanos)>,
    /// The PSNs before this one were sent or asked for again.
    until: Option<Psn>,
    /// The last of these, even if they are answered.
    reach: Option<Psn>,
    /// The oldest read was asked for in part, so that one of its responses may call itself
    /// the last.
    pub(super) cut: bool,
    /// A gap that was filled is not the only one.
    pub(super) look: bool,
    /// How often it broke silence, and the answer showed another gap behind.
    gaps: u32,
    /// How often it was of no use lately.
    doubts: u32,
    /// How often we retransmitted instead since.
    skipped: u32,
}

/// A packet that was sent again only because nobody answered. If it was for nothing, it is
/// answered twice, and the second answer is its own; unless something else was sent again
/// since, or what was sent later is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RttProbe {
    psn: Psn,
    /// When it was first sent again.
    at: Nanos,
    /// The first PSN that had not been sent then.
    top: Psn,
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Before it counts against `retry_cnt`.
    deadline: Nanos,
    /// Before a probe is sent.
    probe: Nanos,
}

/// What kind of answer moved the oldest unanswered PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// An acknowledgement of all that the peer has.
    Ack,
    /// The same, and that what comes next is missing.
    Nak,
    /// A response, which tells nothing of others.
    Data,
}

impl SingleRetransmit {
    pub(super) const NEW: Self = Self {
        wanted: false,
        sent: None,
        until: None,
        reach: None,
        cut: false,
        look: false,
        gaps: 0,
        doubts: 0,
        skipped: 0,
    };

    /// All is sent again instead.
    pub(super) fn stop(&mut self) {
        self.wanted = false;
        self.sent = None;
        self.until = None;
        self.reach = None;
        self.look = false;
        self.gaps = 0;
    }

    /// The oldest packet is another one now.
    pub(super) fn moved(&mut self) {
        self.wanted = false;
    }

    /// It is to be sent, unless the peer is known to keep nothing.
    fn want(&mut self) -> bool {
        if self.doubts >= DOUBTS && self.skipped < TRY_AGAIN {
            self.skipped = self.skipped.saturating_add(1);
            return false;
        }
        self.skipped = 0;
        self.wanted = true;
        true
    }

    /// Whether it was sent, and is not answered.
    pub(super) fn is_pending(&self) -> bool {
        self.wanted || self.sent.is_some()
    }

    /// Whether it is to be sent.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// It was in vain.
    fn doubt(&mut self) {
        self.doubts = self.doubts.saturating_add(1);
    }
}

impl<S: Slots> SendSide<S> {
    /// Sends the oldest unanswered packet again, or all of them if the peer keeps nothing.
    pub(super) fn resend_one_or_all(&mut self) {
        // An answer would tell how long the repair took, and make us wait longer each time.
        self.timed = None;
        if self.nxt == self.una {
            // It is the next one anyway.
            return;
        }
        if !self.single.want() {
            self.go_back();
        }
    }

    /// Nobody answered for longer than usual. One packet tells what is the matter.
    pub(super) fn probe(&mut self, now: Nanos) {
        let Wait::Answer { deadline, .. } = self.wait else {
            return;
        };
        self.wait = Wait::Answer {
            deadline,
            probe_at: None,
        };
        if self.outstanding() == 0 || self.nxt == self.una {
            return;
        }
        if self.single.reach.take() == Some(self.una) {
            // What was sent again got through, and nothing behind it.
            self.single.doubt();
        }
        self.probes = self.probes.saturating_add(1);
        self.resend_one_or_all();
        // A sequence NAK for what is sent now is news.
        self.seq_nak = SeqNak::News;
        let probe_at = self.waits.map(|waits| now.after(self.probe_after(waits)));
        self.wait = Wait::Answer { deadline, probe_at };
    }

    /// Something came that had been answered before. If it answers a probe that broke
    /// silence, there was no need to ask, and now it is known how long answers take.
    pub(super) fn answered_twice(&mut self, now: Nanos, psn: Psn) {
        // What is older was only late.
        if let Some(probe) = self.rtt_probe.take_if(|probe| !psn.is_before(probe.psn)) {
            self.window.sample(Nanos(now.0.saturating_sub(probe.at.0)));
            self.window.not_lost();
            self.set_waits();
            if self.outstanding() != 0 {
                self.wait_from(now);
            }
        }
    }

    /// ReorderThreshold begins now.
    pub(super) fn wait_from(&mut self, now: Nanos) {
        self.wait = match self.waits {
            None => Wait::Nothing,
            Some(waits) => Wait::Answer {
                deadline: now.after(waits.deadline),
                probe_at: Some(now.after(self.probe_after(waits))),
            },
        };
    }

    #[inline]
    fn probe_after(&self, waits: Waits) -> Nanos {
        match self.probes {
            0 => waits.probe,
            asked => Nanos(waits.probe.0.saturating_mul(1 << asked.min(16))),
        }
    }

    /// Timeout or round trips have changed.
    pub(super) fn set_waits(&mut self) {
        self.waits = self.attr.timeout.map(|least| {
            // The timeout is the least; four times as much is allowed (IBTA 9.7.6.1.3).
            let most = Nanos(least.0.saturating_mul(4));
            let twice = Nanos(self.window.longest().0.saturating_mul(2));
            Waits {
                deadline: twice.min(most).max(least),
                probe: self.window.probe_timeout(least),
            }
        });
    }

    /// Sends the oldest unanswered packet, if that is wanted. Of a read, asks for the
    /// responses up to the first that is here.
    #[inline]
    pub(super) fn send_single(&mut self, now: Nanos, host: &mut impl SendHost) -> Option<Step> {
        if self.single.wanted || self.single.look {
            self.send_oldest(now, host)
        } else {
            None
        }
    }

    #[cold]
    fn send_oldest(&mut self, now: Nanos, host: &mut impl SendHost) -> Option<Step> {
        if core::mem::take(&mut self.single.look)
            && !self.single.is_pending()
            && host
                .first_early()
                .is_some_and(|first| first.is_after(self.una))
        {
            self.single.want();
        }
        if !self.single.wanted {
            return None;
        }
        if self.nxt == self.una {
            self.single.wanted = false;
            return None;
        }
        let Some((wqe, run)) = self.oldest_started() else {
            self.single.wanted = false;
            return None;
        };
        let slot = self.index(0);
        let index = ahead(run.first, self.una);
        let shape = request::shape(&self.attr, &wqe, slot, index, &run)?;
        let (mut ext, mut psns) = (shape.ext, shape.psns);
        let mut cut = false;
        if let (SendOp::Read { .. }, Ext::Reth(reth)) = (wqe.op, &mut ext) {
            let here = host
                .first_early()
                .map_or(psns, |first| ahead(self.una, first));
            if here != 0 && here < psns {
                psns = here;
                reth.length = reth.length.min(here.saturating_mul(run.mtu));
                cut = true;
            }
        }
        let packet = TxPacket {
            opcode: shape.opcode,
            psn: self.una,
            ack_req: true,
            solicited: shape.solicited,
            ext,
            payload: shape.payload,
            dest: Dest::Peer(self.attr.dest),
            mtu: run.mtu,
        };
        Some(match host.emit(&packet) {
            Ok(()) => {
                self.single.wanted = false;
                self.single.sent = Some((self.una, now));
                self.rtt_probe = match self.rtt_probe {
                    Some(probe) if probe.psn == self.una => Some(probe),
                    Some(_) | None => (self.probes != 0).then_some(RttProbe {
                        psn: self.una,
                        at: now,
                        top: self.top,
                    }),
                };
                self.single.until = Some(self.una + psns);
                self.single.reach = self.single.until;
                self.single.cut |= cut;
                if self.wait == Wait::Nothing {
                    self.wait_from(now);
                }
                Step::Again
            }
            Err(TxError::Blocked) => Step::Stop(Progress::Blocked),
            Err(TxError::Enough) => Step::Stop(Progress::More),
            Err(TxError::BadPayload(status)) => {
                self.single.wanted = false;
                self.set_oldest(SlotState::Failed(status));
                Step::Again
            }
        })
    }

    /// The oldest unanswered PSN may have moved on. Answers whether that tells that all
    /// should be sent again.
    #[inline]
    pub(super) fn single_answered(&mut self, now: Nanos, by: By) -> bool {
        (self.single.until.is_some() || self.single.sent.is_some()) && self.judge(now, by)
    }

    fn judge(&mut self, now: Nanos, by: By) -> bool {
        if self
            .single
            .until
            .is_some_and(|until| !until.is_after(self.una))
        {
            self.single.until = None;
            self.single.look = true;
        }
        let Some((psn, at)) = self.single.sent else {
            return false;
        };
        if !self.una.is_after(psn) {
            return false;
        }
        self.single.sent = None;
        let span = Nanos(now.0.saturating_sub(at.0));
        if self.rtt_probe.is_none_or(|probe| probe.at == at) {
            self.window.guess(span);
            self.set_waits();
        }
        if span < self.window.shortest() {
            // So soon nobody can have answered: it was only late.
            self.window.not_lost();
            return false;
        }
        if self.rtt_probe.is_none() {
            self.window.was_lost();
        }
        if self.una != psn + 1 {
            self.single.doubts = 0;
            let broken = self
                .rtt_probe
                .is_some_and(|probe| probe.psn == psn && self.una.is_before(probe.top));
            // As long as nobody knows round trips, this may be the answer to something else.
            let known = self.window.shortest() != Nanos(0);
            if by != By::Ack || !broken || !known || self.nxt == self.una {
                self.single.gaps = 0;
                return false;
            }
            // The answer tells of all that was sent before the probe, and there is
            // another gap. Gaps cost a round trip each if they are filled one by one.
            self.single.gaps = self.single.gaps.saturating_add(1);
            return self.single.gaps >= GAPS || !self.single.want();
        }
        match by {
            _ if self.outstanding() == 0 || self.nxt == self.una => false,
            By::Ack => {
                self.single.doubt();
                true
            }
            By::Nak => {
                self.single.doubt();
                false
            }
            By::Data => false,
        }
    }

    /// A packet was sent for the first time: its answer is timed, if none is.
    #[inline]
    pub(super) fn time(&mut self, psn: Psn, now: Nanos) {
        // A few samples in each round trip say as much as many.
        let due = psn.get() & 7 == 0 || self.window.shortest() == Nanos(0);
        if due && self.timed.is_none() {
            self.timed = Some((psn, now));
        }
    }

    /// Everything before `una` is answered.
    #[inline]
    pub(super) fn clock(&mut self, now: Nanos) {
        if self
            .rtt_probe
            .is_some_and(|probe| self.una.is_after(probe.top))
        {
            self.rtt_probe = None;
            self.window.was_lost();
        }
        if let Some((psn, at)) = self.timed {
            if self.una.is_after(psn) {
                self.timed = None;
                self.window.sample(Nanos(now.0.saturating_sub(at.0)));
                self.set_waits();
            }
        }
    }
}
