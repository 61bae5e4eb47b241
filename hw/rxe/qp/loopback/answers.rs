// SPDX-License-Identifier: GPL-2.0

//! Responses of a responder to a requester on the same device, until the requester handles them.

use super::super::Qp;
use crate::mem::Batch;
use crate::mem::PdId;
use crate::mem::QpTag;
use crate::proto;
use crate::proto::Payload;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::proto::WcStatus;
use crate::wire::AethSyndrome;
use crate::wire::Opcode;
use kernel::prelude::*;

/// Answers that wait for the requester at a time. Acknowledgements count as one.
const ANSWERS: usize = 8;
const _: () = assert!(ANSWERS.is_power_of_two());

/// A packet of the responder.
#[derive(Clone, Copy)]
pub(in crate::qp) struct Answer {
    pub(in crate::qp) packet: proto::RxPacket,
    pub(super) payload: Payload,
    /// Whose memory a read is answered from.
    pub(super) pd: PdId,
    pub(super) tag: QpTag,
}

/// What waits for the requester's engine, oldest first.
pub(in crate::qp) struct Answers {
    ring: [Option<Answer>; ANSWERS],
    first: usize,
    count: usize,
}

impl Answers {
    pub(super) const NONE: Self = Self {
        ring: [const { None }; ANSWERS],
        first: 0,
        count: 0,
    };

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds what `qp` answers. `false` if there is no room.
    fn push(&mut self, qp: &Qp, packet: &TxPacket) -> bool {
        let answer = Answer {
            packet: received(packet),
            payload: packet.payload,
            pd: qp.pd,
            tag: qp.tag,
        };
        // An acknowledgement stands for those before it.
        if is_ack(&answer.packet) {
            if let Some(Some(last)) = self.place(self.count.wrapping_sub(1)) {
                if is_ack(&last.packet) {
                    *last = answer;
                    return true;
                }
            }
        }
        if self.count >= ANSWERS {
            return false;
        }
        if let Some(place) = self.place(self.count) {
            *place = Some(answer);
            self.count = self.count.saturating_add(1);
        }
        true
    }

    /// Puts back the oldest, which was taken just now.
    pub(super) fn put_back(&mut self, answer: Answer) {
        if self.count < ANSWERS {
            // The ring's length divides what the index wraps at.
            self.first = self.first.wrapping_sub(1) % ANSWERS;
            self.count = self.count.saturating_add(1);
            if let Some(place) = self.place(0) {
                *place = Some(answer);
            }
        }
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<Answer> {
        if self.count == 0 {
            return None;
        }
        let answer = self.place(0)?.take();
        self.first = self.first.wrapping_add(1) % ANSWERS;
        self.count = self.count.saturating_sub(1);
        answer
    }

    /// The place `k` after the oldest; of the one before the oldest, `None`.
    fn place(&mut self, k: usize) -> Option<&mut Option<Answer>> {
        if k > ANSWERS {
            return None;
        }
        self.ring.get_mut(self.first.wrapping_add(k) % ANSWERS)
    }
}

/// A packet as its receiver's engine sees it.
pub(super) fn received(packet: &TxPacket) -> proto::RxPacket {
    proto::RxPacket {
        opcode: packet.opcode,
        psn: packet.psn,
        ack_req: packet.ack_req,
        solicited: packet.solicited,
        ext: packet.ext,
        len: packet.payload.len(),
        mtu: Some(packet.mtu),
    }
}

fn is_ack(packet: &proto::RxPacket) -> bool {
    packet.opcode == Opcode::RcAck
        && packet
            .ext
            .aeth()
            .is_some_and(|aeth| matches!(aeth.syndrome, AethSyndrome::Ack { credit: _ }))
}

/// Tells a requester on the same device that `qp` has a response.
///
/// # Errors
///
/// `Blocked` until it has fetched others; `BadPayload` if it cannot have what it reads.
pub(in crate::qp) fn answer(
    qp: &Qp,
    answers: &mut Answers,
    batch: &mut Batch<'_>,
    packet: &TxPacket,
) -> Result<(), TxError> {
    if let Payload::Remote { key, va, len } = packet.payload {
        // It is read a little later, and checked again.
        batch
            .check_remote(key, va, len, proto::AccessFlags::REMOTE_READ.0)
            .map_err(|_| TxError::BadPayload(WcStatus::RemOp))?;
    }
    if answers.push(qp, packet) {
        Ok(())
    } else {
        Err(TxError::Blocked)
    }
}
