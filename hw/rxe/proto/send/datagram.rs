// SPDX-License-Identifier: GPL-2.0

//! Sending of datagrams, which are requests of one packet.
//!
//! IBTA 9.8.3, 10.2.5 (Q_Keys).

use crate::wire::Deth;
use crate::wire::Ext;
use crate::wire::ImmDt;
use crate::wire::Opcode;

use super::super::host::SendHost;
use super::super::host::TxError;
use super::super::packet::Dest;
use super::super::packet::Payload;
use super::super::packet::TxPacket;
use super::super::types::QpType;
use super::super::types::WcStatus;
use super::super::types::GSI_QKEY;
use super::super::wqe::SendOp;
use super::super::wqe::SendWqe;
use super::request;
use super::unreliable::unsent;
use super::SendSide;
use super::SlotState;
use super::Slots;
use super::Step;

impl<S: Slots> SendSide<S> {
    /// Sends the datagram at the cursor, which had to wait.
    pub(super) fn held_datagram(&mut self, host: &mut impl SendHost, wqe: &SendWqe) -> Step {
        let slot = self.index(self.at);
        let (state, step) = match self.send_datagram(host, wqe, slot) {
            Ok(()) => (SlotState::Done, Step::Again),
            Err(error) => unsent(error),
        };
        self.set_state(self.at, state);
        step
    }

    /// Sends the datagram in `slot`.
    ///
    /// # Errors
    ///
    /// Those of [`SendHost::emit`]; `BadPayload` also if the request is invalid.
    #[inline]
    pub(super) fn send_datagram(
        &mut self,
        host: &mut impl SendHost,
        wqe: &SendWqe,
        slot: u32,
    ) -> Result<(), TxError> {
        let (SendOp::Send { imm }, Some(ud)) = (wqe.op, wqe.ud) else {
            return Err(TxError::BadPayload(WcStatus::LocQpOp));
        };
        if wqe.length > self.attr.mtu {
            request::validate(&self.attr, wqe).map_err(TxError::BadPayload)?;
            // C10-93.1.1: a datagram longer than the MTU of the port is not sent, and this is not
            // an error.
        } else {
            let deth = Deth {
                qkey: match self.attr.kind {
                    QpType::Gsi => GSI_QKEY,
                    QpType::Ud | QpType::Rc | QpType::Uc => ud.qkey,
                },
                src_qpn: self.attr.qpn.0,
            };
            let (opcode, ext) = match imm {
                None => (Opcode::UdSendOnly, Ext::Deth(deth)),
                Some(imm) => (Opcode::UdSendOnlyImm, Ext::DethImm(deth, ImmDt(imm))),
            };
            let payload = match wqe.length {
                0 => Payload::None,
                len => Payload::Slot {
                    slot,
                    offset: 0,
                    len,
                },
            };
            host.emit(&TxPacket {
                opcode,
                psn: self.nxt,
                ack_req: false,
                solicited: wqe.flags.solicited,
                ext,
                payload,
                dest: Dest::Datagram { slot, qpn: ud.qpn },
                mtu: self.attr.mtu,
            })?;
        }
        self.sent_only();
        Ok(())
    }
}
