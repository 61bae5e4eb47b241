// SPDX-License-Identifier: GPL-2.0

//! Sending: selection of the next request, and its packets.
//!
//! An acknowledgment is requested by the last packet of each batch, by solicited messages, every
//! half window, and where a poll or the window ends: often enough that the timer is needed only
//! after packet loss.

use super::super::host::Progress;
use super::super::host::SendFetch;
use super::super::host::SendHost;
use super::super::host::TxError;
use super::super::packet::Dest;
use super::super::packet::TxPacket;
use super::super::types::ahead;
use super::super::types::Nanos;
use super::super::types::QpType;
use super::super::types::WcStatus;
use super::super::types::MAX_OUTSTANDING;
use super::super::wqe::SendOp;
use super::super::wqe::SendWqe;
use super::request;
use super::Gate;
use super::Run;
use super::SendSide;
use super::Slot;
use super::SlotState;
use super::Slots;
use super::Step;
use super::Wait;

impl<S: Slots> SendSide<S> {
    /// Executes the next step; `left` more may follow in this poll.
    pub(super) fn step(&mut self, now: Nanos, host: &mut impl SendHost, left: u32) -> Step {
        match self.gate {
            Gate::Closed | Gate::Drained => return Step::Stop(Progress::Idle),
            Gate::Error => return self.flush_one(host),
            Gate::Open if self.held == 0 && self.attr.kind != QpType::Rc => {
                return self.next_unreliable(host);
            }
            Gate::Open | Gate::Draining => {}
        }
        if let Wait::Ready { until } = self.wait {
            if now < until {
                return Step::Stop(Progress::Idle);
            }
            self.wait = Wait::Nothing;
        }
        if let Some(step) = self.send_single(now, host) {
            return step;
        }
        if self.at >= self.held && !self.fetch(host) {
            return Step::Stop(Progress::Idle);
        }
        let Some(&Slot { wqe, state }) = self.slot(self.at) else {
            return Step::Stop(Progress::Idle);
        };
        match state {
            SlotState::Waiting => self.begin(now, host, &wqe, left),
            SlotState::Started(run) => self.transmit(now, host, &wqe, run, left),
            SlotState::Done => {
                self.at = self.at.saturating_add(1);
                Step::Again
            }
            // Just fetched: `settle` ends it.
            SlotState::Failed(_) if self.at == 0 => Step::Again,
            SlotState::Failed(_) => Step::Stop(Progress::Idle),
        }
    }

    /// Starts the request at the cursor, if its turn has come.
    fn begin(&mut self, now: Nanos, host: &mut impl SendHost, wqe: &SendWqe, left: u32) -> Step {
        if self.gate != Gate::Open {
            return Step::Stop(Progress::Idle);
        }
        if self.attr.kind.is_datagram() {
            return self.held_datagram(host, wqe);
        }
        if let Err(status) = request::validate(&self.attr, wqe) {
            self.set_state(self.at, SlotState::Failed(status));
            return Step::Again;
        }
        if !self.may_begin(wqe, self.at) {
            return Step::Stop(Progress::Idle);
        }
        if wqe.op.is_local() {
            let state = match host.local(self.index(self.at), &wqe.op) {
                Ok(()) => SlotState::Done,
                Err(status) => SlotState::Failed(status),
            };
            self.set_state(self.at, state);
            return Step::Again;
        }
        let mtu = host.cut(self.attr.mtu);
        let run = Run {
            first: self.nxt,
            count: request::psn_count(wqe, mtu),
            mtu,
        };
        self.transmit(now, host, wqe, run, left)
    }

    /// Returns whether the waiting request `wqe`, number `k` from the oldest, may start now with
    /// respect to the ordering of requests.
    fn may_begin(&self, wqe: &SendWqe, k: u32) -> bool {
        // A local invalidate waits for everything before it (the strictest of the choices in IBTA
        // 10.6.5.1), a fence for reads and atomics.
        if matches!(wqe.op, SendOp::LocalInv { .. }) && k != 0 {
            return false;
        }
        if wqe.flags.fence && self.responses != 0 {
            return false;
        }
        !wqe.op.wants_response() || self.responses < self.attr.max_rd_atomic
    }

    /// Sends the packet at `nxt`, which belongs to the request at the cursor. `run` contains the
    /// PSNs that the request owns or will own.
    fn transmit(
        &mut self,
        now: Nanos,
        host: &mut impl SendHost,
        wqe: &SendWqe,
        run: Run,
        left: u32,
    ) -> Step {
        let slot = self.index(self.at);
        let index = ahead(run.first, self.nxt);
        let Some(shape) = request::shape(&self.attr, wqe, slot, index, &run) else {
            self.set_state(self.at, SlotState::Failed(WcStatus::LocQpOp));
            return Step::Again;
        };
        let reliable = self.attr.kind == QpType::Rc;
        let used = ahead(self.una, self.nxt);
        let after = used.saturating_add(shape.psns);
        let window = self.window.size();
        if reliable && (used >= window || (used > 0 && after > MAX_OUTSTANDING)) {
            self.window.is_full();
            return Step::Stop(Progress::Idle);
        }
        let ack_req = reliable && {
            let full = after >= window || self.since_ack_req.saturating_add(1) >= window / 2;
            full || left == 0
                || shape.solicited
                || wqe.op.wants_response()
                || (shape.last && !self.more_follows(host, after))
        };
        let packet = TxPacket {
            opcode: shape.opcode,
            psn: self.nxt,
            ack_req,
            solicited: shape.solicited,
            ext: shape.ext,
            payload: shape.payload,
            dest: Dest::Peer(self.attr.dest),
            mtu: run.mtu,
        };
        match host.emit(&packet) {
            Ok(()) => {}
            Err(TxError::Blocked) => return Step::Stop(Progress::Blocked),
            Err(TxError::Enough) => return Step::Stop(Progress::More),
            Err(TxError::BadPayload(status)) => {
                self.set_state(self.at, SlotState::Failed(status));
                // Earlier packets may rely on this one to request the acknowledgment.
                self.request_ack_again();
                return Step::Again;
            }
        }

        // State changes only now, after the packet was sent.
        let fresh = matches!(
            self.slot(self.at),
            Some(Slot {
                state: SlotState::Waiting,
                ..
            })
        );
        if fresh {
            self.set_state(self.at, SlotState::Started(run));
            if wqe.op.wants_response() {
                self.responses = self.responses.saturating_add(1);
            }
        }
        let sent = self.outstanding();
        self.nxt += shape.psns;
        if ahead(self.una, self.nxt) > sent {
            self.top = self.nxt;
            if ack_req {
                self.time(packet.psn, now);
            }
        }
        if reliable {
            self.since_ack_req = if ack_req {
                0
            } else {
                self.since_ack_req.saturating_add(1)
            };
            if self.wait == Wait::Nothing {
                self.wait_from(now);
            }
        } else {
            self.una = self.nxt;
            self.top = self.nxt;
            if shape.last {
                // Unreliable: a sent request is done.
                self.set_state(self.at, SlotState::Done);
            }
        }
        if shape.last {
            self.at = self.at.saturating_add(1);
        }
        Step::Again
    }

    /// Returns whether the packet after the one at the cursor, which ends its request, will
    /// certainly be tried in this poll, so that it can request the acknowledgment of both. `used`
    /// is the number of outstanding PSNs including the one at the cursor.
    fn more_follows(&mut self, host: &mut impl SendHost, used: u32) -> bool {
        let next = self.at.saturating_add(1);
        if next >= self.held && !self.fetch(host) {
            return false;
        }
        match self.slot(next) {
            Some(Slot {
                wqe,
                state: SlotState::Waiting,
            }) => {
                let count = request::psn_count(wqe, self.attr.mtu);
                self.gate == Gate::Open
                    && !wqe.op.is_local()
                    && self.may_begin(wqe, next)
                    && request::validate(&self.attr, wqe).is_ok()
                    && used.saturating_add(count) <= MAX_OUTSTANDING
            }
            Some(Slot {
                state: SlotState::Started(_),
                ..
            }) => true,
            Some(Slot {
                state: SlotState::Done | SlotState::Failed(_),
                ..
            })
            | None => false,
        }
    }

    /// Takes another request off the ring, if there is one, there is room, and the state allows it.
    fn fetch(&mut self, host: &mut impl SendHost) -> bool {
        if self.sq_empty || self.gate != Gate::Open || self.held >= self.room {
            return false;
        }
        let index = self.index(self.held);
        match host.fetch(index) {
            SendFetch::Empty => {
                self.sq_empty = true;
                return false;
            }
            // Copied directly to the slot: a request is large.
            SendFetch::Wqe(wqe) => {
                let state = SlotState::Waiting;
                self.slots.put(index, Slot { wqe, state });
            }
            SendFetch::Bad { wr_id, status } => self.fetched_bad(index, wr_id, status),
        }
        self.held = self.held.saturating_add(1);
        true
    }

    /// Stores a request in slot `index` that fails with `status` when it is the oldest.
    #[cold]
    pub(super) fn fetched_bad(&mut self, index: u32, wr_id: u64, status: WcStatus) {
        let wqe = SendWqe {
            wr_id,
            ..Slot::EMPTY.wqe
        };
        let state = SlotState::Failed(status);
        self.slots.put(index, Slot { wqe, state });
    }
}
