// SPDX-License-Identifier: GPL-2.0

//! Conversion of send requests to packets: opcodes, extension headers, payload.
//!
//! Stateless. IBTA 9.2 (opcodes), 9.3 (extension headers), A19.

use crate::wire::AtomicEth;
use crate::wire::Ext;
use crate::wire::Feth;
use crate::wire::Ieth;
use crate::wire::ImmDt;
use crate::wire::Opcode;
use crate::wire::Position;
use crate::wire::Reth;

use super::super::packet::Payload;
use super::super::types::packets;
use super::super::types::Key;
use super::super::types::QpType;
use super::super::types::WcStatus;
use super::super::types::MAX_MESSAGE;
use super::super::types::MAX_OUTSTANDING;
use super::super::wqe::SendOp;
use super::super::wqe::SendWqe;
use super::Run;
use super::SendAttr;

/// Validates a request before it is started.
pub(super) fn validate(attr: &SendAttr, wqe: &SendWqe) -> Result<(), WcStatus> {
    // The second condition is impossible with existing MTUs (256 and more).
    if wqe.length > MAX_MESSAGE || psn_count(wqe, attr.mtu) > MAX_OUTSTANDING {
        return Err(WcStatus::LocLen);
    }
    let known = match attr.kind {
        QpType::Rc => !wqe.op.wants_response() || attr.max_rd_atomic > 0,
        QpType::Uc => match wqe.op {
            SendOp::Send { .. }
            | SendOp::Write { .. }
            | SendOp::LocalInv { .. }
            | SendOp::RegMr
            | SendOp::BindMw => true,
            SendOp::SendInv { .. }
            | SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. } => false,
        },
        QpType::Ud | QpType::Gsi => matches!(wqe.op, SendOp::Send { .. }) && wqe.ud.is_some(),
    };
    if known {
        Ok(())
    } else {
        Err(WcStatus::LocQpOp)
    }
}

/// Returns the number of PSNs of a request. A read takes one per response.
pub(super) fn psn_count(wqe: &SendWqe, mtu: u32) -> u32 {
    match wqe.op {
        SendOp::Send { .. }
        | SendOp::SendInv { .. }
        | SendOp::Write { .. }
        | SendOp::Read { .. } => packets(wqe.length, mtu),
        SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. }
        | SendOp::LocalInv { .. }
        | SendOp::RegMr
        | SendOp::BindMw => 1,
    }
}

/// One packet of a request, complete except for its PSN.
pub(super) struct Shape {
    pub(super) opcode: Opcode,
    pub(super) ext: Ext,
    pub(super) payload: Payload,
    /// Whether the packet ends the request.
    pub(super) last: bool,
    /// Whether the peer's completion, if this packet causes one, is solicited.
    pub(super) solicited: bool,
    /// Number of PSNs.
    pub(super) psns: u32,
}

/// Returns the packet of `wqe` at PSN number `index` of its run. For a read, this is the request
/// for all responses from there on, which also resumes a read.
///
/// `None` if the queue pair supports no such packet, which [`validate`] excludes, or is a datagram one:
/// see [`datagram`](super::datagram).
pub(super) fn shape(
    attr: &SendAttr,
    wqe: &SendWqe,
    slot: u32,
    index: u32,
    run: &Run,
) -> Option<Shape> {
    let left = run.count.saturating_sub(index);
    let offset = index.saturating_mul(run.mtu);
    let position = match (index == 0, left <= 1) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    };
    let body = Payload::Slot {
        slot,
        offset,
        len: wqe.length.saturating_sub(offset).min(run.mtu),
    };
    let end = position.is_end();
    let wakes = wqe.flags.solicited && end;
    // A packet of a message that is split into packets.
    let part = |opcode: Option<Opcode>, ext: Ext, solicited: bool| {
        Some(Shape {
            opcode: opcode?,
            ext,
            payload: if body.is_empty() { Payload::None } else { body },
            last: end,
            solicited,
            psns: 1,
        })
    };
    // A request of one packet.
    let single = |opcode: Opcode, ext: Ext, payload: Payload, psns: u32| {
        (attr.kind == QpType::Rc).then_some(Shape {
            opcode,
            ext,
            payload,
            last: true,
            solicited: false,
            psns,
        })
    };
    match wqe.op {
        SendOp::Send { imm } => {
            let imm = imm.filter(|_| end).map(ImmDt);
            let opcode = match attr.kind {
                QpType::Rc => Some(rc_send(position, imm.is_some())),
                QpType::Uc => Some(uc_send(position, imm.is_some())),
                QpType::Ud | QpType::Gsi => None,
            };
            part(opcode, imm.map_or(Ext::None, Ext::Imm), wakes)
        }
        SendOp::SendInv { key } => {
            let opcode = match position {
                Position::First => Opcode::RcSendFirst,
                Position::Middle => Opcode::RcSendMiddle,
                Position::Last => Opcode::RcSendLastInv,
                Position::Only => Opcode::RcSendOnlyInv,
            };
            let ext = if end {
                Ext::Ieth(Ieth { rkey: key.0 })
            } else {
                Ext::None
            };
            part((attr.kind == QpType::Rc).then_some(opcode), ext, wakes)
        }
        SendOp::Write { va, key, imm } => {
            let imm = imm.filter(|_| end).map(ImmDt);
            let opcode = match attr.kind {
                QpType::Rc => Some(rc_write(position, imm.is_some())),
                QpType::Uc => Some(uc_write(position, imm.is_some())),
                QpType::Ud | QpType::Gsi => None,
            };
            let reth = reth(va, key, wqe.length);
            let ext = match (position.is_start(), imm) {
                (true, None) => Ext::Reth(reth),
                (true, Some(imm)) => Ext::RethImm(reth, imm),
                (false, None) => Ext::None,
                (false, Some(imm)) => Ext::Imm(imm),
            };
            part(opcode, ext, wakes && imm.is_some())
        }
        SendOp::Read { va, key } => {
            let from = va.wrapping_add(u64::from(offset));
            let rest = wqe.length.saturating_sub(offset);
            let ext = Ext::Reth(reth(from, key, rest));
            single(Opcode::RcReadRequest, ext, Payload::None, left.max(1))
        }
        SendOp::CompareSwap {
            va,
            key,
            compare,
            swap,
        } => {
            let ext = Ext::AtomicEth(AtomicEth {
                va,
                rkey: key.0,
                swap_or_add: swap,
                compare,
            });
            single(Opcode::RcCompareSwap, ext, Payload::None, 1)
        }
        SendOp::FetchAdd { va, key, add } => {
            let ext = Ext::AtomicEth(AtomicEth {
                va,
                rkey: key.0,
                swap_or_add: add,
                compare: 0,
            });
            single(Opcode::RcFetchAdd, ext, Payload::None, 1)
        }
        SendOp::AtomicWrite { va, key, value } => {
            let ext = Ext::Reth(reth(va, key, 8));
            single(Opcode::RcAtomicWrite, ext, Payload::Bytes(value), 1)
        }
        SendOp::Flush {
            va,
            key,
            length,
            kind,
            level,
        } => {
            let feth = Feth {
                placement: kind,
                selectivity: level,
            };
            let ext = Ext::FethReth(feth, reth(va, key, length));
            single(Opcode::RcFlush, ext, Payload::None, 1)
        }
        SendOp::LocalInv { .. } | SendOp::RegMr | SendOp::BindMw => None,
    }
}

fn reth(va: u64, key: Key, length: u32) -> Reth {
    Reth {
        va,
        rkey: key.0,
        length,
    }
}

const fn rc_send(position: Position, imm: bool) -> Opcode {
    match (position, imm) {
        (Position::First, _) => Opcode::RcSendFirst,
        (Position::Middle, _) => Opcode::RcSendMiddle,
        (Position::Last, false) => Opcode::RcSendLast,
        (Position::Last, true) => Opcode::RcSendLastImm,
        (Position::Only, false) => Opcode::RcSendOnly,
        (Position::Only, true) => Opcode::RcSendOnlyImm,
    }
}

const fn rc_write(position: Position, imm: bool) -> Opcode {
    match (position, imm) {
        (Position::First, _) => Opcode::RcWriteFirst,
        (Position::Middle, _) => Opcode::RcWriteMiddle,
        (Position::Last, false) => Opcode::RcWriteLast,
        (Position::Last, true) => Opcode::RcWriteLastImm,
        (Position::Only, false) => Opcode::RcWriteOnly,
        (Position::Only, true) => Opcode::RcWriteOnlyImm,
    }
}

const fn uc_send(position: Position, imm: bool) -> Opcode {
    match (position, imm) {
        (Position::First, _) => Opcode::UcSendFirst,
        (Position::Middle, _) => Opcode::UcSendMiddle,
        (Position::Last, false) => Opcode::UcSendLast,
        (Position::Last, true) => Opcode::UcSendLastImm,
        (Position::Only, false) => Opcode::UcSendOnly,
        (Position::Only, true) => Opcode::UcSendOnlyImm,
    }
}

const fn uc_write(position: Position, imm: bool) -> Opcode {
    match (position, imm) {
        (Position::First, _) => Opcode::UcWriteFirst,
        (Position::Middle, _) => Opcode::UcWriteMiddle,
        (Position::Last, false) => Opcode::UcWriteLast,
        (Position::Last, true) => Opcode::UcWriteLastImm,
        (Position::Only, false) => Opcode::UcWriteOnly,
        (Position::Only, true) => Opcode::UcWriteOnlyImm,
    }
}
