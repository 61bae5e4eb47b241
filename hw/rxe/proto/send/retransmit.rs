// SPDX-License-Identifier: GPL-2.0

//! Minimal retransmission: of the oldest unacknowledged packet, and the conclusions from its
//! acknowledgment. The parent module explains the concept.

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

/// Number of failed single retransmissions after which go-back-N is used at once.
const DOUBTS: u32 = 2;
/// Number of gaps that are filled one by one after a probe.
const GAPS: u32 = 3;
/// Number of go-back-N retransmissions before such a peer is tried again.
const TRY_AGAIN: u32 = 8;

/// State of the single retransmission of the oldest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SingleRetransmit {
    /// The packet is to be sent.
    wanted: bool,
    /// The packet was sent at this time and is not acknowledged.
    sent: Option<(Psn, Nanos)>,
    /// PSNs before this one were retransmitted or requested again.
    until: Option<Psn>,
    /// The value last set in `until`, kept after those PSNs are acknowledged.
    reach: Option<Psn>,
    /// The oldest read was requested again in part, so that a response in its middle may be marked
    /// as the last.
    pub(super) cut: bool,
    /// A gap was filled; check for another one.
    pub(super) look: bool,
    /// Number of consecutive probes whose acknowledgment showed another gap.
    gaps: u32,
    /// Number of recent single retransmissions that did not help.
    doubts: u32,
    /// Number of go-back-N retransmissions used instead since then.
    skipped: u32,
}

/// A packet that was retransmitted only because no response arrived. If the retransmission was
/// spurious, the packet is acknowledged twice, and the second acknowledgment is that of the
/// retransmission, unless something else was retransmitted since or a later packet was
/// acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RttProbe {
    psn: Psn,
    /// Time of its first retransmission.
    at: Nanos,
    /// The first PSN that had not been sent by then.
    top: Psn,
}

/// How long to wait for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Time before it counts against `retry_cnt`.
    deadline: Nanos,
    /// Time before a probe is sent.
    probe: Nanos,
}

/// Kind of response that advanced the oldest unacknowledged PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// An acknowledgment of all packets that the peer has received in order.
    Ack,
    /// The same, reporting the next packet as missing.
    Nak,
    /// A response, which says nothing about other packets.
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

    /// Called when everything is retransmitted instead.
    pub(super) fn stop(&mut self) {
        self.wanted = false;
        self.sent = None;
        self.until = None;
        self.reach = None;
        self.look = false;
        self.gaps = 0;
    }

    /// Called when the oldest packet has changed.
    pub(super) fn moved(&mut self) {
        self.wanted = false;
    }

    /// Requests a single retransmission. Returns `false` if the peer is known to keep nothing.
    fn want(&mut self) -> bool {
        if self.doubts >= DOUBTS && self.skipped < TRY_AGAIN {
            self.skipped = self.skipped.saturating_add(1);
            return false;
        }
        self.skipped = 0;
        self.wanted = true;
        true
    }

    /// Returns whether it is requested, or sent and not acknowledged.
    pub(super) fn is_pending(&self) -> bool {
        self.wanted || self.sent.is_some()
    }

    /// Returns whether it is requested.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Records that it did not help.
    fn doubt(&mut self) {
        self.doubts = self.doubts.saturating_add(1);
    }
}

impl<S: Slots> SendSide<S> {
    /// Retransmits the oldest unacknowledged packet, or all of them if the peer keeps nothing.
    pub(super) fn resend_one_or_all(&mut self) {
        // A sample would include the time of the recovery and increase all later timeouts.
        self.timed = None;
        if self.nxt == self.una {
            // It is the next packet anyway.
            return;
        }
        if !self.single.want() {
            self.go_back();
        }
    }

    /// Sends a probe after a longer wait than usual: one packet whose response reveals the state.
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
            // The retransmitted packets were received, but none behind them.
            self.single.doubt();
        }
        self.probes = self.probes.saturating_add(1);
        self.resend_one_or_all();
        // A sequence NAK for the packets sent from now on is news.
        self.seq_nak = SeqNak::News;
        let probe_at = self.waits.map(|waits| now.after(self.probe_after(waits)));
        self.wait = Wait::Answer { deadline, probe_at };
    }

    /// Handles a duplicate response. If it belongs to a probe, the probe was spurious, and the
    /// round-trip time is now known.
    pub(super) fn answered_twice(&mut self, now: Nanos, psn: Psn) {
        // An older one was only late.
        if let Some(probe) = self.rtt_probe.take_if(|probe| !psn.is_before(probe.psn)) {
            self.window.sample(Nanos(now.0.saturating_sub(probe.at.0)));
            self.window.not_lost();
            self.set_waits();
            if self.outstanding() != 0 {
                self.wait_from(now);
            }
        }
    }

    /// Starts waiting for a response now.
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

    /// Recalculates the timeouts after a change of the queue pair's timeout or the round-trip
    /// times.
    pub(super) fn set_waits(&mut self) {
        self.waits = self.attr.timeout.map(|least| {
            // The timeout is the minimum; up to four times as much is allowed (IBTA 9.7.6.1.3).
            let most = Nanos(least.0.saturating_mul(4));
            let twice = Nanos(self.window.longest().0.saturating_mul(2));
            Waits {
                deadline: twice.min(most).max(least),
                probe: self.window.probe_timeout(least),
            }
        });
    }

    /// Sends the oldest unacknowledged packet, if requested. For a read, requests the responses up
    /// to the first one already received.
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

    /// Evaluates a response after a single retransmission. Returns whether everything must be
    /// retransmitted.
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
            // A response this soon is not for the retransmission: the original packet was only
            // late.
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
            // Before the first round-trip sample this may be the response to another packet.
            let known = self.window.shortest() != Nanos(0);
            if by != By::Ack || !broken || !known || self.nxt == self.una {
                self.single.gaps = 0;
                return false;
            }
            // The response covers everything sent before the probe, and there is another gap.
            // Filling gaps one by one costs a round trip for each.
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

    /// Called when a packet is sent for the first time: starts measuring, unless a measurement is
    /// in progress.
    #[inline]
    pub(super) fn time(&mut self, psn: Psn, now: Nanos) {
        // A few samples per round trip suffice.
        let due = psn.get() & 7 == 0 || self.window.shortest() == Nanos(0);
        if due && self.timed.is_none() {
            self.timed = Some((psn, now));
        }
    }

    /// Called when everything before `una` is acknowledged.
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
