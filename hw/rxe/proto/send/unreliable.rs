// SPDX-License-Identifier: GPL-2.0

//! Requests of unreliable queue pairs that are done once their only packet is sent: datagrams, and
//! short messages of unreliable connections.
//!
//! Such a request is passed from the ring to the host without being held; only one that must wait,
//! or fails, becomes a slot.

use super::super::host::Counter;
use super::super::host::Progress;
use super::super::host::SendFetch;
use super::super::host::SendHost;
use super::super::host::TxError;
use super::super::packet::Dest;
use super::super::packet::TxPacket;
use super::super::types::WcStatus;
use super::super::wqe::SendOp;
use super::super::wqe::SendWqe;
use super::completion;
use super::request;
use super::Run;
use super::SendSide;
use super::Slot;
use super::SlotState;
use super::Slots;
use super::Step;

impl<S: Slots> SendSide<S> {
    /// Sends the next request. The side is open, unreliable, and holds no requests.
    pub(super) fn next_unreliable(&mut self, host: &mut impl SendHost) -> Step {
        if self.sq_empty || self.room == 0 {
            return Step::Stop(Progress::Idle);
        }
        // Free, and still free for the next one if this one is done at once.
        let slot = self.head;
        let wqe = match host.fetch(slot) {
            SendFetch::Wqe(wqe) => wqe,
            SendFetch::Empty => {
                self.sq_empty = true;
                return Step::Stop(Progress::Idle);
            }
            SendFetch::Bad { wr_id, status } => {
                self.fetched_bad(slot, wr_id, status);
                self.held = 1;
                return Step::Again;
            }
        };
        let sent = if self.attr.kind.is_datagram() {
            Some(self.send_datagram(host, &wqe, slot))
        } else {
            self.send_only(host, &wqe, slot)
        };
        let (state, step) = match sent {
            Some(Ok(())) => {
                host.retire(slot);
                if matches!(wqe.op, SendOp::Send { .. }) {
                    host.count(Counter::Send);
                }
                if wqe.flags.signaled {
                    host.complete(&completion(&wqe, WcStatus::Success));
                }
                return Step::Again;
            }
            Some(Err(error)) => unsent(error),
            None => (SlotState::Waiting, Step::Again),
        };
        self.slots.put(slot, Slot { wqe, state });
        self.held = 1;
        step
    }

    /// Sends a message of an unreliable connection, if it is one packet. Otherwise, and if it is
    /// invalid, returns `None`: it must become a slot.
    ///
    /// # Errors
    ///
    /// Those of [`SendHost::emit`].
    #[inline]
    fn send_only(
        &mut self,
        host: &mut impl SendHost,
        wqe: &SendWqe,
        slot: u32,
    ) -> Option<Result<(), TxError>> {
        if !matches!(wqe.op, SendOp::Send { .. } | SendOp::Write { .. }) {
            return None;
        }
        let mtu = host.cut(self.attr.mtu);
        if wqe.length > mtu {
            return None;
        }
        let run = Run {
            first: self.nxt,
            count: 1,
            mtu,
        };
        let shape = request::shape(&self.attr, wqe, slot, 0, &run)?;
        let sent = host.emit(&TxPacket {
            opcode: shape.opcode,
            psn: self.nxt,
            ack_req: false,
            solicited: shape.solicited,
            ext: shape.ext,
            payload: shape.payload,
            dest: Dest::Peer(self.attr.dest),
            mtu,
        });
        if sent.is_ok() {
            self.sent_only();
        }
        Some(sent)
    }

    /// Advances the PSN after a packet was sent that nobody acknowledges.
    #[inline]
    pub(super) fn sent_only(&mut self) {
        self.nxt += 1;
        self.una = self.nxt;
        self.top = self.nxt;
    }
}

/// Returns the state of a request that was not sent, and what follows.
pub(super) fn unsent(error: TxError) -> (SlotState, Step) {
    match error {
        TxError::Blocked => (SlotState::Waiting, Step::Stop(Progress::Blocked)),
        TxError::Enough => (SlotState::Waiting, Step::Stop(Progress::More)),
        TxError::BadPayload(status) => (SlotState::Failed(status), Step::Again),
    }
}
