// SPDX-License-Identifier: GPL-2.0

//! Handling of the peer's acknowledgments and responses.
//!
//! A response names a PSN and thereby acknowledges all sends and writes before it. Reads, atomics,
//! atomic writes and flushes are completed only by their own response, so a response beyond a
//! missing one means that the missing one was lost, and acts like a NAK (IBTA 9.7.5, "implied
//! NAK").

use crate::wire::AethSyndrome;
use crate::wire::Ext;
use crate::wire::NakCode;
use crate::wire::Opcode;
use crate::wire::Operation;
use crate::wire::Position;
use crate::wire::Psn;
use crate::wire::RnrTimer;
use crate::wire::Transport;

use super::super::early::within_reach;
use super::super::host::Counter;
use super::super::host::Disposition;
use super::super::host::DropCause;
use super::super::host::LocalFault;
use super::super::host::SendHost;
use super::super::packet::RxPacket;
use super::super::types::ahead;
use super::super::types::Nanos;
use super::super::types::QpType;
use super::super::types::WcStatus;
use super::super::wqe::SendOp;
use super::retransmit::By;
use super::Gate;
use super::SendSide;
use super::SeqNak;
use super::Slot;
use super::SlotState;
use super::Slots;
use super::Wait;

/// Meaning of an acknowledgment or response.
enum Answer {
    /// Acknowledges everything up to and including its PSN.
    Ack,
    /// RNR NAK for its PSN.
    Rnr(RnrTimer),
    /// Sequence NAK: its PSN is missing.
    Missing,
    /// The request at its PSN failed.
    Refused(WcStatus),
    /// Data, or the empty response to a flush or an atomic write.
    Data(Position),
    /// Previous value returned by an atomic operation.
    Found(u64),
}

impl Answer {
    fn of(packet: &RxPacket) -> Option<Answer> {
        if packet.opcode.transport() != Transport::Rc {
            return None;
        }
        let syndrome = packet.ext.aeth().map(|aeth| aeth.syndrome);
        let acks = matches!(syndrome, Some(AethSyndrome::Ack { credit: _ }));
        match packet.opcode.operation() {
            Operation::Acknowledge => Some(match syndrome? {
                AethSyndrome::Ack { credit: _ } => Answer::Ack,
                AethSyndrome::Rnr(timer) => Answer::Rnr(timer),
                AethSyndrome::Nak(code) => match code {
                    NakCode::PsnSequence => Answer::Missing,
                    NakCode::InvalidRequest => Answer::Refused(WcStatus::RemInvReq),
                    NakCode::RemoteAccess => Answer::Refused(WcStatus::RemAccess),
                    NakCode::RemoteOperation => Answer::Refused(WcStatus::RemOp),
                },
            }),
            Operation::AtomicAcknowledge => match packet.ext {
                Ext::AethAtomicAck(_, found) if acks => Some(Answer::Found(found.original)),
                // OTHERS: The header does not match the opcode; such packets are dropped before.
                _ => None,
            },
            Operation::ReadResponse => match packet.opcode.position() {
                Position::Middle => Some(Answer::Data(Position::Middle)),
                position @ (Position::First | Position::Last | Position::Only) => {
                    acks.then_some(Answer::Data(position))
                }
            },
            Operation::Send
            | Operation::Write
            | Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::Flush
            | Operation::AtomicWrite
            | Operation::CongestionNotification => None,
        }
    }
}

/// Whether everything before a PSN was acknowledged.
#[derive(PartialEq, Eq)]
enum Reached {
    Yes,
    /// The oldest request still needs a response that should have arrived earlier.
    No,
}

impl<S: Slots> SendSide<S> {
    /// Handles a response or acknowledgment. The host polls at the end of the run.
    pub fn on_response(
        &mut self,
        now: Nanos,
        packet: &RxPacket,
        host: &mut impl SendHost,
    ) -> Disposition {
        if packet.opcode == Opcode::Cnp {
            return self.on_notice(now, host);
        }
        match self.gate {
            Gate::Closed | Gate::Error => return Disposition::Dropped(DropCause::State),
            Gate::Open | Gate::Draining | Gate::Drained => {}
        }
        let answer = match Answer::of(packet) {
            Some(answer) if self.attr.kind == QpType::Rc => answer,
            Some(_) | None => return Disposition::Dropped(DropCause::Opcode),
        };
        if ahead(self.una, packet.psn) >= self.outstanding() {
            self.reordering.again(packet.psn);
            self.answered_twice(now, packet.psn);
            let cause = if packet.psn.is_before(self.una) {
                DropCause::Duplicate
            } else {
                DropCause::Unsolicited
            };
            return Disposition::Dropped(cause);
        }
        match answer {
            Answer::Ack => match self.reach(now, packet.psn + 1, host) {
                Reached::Yes => {
                    if self.single_answered(now, By::Ack) {
                        self.go_back();
                    }
                    Disposition::Done
                }
                Reached::No => self.on_early(now, packet, host),
            },
            Answer::Rnr(timer) => match self.reach(now, packet.psn, host) {
                Reached::Yes => self.on_rnr(now, timer, host),
                Reached::No => self.on_early(now, packet, host),
            },
            Answer::Missing => {
                host.count(Counter::SequenceNakReceived);
                let _: Reached = self.reach(now, packet.psn, host);
                let _: bool = self.single_answered(now, By::Nak);
                self.on_missing(now, host)
            }
            Answer::Refused(status) => match self.reach(now, packet.psn, host) {
                Reached::Yes => {
                    self.fail_oldest(host, status);
                    Disposition::Done
                }
                Reached::No => self.on_early(now, packet, host),
            },
            Answer::Data(position) => match self.reach(now, packet.psn, host) {
                Reached::Yes => self.on_data(now, packet.len, position, host),
                Reached::No => self.on_early(now, packet, host),
            },
            Answer::Found(value) => match self.reach(now, packet.psn, host) {
                Reached::Yes => self.on_found(now, value, host),
                Reached::No => self.on_early(now, packet, host),
            },
        }
    }

    /// Returns whether an early response with this PSN is due: all responses before it have
    /// arrived, or it is not needed any more.
    pub fn is_due(&self, psn: Psn) -> bool {
        if !psn.is_after(self.una) || matches!(self.gate, Gate::Closed | Gate::Error) {
            return true;
        }
        for k in 0..self.held {
            match self.slot(k) {
                Some(Slot {
                    wqe,
                    state: SlotState::Started(run),
                }) => {
                    if wqe.op.wants_response() {
                        // The oldest may have been answered in part, up to `una`.
                        return k != 0 && !psn.is_after(run.first);
                    }
                }
                Some(Slot {
                    wqe: _,
                    state: SlotState::Done | SlotState::Failed(_),
                }) => {}
                Some(Slot {
                    wqe: _,
                    state: SlotState::Waiting,
                })
                | None => break,
            }
        }
        true
    }

    /// Handles a response that arrived before an earlier one, which may be lost or late.
    fn on_early(&mut self, now: Nanos, packet: &RxPacket, host: &mut impl SendHost) -> Disposition {
        if self.outstanding() == 0 || self.gate == Gate::Error {
            return Disposition::Done;
        }
        let last = packet.psn + 1 == self.top;
        if self.reordering.is_over(last) {
            let done = self.on_missing(now, host);
            if done == Disposition::Done {
                self.reordering.told(self.una);
            }
        }
        let kept = match packet.opcode.operation() {
            // The payload of a peer on this device is not in the packet, so it cannot be kept.
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                packet.mtu.is_none() && within_reach(self.una, packet.psn)
            }
            Operation::Send
            | Operation::Write
            | Operation::ReadRequest
            | Operation::Acknowledge
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::Flush
            | Operation::AtomicWrite
            | Operation::CongestionNotification => false,
        };
        if kept {
            Disposition::Early
        } else {
            Disposition::Dropped(DropCause::OutOfSequence)
        }
    }

    /// Handles a congestion notification. It may concern responses, which the window does not
    /// limit; the window is reduced in any case.
    #[cold]
    fn on_notice(&mut self, now: Nanos, host: &mut impl SendHost) -> Disposition {
        if self.attr.kind != QpType::Rc {
            return Disposition::Dropped(DropCause::Opcode);
        }
        host.count(Counter::NoticeReceived);
        self.on_congestion(now);
        Disposition::Done
    }

    /// Acknowledges everything before `psn`, as far as possible.
    fn reach(&mut self, now: Nanos, psn: Psn, host: &mut impl SendHost) -> Reached {
        let mut moved = false;
        let reached = loop {
            let steps = ahead(self.una, psn);
            if steps == 0 {
                break Reached::Yes;
            }
            let Some((wqe, run)) = self.oldest_started() else {
                // The oldest request failed locally while its packets were in flight; `settle` has
                // moved the send side to error.
                break Reached::Yes;
            };
            if wqe.op.wants_response() {
                break Reached::No;
            }
            let rest = run.count.saturating_sub(ahead(run.first, self.una));
            self.advance(steps.min(rest));
            moved = true;
            if steps >= rest {
                self.set_oldest(SlotState::Done);
            }
            self.settle(host);
        };
        if moved {
            self.progressed(now);
        }
        reached
    }

    /// Advances the oldest unacknowledged PSN. Packets that were to be retransmitted and are
    /// acknowledged now are skipped.
    fn advance(&mut self, steps: u32) {
        if ahead(self.una, self.nxt) < steps {
            self.nxt = self.una + steps;
        }
        self.una += steps;
        self.window.acknowledged(steps);
    }

    /// Resets retries and timers after progress.
    fn progressed(&mut self, now: Nanos) {
        self.retries_left = self.attr.retry;
        self.rnr_retries_left = self.attr.rnr_retry;
        self.seq_nak = SeqNak::News;
        self.probes = 0;
        self.single.moved();
        self.reordering.moved();
        self.clock(now);
        if self.outstanding() != 0 && self.gate != Gate::Error {
            self.wait_from(now);
        } else {
            self.wait = Wait::Nothing;
        }
    }

    /// Handles the loss of the packet with the oldest unacknowledged PSN or of its response.
    fn on_missing(&mut self, now: Nanos, host: &mut impl SendHost) -> Disposition {
        if self.outstanding() == 0 || self.gate == Gate::Error {
            return Disposition::Done;
        }
        if self.seq_nak == SeqNak::Stale || self.nxt == self.una {
            // It refers to packets sent before the retransmission.
            return Disposition::Dropped(DropCause::Duplicate);
        }
        self.window.lost(now);
        self.retry(now, host);
        Disposition::Done
    }

    /// Handles an RNR NAK for the oldest unacknowledged PSN.
    fn on_rnr(&mut self, now: Nanos, timer: RnrTimer, host: &mut impl SendHost) -> Disposition {
        if self.nxt == self.una || self.gate == Gate::Error {
            // It refers to a packet that is about to be retransmitted anyway.
            return Disposition::Dropped(DropCause::Duplicate);
        }
        host.count(Counter::RnrReceived);
        match self.rnr_retries_left.spend() {
            Some(left) => {
                self.rnr_retries_left = left;
                // The peer is alive: reset the retry count for timeouts.
                self.retries_left = self.attr.retry;
                self.go_back();
                // A sequence NAK for packets sent after the wait is news.
                self.seq_nak = SeqNak::News;
                self.wait = Wait::Ready {
                    until: now.after(Nanos(timer.nanos())),
                };
            }
            None => {
                host.count(Counter::RnrRetryExceeded);
                self.fail_oldest(host, WcStatus::RnrRetryExc);
            }
        }
        Disposition::Done
    }

    /// Handles a read response for the oldest unacknowledged PSN. Its position in the sequence of
    /// responses follows from the PSN. Whether it is marked as first or middle depends on where the
    /// read was resumed, so only the end mark is checked.
    fn on_data(
        &mut self,
        now: Nanos,
        len: u32,
        position: Position,
        host: &mut impl SendHost,
    ) -> Disposition {
        let Some((wqe, run)) = self.oldest_started() else {
            return Disposition::Dropped(DropCause::Unsolicited);
        };
        match wqe.op {
            SendOp::Read { va: _, key: _ } => {
                let index = ahead(run.first, self.una);
                let offset = index.saturating_mul(run.mtu);
                let last = index.saturating_add(1) >= run.count;
                let want = wqe.length.saturating_sub(offset).min(run.mtu);
                // If the read was requested again in part, other responses may be marked as the
                // last.
                let ends = position.is_end();
                if (last != ends && !(ends && self.single.cut)) || len != want {
                    return self.bad_response(host);
                }
                if len != 0 {
                    if let Err(fault) = host.scatter(self.index(0), offset) {
                        return self.no_room_for(fault, host);
                    }
                }
                self.answered(now, last, host)
            }
            SendOp::AtomicWrite { .. } | SendOp::Flush { .. } => {
                if position != Position::Only || len != 0 {
                    return self.bad_response(host);
                }
                self.answered(now, true, host)
            }
            SendOp::Send { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::LocalInv { .. }
            | SendOp::RegMr
            | SendOp::BindMw => self.bad_response(host),
        }
    }

    /// Handles the result of an atomic operation for the oldest unacknowledged PSN.
    fn on_found(&mut self, now: Nanos, value: u64, host: &mut impl SendHost) -> Disposition {
        let Some((wqe, _)) = self.oldest_started() else {
            return Disposition::Dropped(DropCause::Unsolicited);
        };
        match wqe.op {
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => {
                if let Err(fault) = host.scatter_u64(self.index(0), value) {
                    return self.no_room_for(fault, host);
                }
                self.answered(now, true, host)
            }
            SendOp::Send { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::Read { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. }
            | SendOp::LocalInv { .. }
            | SendOp::RegMr
            | SendOp::BindMw => self.bad_response(host),
        }
    }

    /// Acknowledges the oldest PSN after its response, which may be the `last` of its request.
    fn answered(&mut self, now: Nanos, last: bool, host: &mut impl SendHost) -> Disposition {
        self.advance(1);
        let _: bool = self.single_answered(now, By::Data);
        if last {
            self.single.cut = false;
            self.responses = self.responses.saturating_sub(1);
            self.set_oldest(SlotState::Done);
            self.settle(host);
        }
        self.progressed(now);
        Disposition::Done
    }

    /// Handles the failure to write a response to the buffers of the oldest request. While memory
    /// is absent, the response counts as not received: its PSN stays the oldest unacknowledged one.
    fn no_room_for(&mut self, fault: LocalFault, host: &mut impl SendHost) -> Disposition {
        match fault {
            LocalFault::Absent => return Disposition::Parked,
            LocalFault::Status(status) => self.fail_oldest(host, status),
        }
        Disposition::Done
    }

    fn bad_response(&mut self, host: &mut impl SendHost) -> Disposition {
        self.fail_oldest(host, WcStatus::BadResp);
        Disposition::Done
    }
}
