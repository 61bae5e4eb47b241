// SPDX-License-Identifier: GPL-2.0

//! Congestion notification to the peer (IBTA A17.9.3, RFC 3168).
//!
//! A switch whose queue grows marks packets instead of dropping them. The receiver of a marked
//! packet returns a congestion notification packet (CNP), at most one per [`Notices::SPACING`] for
//! each half of a queue pair, and the sender [reduces its window] for a while. CNPs are not
//! acknowledged; a lost one only delays the reaction.
//!
//! [reduces its window]: super::send::SendSide::on_congestion

use crate::wire::Ext;
use crate::wire::Opcode;
use crate::wire::Psn;

use super::packet::Dest;
use super::packet::Payload;
use super::packet::TxPacket;
use super::types::Nanos;
use super::types::Qpn;

/// Whether a CNP is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notices {
    due: bool,
    /// Earliest time of the next CNP.
    next: Nanos,
}

impl Notices {
    /// Minimum time between two CNPs.
    pub(super) const SPACING: Nanos = Nanos(50_000);

    pub(super) const NEW: Self = Self {
        due: false,
        next: Nanos(0),
    };

    /// Records the arrival of a marked packet.
    pub(super) fn marked(&mut self, now: Nanos) {
        if self.next <= now {
            self.next = now.after(Self::SPACING);
            self.due = true;
        }
    }

    /// Returns whether a CNP is to be sent.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns the CNP to send to `dest`, if one is due, and clears the request: if it cannot be
    /// sent now, the next marked packet triggers another.
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
