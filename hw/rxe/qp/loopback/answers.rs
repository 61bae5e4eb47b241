// SPDX-License-Identifier: GPL-2.0

//! Responses of a responder to a requester on the same device, kept until it handles them.

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

/// Maximum number of waiting responses. Consecutive acknowledgments count as one.
const ANSWERS: usize = 8;
const _: () = assert!(ANSWERS.is_power_of_two());

/// A packet from the responder.
#[derive(Clone, Copy)]
pub(in crate::qp) struct Answer {
    pub(in crate::qp) packet: proto::RxPacket,
    pub(super) payload: Payload,
    /// Protection domain of the memory that a read response is read from.
    pub(super) pd: PdId,
    pub(super) tag: QpTag,
}

/// Responses for the requester's engine, oldest first.
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

    /// Returns whether there are no responses.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a response of `qp`. Returns `false` if there is no room.
    fn push(&mut self, qp: &Qp, packet: &TxPacket) -> bool {
        let answer = Answer {
            packet: received(packet),
            payload: packet.payload,
            pd: qp.pd,
            tag: qp.tag,
        };
        // An acknowledgment supersedes those directly before it.
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

    /// Puts back the oldest response, which was just taken.
    pub(super) fn put_back(&mut self, answer: Answer) {
        if self.count < ANSWERS {
            // Wrapping is harmless: the ring's length is a power of two.
            self.first = self.first.wrapping_sub(1) % ANSWERS;
            self.count = self.count.saturating_add(1);
            if let Some(place) = self.place(0) {
                *place = Some(answer);
            }
        }
    }

    /// Takes the oldest response.
    pub(super) fn pop(&mut self) -> Option<Answer> {
        if self.count == 0 {
            return None;
        }
        let answer = self.place(0)?.take();
        self.first = self.first.wrapping_add(1) % ANSWERS;
        self.count = self.count.saturating_sub(1);
        answer
    }

    /// Returns the slot `k` after the oldest; `None` for an index beyond the ring, such as the one
    /// before the oldest.
    fn place(&mut self, k: usize) -> Option<&mut Option<Answer>> {
        if k > ANSWERS {
            return None;
        }
        self.ring.get_mut(self.first.wrapping_add(k) % ANSWERS)
    }
}

/// Converts a sent packet to a received one.
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

/// Passes a response of `qp` to the requester on the same device.
///
/// # Errors
///
/// `Blocked` if the requester must fetch others first; `BadPayload` if the requested data are not
/// accessible.
pub(in crate::qp) fn answer(
    qp: &Qp,
    answers: &mut Answers,
    batch: &mut Batch<'_>,
    packet: &TxPacket,
) -> Result<(), TxError> {
    if let Payload::Remote { key, va, len } = packet.payload {
        // The data are read later, and access is checked again then.
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
