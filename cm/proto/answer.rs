// SPDX-License-Identifier: GPL-2.0

//! Messages that the CM sends by itself. They are small: private data is kept by the caller, and
//! additional information is an adapter or a port.

use super::ids::CommId;
use super::ids::Ece;
use super::ids::Gid;
use super::ids::Guid;
use super::ids::Qpn;
use super::ids::ServiceId;
use super::times;
use super::wire::About;
use super::wire::Body;
use super::wire::Drep;
use super::wire::Dreq;
use super::wire::Kind;
use super::wire::Message;
use super::wire::Mra;
use super::wire::Reason;
use super::wire::Rej;
use super::wire::Rtu;
use super::wire::SidrRep;

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

    /// The message. `kept` is the private data that is [kept](super::conn::Keep). It can always be
    /// written if `kept` was part of a message.
    pub fn message<'a>(&'a self, kept: &'a [u8]) -> Message<'a> {
        let Self {
            tid,
            local_id,
            remote_id,
            say,
        } = self;
        let (local_id, remote_id) = (*local_id, *remote_id);
        let body = match say {
            Say::Mra { about } => Body::Mra(Mra {
                local_id,
                remote_id,
                about: *about,
                service_timeout: times::MRA,
                private: &[],
            }),
            Say::Rej { about, reason, ari } => Body::Rej(Rej {
                local_id,
                remote_id,
                about: *about,
                reason: *reason,
                ari: match ari {
                    Ari::None => &[],
                    Ari::Guid(guid) => guid,
                    Ari::Gid(gid) => &gid.0,
                },
                ari_guid: match ari {
                    Ari::Guid(guid) => Guid(u64::from_be_bytes(*guid)),
                    Ari::None | Ari::Gid(_) => Guid::default(),
                },
                private: &[],
            }),
            Say::Rtu => Body::Rtu(Rtu {
                local_id,
                remote_id,
                private: kept,
            }),
            Say::Dreq { remote_qpn } => Body::Dreq(Dreq {
                local_id,
                remote_id,
                remote_qpn: *remote_qpn,
                private: &[],
            }),
            Say::Drep { kept: with } => Body::Drep(Drep {
                local_id,
                remote_id,
                private: if *with { kept } else { &[] },
            }),
            Say::SidrRep { service_id, status } => Body::SidrRep(SidrRep {
                request_id: remote_id,
                status: *status,
                qpn: Qpn::default(),
                service_id: *service_id,
                qkey: 0,
                ece: Ece::default(),
                info: &[],
                private: &[],
            }),
        };
        Message { tid: *tid, body }
    }

    /// Rejects a REQ or a REP for which there is no state.
    pub fn reject(message: &Message<'_>, reason: Reason, ari: Ari) -> Option<Self> {
        let (about, local_id, remote_id) = match &message.body {
            Body::Req(m) => (About::Req, CommId::NONE, m.local_id),
            Body::Rep(m) => (About::Rep, m.remote_id, m.local_id),
            Body::Mra(_)
            | Body::Rej(_)
            | Body::Rtu(_)
            | Body::Dreq(_)
            | Body::Drep(_)
            | Body::SidrReq(_)
            | Body::SidrRep(_)
            | Body::Lap(_)
            | Body::Apr(_) => return None,
        };
        Some(Self {
            tid: message.tid,
            local_id,
            remote_id,
            say: Say::Rej { about, reason, ari },
        })
    }

    /// The answer to a message for an identifier that does not exist: a DREQ is answered with a
    /// DREP and counts as a duplicate, as the peer may have missed the first one.
    pub fn to_stranger(message: &Message<'_>) -> Option<Self> {
        match &message.body {
            Body::Dreq(m) => Some(Self {
                tid: message.tid,
                local_id: m.remote_id,
                remote_id: m.local_id,
                say: Say::Drep { kept: false },
            }),
            Body::Req(_)
            | Body::Mra(_)
            | Body::Rej(_)
            | Body::Rep(_)
            | Body::Rtu(_)
            | Body::Drep(_)
            | Body::SidrReq(_)
            | Body::SidrRep(_)
            | Body::Lap(_)
            | Body::Apr(_) => None,
        }
    }

    /// Answers a SIDR_REQ for which nobody listens.
    pub fn sidr_unsupported(message: &Message<'_>) -> Option<Self> {
        match &message.body {
            Body::SidrReq(m) => Some(Self {
                tid: message.tid,
                local_id: CommId::NONE,
                remote_id: m.request_id,
                say: Say::SidrRep {
                    service_id: m.service_id,
                    status: SIDR_UNSUPPORTED,
                },
            }),
            Body::Req(_)
            | Body::Mra(_)
            | Body::Rej(_)
            | Body::Rep(_)
            | Body::Rtu(_)
            | Body::Dreq(_)
            | Body::Drep(_)
            | Body::SidrRep(_)
            | Body::Lap(_)
            | Body::Apr(_) => None,
        }
    }
}

/// The additional information of a rejection that gives up.
pub const fn timeout_ari(guid: Guid) -> Ari {
    Ari::Guid(guid.0.to_be_bytes())
}
