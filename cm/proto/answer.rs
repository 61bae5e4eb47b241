// SPDX-License-Identifier: GPL-2.0

//! Messages that the CM sends by itself. They are small: private data is kept by the caller, and
//! additional information is an adapter or a port.

use super::ids::CommId;
use super::ids::Gid;
use super::ids::Guid;
use super::ids::Qpn;
use super::ids::ServiceId;
use super::wire::About;
use super::wire::Kind;
use super::wire::Message;
use super::wire::Reason;

/// Additional information of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ari {
    /// None.
    None,
    /// The adapter that gave up, as 8 bytes, big-endian.
    Guid([u8; 8]),
    /// A port that can be used.
    Gid(Gid),
}

/// What an [`Answer`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of the message")]
pub enum Say {
    /// The answer takes longer.
    Mra { about: About },
    /// Rejection.
    Rej {
        about: About,
        reason: Reason,
        ari: Ari,
    },
    /// Ready to use, again: with the kept private data.
    Rtu,
    /// Disconnection request.
    Dreq { remote_qpn: Qpn },
    /// Disconnection reply. `kept`: with the kept private data.
    Drep { kept: bool },
    /// Service id resolution reply.
    SidrRep { service_id: ServiceId, status: u8 },
}

/// A message that a step sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Transaction id.
    pub tid: u64,
    /// Id of the sender, or 0.
    pub local_id: CommId,
    /// Id of the receiver, or 0.
    pub remote_id: CommId,
    /// What it says.
    pub say: Say,
}

/// Status of a service id resolution reply: nobody listens.
pub const SIDR_UNSUPPORTED: u8 = 1;
/// Status of a service id resolution reply: the consumer rejects.
pub const SIDR_REJECT: u8 = 2;

impl Answer {
    /// Kind of the message.
    pub const fn kind(&self) -> Kind {
        match self.say {
            Say::Mra { .. } => Kind::Mra,
            Say::Rej { .. } => Kind::Rej,
            Say::Rtu => Kind::Rtu,
            Say::Dreq { .. } => Kind::Dreq,
            Say::Drep { .. } => Kind::Drep,
            Say::SidrRep { .. } => Kind::SidrRep,
        }
    }

    /// The message. `kept` is the private data that is [kept](super::conn::Keep).
    pub fn message<'a>(&'a self, kept: &'a [u8]) -> Message<'a> {
        let _ = kept;
        todo!()
    }

    /// Rejects a REQ or a REP for which there is no state.
    pub fn reject(message: &Message<'_>, reason: Reason, ari: Ari) -> Option<Self> {
        let _ = (message, reason, ari);
        todo!()
    }

    /// The answer to a message for an identifier that does not exist: a DREQ is answered with a
    /// DREP and counts as a duplicate, as the peer may have missed the first one.
    pub fn to_stranger(message: &Message<'_>) -> Option<Self> {
        let _ = message;
        todo!()
    }

    /// Answers a SIDR_REQ for which nobody listens.
    pub fn sidr_unsupported(message: &Message<'_>) -> Option<Self> {
        let _ = message;
        todo!()
    }
}

/// The additional information of a rejection that gives up.
pub const fn timeout_ari(guid: Guid) -> Ari {
    Ari::Guid(guid.0.to_be_bytes())
}
