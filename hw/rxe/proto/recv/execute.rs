// SPDX-License-Identifier: GPL-2.0

//! Validation and execution of requests: straight-line code, one function per kind.
//!
//! Each function changes the receive side's state only at its end, when nothing can fail any more,
//! so that "not ready" has no effect and the same packet may be handled again. IBTA 9.7.4 (RC),
//! 9.8.2 (UC), 9.8.3 (UD).

use core::ops::DerefMut;

use crate::wire::AtomicEth;
use crate::wire::Feth;
use crate::wire::Operation;
use crate::wire::Position;
use crate::wire::Reth;

use super::super::host::AtomicOp;
use super::super::host::Counter;
use super::super::host::FlushKind;
use super::super::host::RecvFetch;
use super::super::host::RecvHost;
use super::super::packet::RxPacket;
use super::super::types::packets;
use super::super::types::AccessFlags;
use super::super::types::Key;
use super::super::types::QpType;
use super::super::types::Qpn;
use super::super::types::WcOpcode;
use super::super::types::WcStatus;
use super::super::types::GSI_QKEY;
use super::super::types::MAX_MESSAGE;
use super::super::types::MAX_OUTSTANDING;
use super::super::wqe::RecvCompletion;
use super::super::wqe::RecvWqe;
use super::respond::Saved;
use super::Message;
use super::RecvSide;
use super::Refusal;
use super::Resource;
use super::Write;
use super::GRH_LEN;

impl<R: DerefMut<Target = [Resource]>> RecvSide<R> {
    /// Executes the expected packet of a connected queue pair.
    pub(super) fn request(
        &mut self,
        packet: &RxPacket,
        host: &mut impl RecvHost,
    ) -> Result<(), Refusal> {
        self.check_order(packet)?;
        self.check_rights(packet)?;
        // The headers match the opcode; other packets were dropped before.
        let reth = packet.ext.reth().ok_or(Refusal::Unsupported);
        let operands = packet.ext.atomic_eth().ok_or(Refusal::Unsupported);
        match packet.opcode.operation() {
            Operation::Send => self.send(packet, host),
            Operation::Write => self.write(packet, host),
            Operation::ReadRequest => self.read(packet, reth?, host),
            Operation::CompareSwap => {
                let eth = operands?;
                let op = AtomicOp::CompareSwap {
                    compare: eth.compare,
                    swap: eth.swap_or_add,
                };
                self.atomic(packet, eth, op, host)
            }
            Operation::FetchAdd => {
                let eth = operands?;
                let op = AtomicOp::FetchAdd {
                    add: eth.swap_or_add,
                };
                self.atomic(packet, eth, op, host)
            }
            Operation::AtomicWrite => self.atomic_write(packet, reth?, host),
            Operation::Flush => {
                let feth = packet.ext.feth().ok_or(Refusal::Unsupported)?;
                self.flush_memory(packet, feth, reth?, host)
            }
            // Responses are not passed to this half.
            Operation::ReadResponse
            | Operation::Acknowledge
            | Operation::AtomicAcknowledge
            | Operation::CongestionNotification => Err(Refusal::Unsupported),
        }
    }

    /// Checks that the packets of a message are consecutive (IBTA 9.7.4).
    fn check_order(&self, packet: &RxPacket) -> Result<(), Refusal> {
        let operation = packet.opcode.operation();
        let fits = match (self.message, packet.opcode.position()) {
            (Message::None, Position::First | Position::Only) => true,
            (Message::Send { .. }, Position::Middle | Position::Last) => {
                operation == Operation::Send
            }
            (Message::Write(_), Position::Middle | Position::Last) => operation == Operation::Write,
            (Message::None, Position::Middle | Position::Last)
            | (Message::Send { .. } | Message::Write(_), Position::First | Position::Only) => false,
        };
        if fits {
            Ok(())
        } else {
            Err(Refusal::Order)
        }
    }

    /// Checks the rights that the queue pair as a whole grants the peer.
    fn check_rights(&self, packet: &RxPacket) -> Result<(), Refusal> {
        let wanted = match packet.opcode.operation() {
            Operation::Write | Operation::AtomicWrite => AccessFlags::REMOTE_WRITE,
            Operation::ReadRequest => AccessFlags::REMOTE_READ,
            Operation::CompareSwap | Operation::FetchAdd => AccessFlags::REMOTE_ATOMIC,
            Operation::Flush => {
                let kind = flush_kind(packet.ext.feth().ok_or(Refusal::Unsupported)?)?;
                let mut wanted = AccessFlags::NONE;
                if kind.global {
                    wanted = wanted.with(AccessFlags::FLUSH_GLOBAL);
                }
                if kind.persistent {
                    wanted = wanted.with(AccessFlags::FLUSH_PERSISTENT);
                }
                wanted
            }
            Operation::Send
            | Operation::ReadResponse
            | Operation::Acknowledge
            | Operation::AtomicAcknowledge
            | Operation::CongestionNotification => AccessFlags::NONE,
        };
        if self.attr.access.contains(wanted) {
            Ok(())
        } else {
            Err(Refusal::Unsupported)
        }
    }

    /// Returns the segment size in bytes of the packet's message.
    pub(super) fn mtu_of(&self, packet: &RxPacket) -> u32 {
        packet.mtu.unwrap_or(self.attr.mtu).max(1)
    }

    fn check_payload(&self, packet: &RxPacket) -> Result<(), Refusal> {
        let len = usize::try_from(packet.len).map_err(|_| Refusal::Length)?;
        let mtu = usize::try_from(self.mtu_of(packet)).map_err(|_| Refusal::Length)?;
        if packet.opcode.payload_rule().permits(len, mtu) {
            Ok(())
        } else {
            Err(Refusal::Length)
        }
    }

    /// Returns the current receive request, or else takes the next one.
    fn take_recv(&mut self, host: &mut impl RecvHost) -> Result<RecvWqe, Refusal> {
        if let Some(wqe) = self.recv {
            return Ok(wqe);
        }
        match host.take_recv() {
            RecvFetch::Empty => Err(Refusal::NotReady),
            RecvFetch::Wqe(wqe) => {
                self.recv = Some(wqe);
                Ok(wqe)
            }
            RecvFetch::Bad(bad) => {
                // Make it the current request, so that its completion reports the error.
                self.recv = Some(RecvWqe {
                    wr_id: bad.wr_id,
                    capacity: 0,
                });
                Err(Refusal::Local(bad.status))
            }
        }
    }

    fn send(&mut self, packet: &RxPacket, host: &mut impl RecvHost) -> Result<(), Refusal> {
        self.check_payload(packet)?;
        let wqe = self.take_recv(host)?;
        let offset = match self.message {
            Message::Send { received } => received,
            Message::None | Message::Write(_) => 0,
        };
        let received = offset.checked_add(packet.len).ok_or(Refusal::TooLong)?;
        if received > wqe.capacity {
            return Err(Refusal::TooLong);
        }
        if packet.len != 0 {
            host.scatter_recv(offset)?;
        }
        let invalidated = packet.ext.ieth().map(|ieth| Key(ieth.rkey));
        if let Some(key) = invalidated {
            host.invalidate(key).map_err(|_| Refusal::Invalidate)?;
        }
        let last = packet.opcode.position().is_end();
        self.step_on(packet, 1, last);
        self.message = if last {
            Message::None
        } else {
            Message::Send { received }
        };
        if last {
            self.complete(packet, WcOpcode::Recv, received, invalidated, None, host);
        }
        Ok(())
    }

    fn write(&mut self, packet: &RxPacket, host: &mut impl RecvHost) -> Result<(), Refusal> {
        let start = packet.ext.reth().map(|reth| Write {
            key: Key(reth.rkey),
            va: reth.va,
            left: reth.length,
            total: reth.length,
        });
        let write = match (start, self.message) {
            (Some(write), _) => write,
            (None, Message::Write(write)) => write,
            (None, Message::None | Message::Send { .. }) => return Err(Refusal::Order),
        };
        if write.total > MAX_MESSAGE {
            return Err(Refusal::Length);
        }
        // The packets must carry exactly the length in the first one (C9-94).
        let last = packet.opcode.position().is_end();
        let mtu = self.mtu_of(packet);
        if last != (write.left <= mtu) || packet.len != write.left.min(mtu) {
            return Err(Refusal::Length);
        }
        let has_imm = packet.opcode.layout().has_imm();
        if has_imm {
            self.take_recv(host)?;
        }
        if start.is_some() && write.total != 0 {
            host.check_remote(write.key, write.va, write.total, AccessFlags::REMOTE_WRITE)?;
        }
        if packet.len != 0 {
            host.write_remote(write.key, write.va)?;
        }
        self.step_on(packet, 1, last);
        self.message = if last {
            Message::None
        } else {
            Message::Write(Write {
                va: write.va.wrapping_add(u64::from(packet.len)),
                left: write.left.saturating_sub(packet.len),
                ..write
            })
        };
        if has_imm {
            let opcode = WcOpcode::RecvRdmaWithImm;
            self.complete(packet, opcode, write.total, None, None, host);
        }
        Ok(())
    }

    fn read(
        &mut self,
        packet: &RxPacket,
        reth: Reth,
        host: &mut impl RecvHost,
    ) -> Result<(), Refusal> {
        self.check_payload(packet)?;
        self.check_free_resource()?;
        let (key, va, len) = (Key(reth.rkey), reth.va, reth.length);
        let count = packets(len, self.mtu_of(packet));
        if len > MAX_MESSAGE || count > MAX_OUTSTANDING {
            return Err(Refusal::Length);
        }
        if len != 0 {
            host.check_remote(key, va, len, AccessFlags::REMOTE_READ)?;
        }
        self.step_on(packet, count, true);
        self.owe(packet, count, Saved::Read { key, va, len });
        Ok(())
    }

    fn atomic(
        &mut self,
        packet: &RxPacket,
        eth: AtomicEth,
        op: AtomicOp,
        host: &mut impl RecvHost,
    ) -> Result<(), Refusal> {
        self.check_payload(packet)?;
        self.check_free_resource()?;
        let value = host.atomic(Key(eth.rkey), eth.va, op)?;
        self.step_on(packet, 1, true);
        self.owe(packet, 1, Saved::Atomic { value });
        Ok(())
    }

    fn atomic_write(
        &mut self,
        packet: &RxPacket,
        reth: Reth,
        host: &mut impl RecvHost,
    ) -> Result<(), Refusal> {
        self.check_payload(packet)?;
        self.check_free_resource()?;
        // oA19-28: the length must be eight bytes.
        if reth.length != 8 {
            return Err(Refusal::Length);
        }
        host.atomic_write(Key(reth.rkey), reth.va)?;
        self.step_on(packet, 1, true);
        self.owe(packet, 1, Saved::Done);
        Ok(())
    }

    fn flush_memory(
        &mut self,
        packet: &RxPacket,
        feth: Feth,
        reth: Reth,
        host: &mut impl RecvHost,
    ) -> Result<(), Refusal> {
        self.check_payload(packet)?;
        self.check_free_resource()?;
        host.flush(Key(reth.rkey), reth.va, reth.length, flush_kind(feth)?)?;
        self.step_on(packet, 1, true);
        self.owe(packet, 1, Saved::Done);
        Ok(())
    }

    /// Executes a datagram. Its PSN is ignored.
    pub(super) fn datagram(
        &mut self,
        packet: &RxPacket,
        host: &mut impl RecvHost,
    ) -> Result<(), Refusal> {
        let deth = packet.ext.deth().ok_or(Refusal::Order)?;
        let qkey = match self.attr.kind {
            QpType::Gsi => GSI_QKEY,
            QpType::Ud | QpType::Rc | QpType::Uc => self.attr.qkey,
        };
        if deth.qkey != qkey {
            return Err(Refusal::Qkey);
        }
        let wqe = self.take_recv(host)?;
        let received = GRH_LEN.checked_add(packet.len).ok_or(Refusal::TooLong)?;
        if received > wqe.capacity {
            return Err(Refusal::TooLong);
        }
        host.scatter_datagram(packet.len)?;
        let from = Some(Qpn(deth.src_qpn));
        self.complete(packet, WcOpcode::Recv, received, None, from, host);
        Ok(())
    }

    /// Advances the expected PSN by `psns` after the packet was executed.
    fn step_on(&mut self, packet: &RxPacket, psns: u32, last: bool) {
        self.expected = packet.psn + psns;
        if last {
            self.msn += 1;
        }
    }

    /// Completes the current receive request, if there is one.
    fn complete(
        &mut self,
        packet: &RxPacket,
        opcode: WcOpcode,
        byte_len: u32,
        invalidated: Option<Key>,
        src_qpn: Option<Qpn>,
        host: &mut impl RecvHost,
    ) {
        let Some(wqe) = self.recv.take() else {
            return;
        };
        host.count(Counter::Recv);
        host.complete(&RecvCompletion {
            wr_id: wqe.wr_id,
            status: WcStatus::Success,
            opcode,
            byte_len,
            imm: packet.ext.imm().map(|imm| imm.0),
            invalidated,
            src_qpn,
            solicited: packet.solicited,
        });
    }
}

/// Decodes a FETH; reserved values make the request invalid (annex A19).
fn flush_kind(feth: Feth) -> Result<FlushKind, Refusal> {
    let global = feth.placement & Feth::GLOBAL != 0;
    let persistent = feth.placement & Feth::PERSISTENT != 0;
    let known = feth.placement & !(Feth::GLOBAL | Feth::PERSISTENT) == 0;
    if !known || !(global || persistent) || feth.selectivity > Feth::REGION {
        return Err(Refusal::Unsupported);
    }
    Ok(FlushKind {
        global,
        persistent,
        whole_region: feth.selectivity == Feth::REGION,
    })
}
