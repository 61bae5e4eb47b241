// SPDX-License-Identifier: GPL-2.0

//! Telling the peer that its packets met congestion (IBTA A17.9.3, RFC 3168).
//!
//! A switch whose queue grows marks packets instead of dropping them. Who receives a marked
//! one sends a congestion notification packet back, at most one in [`Notices::SPACING`] for
//! each half of a queue pair, and the sender has [less outstanding] for a while. The packet
//! is not acknowledged, and nothing is lost with it but time.
//!
//! [less outstanding]: super::send::SendSide::on_congestion

use crate::wire::Ext;
use crate::wire::Opcode;
use crate::wire::Psn;

use super::packet::Dest;
use super::packet::Payload;
use super::packet::TxPacket;
use super::types::Nanos;
use super::types::Qpn;

/// Whether a notification is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notices {
    due: bool,
    /// No other one before this.
    next: Nanos,
}

impl Notices {
    /// The time between two of them.
    pub(super) const SPACING: Nanos = Nanos(50_000);

    pub(super) const NEW: Self = Self {
        due: false,
        next: Nanos(0),
    };

    /// A marked packet came.
    pub(super) fn marked(&mut self, now: Nanos) {
        if self.next <= now {
            self.next = now.after(Self::SPACING);
            self.due = true;
        }
    }

    /// Whether one is to be sent.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// The notification to be sent to `dest`, if one is. It is not asked for again: if it
    /// cannot be sent now, the next marked packet will do.
    #[inline]
    pub(super) fn take(&mut self, dest: Qpn, mtu: u32) -> Option<TxPacket> {
        core::mem::take(&mut self.due).then(|| TxPacket {
            opcode: Opcode::Cnp,
            psn: Psn::new(0),
            ack_req: false,
            solicited: false,
            ext: Ext::Cnp,
            payload: Payload::None,
            dest: Dest::Peer(dest),
            mtu,
        })
    }
}
