// SPDX-License-Identifier: GPL-2.0

//! Messages: parsed from and written to MADs of 256 bytes.
//!
//! [`Message::parse`] accepts any bytes: what is no message of the CM is `None`, and reserved bits
//! are ignored. Fields are truncated to their width when they are written, so that what was parsed
//! is written back unchanged. Private data is borrowed from the MAD or from the caller.
//!
//! Source: IBTA volume 1, 12.6 (messages) and 12.7 (fields); `include/rdma/ibta_vol1_c12.h`.

mod layout;

use super::ids::CommId;
use super::ids::Ece;
use super::ids::Gid;
use super::ids::Guid;
use super::ids::Psn;
use super::ids::Qpn;
use super::ids::ServiceId;

/// Size of a MAD in bytes.
pub const MAD: usize = 256;
/// Management class of the CM.
pub const CLASS: u8 = 7;
/// Version of the management class.
pub const CLASS_VERSION: u8 = 2;
/// Method of all messages (Send).
pub const METHOD: u8 = 3;

/// Length of private data, in bytes.
pub mod private {
    /// In a [`Req`](super::Req).
    pub const REQ: usize = 92;
    /// In an [`Mra`](super::Mra).
    pub const MRA: usize = 222;
    /// In a [`Rej`](super::Rej).
    pub const REJ: usize = 148;
    /// In a [`Rep`](super::Rep).
    pub const REP: usize = 196;
    /// In an [`Rtu`](super::Rtu).
    pub const RTU: usize = 224;
    /// In a [`Dreq`](super::Dreq).
    pub const DREQ: usize = 220;
    /// In a [`Drep`](super::Drep).
    pub const DREP: usize = 224;
    /// In a [`SidrReq`](super::SidrReq).
    pub const SIDR_REQ: usize = 216;
    /// In a [`SidrRep`](super::SidrRep).
    pub const SIDR_REP: usize = 136;
    /// In a [`Lap`](super::Lap).
    pub const LAP: usize = 168;
    /// In an [`Apr`](super::Apr).
    pub const APR: usize = 148;
    /// Additional information in a [`Rej`](super::Rej), an [`Apr`](super::Apr) and a
    /// [`SidrRep`](super::SidrRep).
    pub const INFO: usize = 72;
}

/// Kind of a message. The discriminant is its attribute id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Kind {
    /// Connection request.
    Req = 0x10,
    /// Message receipt acknowledgement: the answer takes longer.
    Mra,
    /// Rejection.
    Rej,
    /// Connection reply.
    Rep,
    /// Ready to use.
    Rtu,
    /// Disconnection request.
    Dreq,
    /// Disconnection reply.
    Drep,
    /// Service id resolution request.
    SidrReq,
    /// Service id resolution reply.
    SidrRep,
    /// Load alternate path.
    Lap,
    /// Alternate path response.
    Apr,
}

impl Kind {
    /// All kinds, by attribute id.
    pub const ALL: [Self; 11] = [
        Self::Req,
        Self::Mra,
        Self::Rej,
        Self::Rep,
        Self::Rtu,
        Self::Dreq,
        Self::Drep,
        Self::SidrReq,
        Self::SidrRep,
        Self::Lap,
        Self::Apr,
    ];

    /// The kind with an attribute id.
    pub fn from_attr(attr: u16) -> Option<Self> {
        let number = attr.checked_sub(Self::Req.attr())?;
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its attribute id.
    pub const fn attr(self) -> u16 {
        // CAST: The discriminant.
        self as u16
    }

    /// Its index among the counters of a port: 0 to 10.
    pub const fn index(self) -> usize {
        // CAST: Widening.
        self.attr().saturating_sub(Self::Req.attr()) as usize
    }
}

/// Transport service of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connected.
    Rc,
    /// Unreliable connected.
    Uc,
    /// Extended reliable connected.
    Xrc,
    /// No type that the CM knows: the type (2 bits) and the extended type (3 bits). Type 0, type 1
    /// and type 3 with extended type 1 are the others.
    Other(u8, u8),
}

/// The message that an MRA or a REJ is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum About {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// Another message; in an MRA, a LAP.
    Other,
    /// Reserved.
    Reserved,
}

/// Reason of a rejection (`enum ib_cm_rej_reason`). Consumers may use further ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u16);

impl Reason {
    /// The peer did not answer in time.
    pub const TIMEOUT: Self = Self(4);
    /// Nobody listens for the service id.
    pub const INVALID_SERVICE_ID: Self = Self(8);
    /// The connection is known, or its queue pair is that of an older connection.
    pub const STALE_CONN: Self = Self(10);
    /// The primary path cannot be used.
    pub const INVALID_GID: Self = Self(12);
    /// The alternate path cannot be used.
    pub const INVALID_ALT_GID: Self = Self(18);
    /// The consumer rejects.
    pub const CONSUMER_DEFINED: Self = Self(28);
}

/// A path as it is in a REQ or a LAP. Local and remote are those of the sender of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WirePath {
    /// LID of the sender's port.
    pub local_lid: u16,
    /// LID of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// Flow label: 20 bits.
    pub flow_label: u32,
    /// Rate: 6 bits.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level: 4 bits.
    pub sl: u8,
    /// Whether both ports are in one subnet.
    pub subnet_local: bool,
    /// Acknowledgement timeout of the sender's queue pair: 5 bits.
    pub ack_timeout: u8,
}

impl WirePath {
    /// Returns whether a REQ that has this as its alternate path has one at all: a LID or an
    /// Omni-Path GID.
    pub const fn is_present(&self) -> bool {
        self.local_lid != 0 || self.local_gid.is_opa()
    }
}

/// Connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Req<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Service.
    pub service_id: ServiceId,
    /// Sender's adapter.
    pub ca_guid: Guid,
    /// Q_Key (of datagram services only).
    pub qkey: u32,
    /// Sender's queue pair.
    pub qpn: Qpn,
    /// Requests that the sender executes at a time.
    pub responder_resources: u8,
    /// Requests that the sender issues at a time.
    pub initiator_depth: u8,
    /// Response timeout that the receiver of this message is granted: 5 bits.
    pub remote_response_timeout: u8,
    /// Transport service.
    pub transport: Transport,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// First PSN that the sender expects.
    pub psn: Psn,
    /// Response timeout of the sender: 5 bits.
    pub local_response_timeout: u8,
    /// Retries of the queue pair: 3 bits.
    pub retry_count: u8,
    /// Partition.
    pub pkey: u16,
    /// Path MTU: 4 bits.
    pub mtu: u8,
    /// Retries after "receiver not ready": 3 bits.
    pub rnr_retry_count: u8,
    /// Retries of CM messages: 4 bits.
    pub max_cm_retries: u8,
    /// The queue pair has a shared receive queue.
    pub srq: bool,
    /// Primary path.
    pub primary: WirePath,
    /// Alternate path; [`WirePath::is_present`] holds for it.
    pub alternate: Option<WirePath>,
    /// Vendor options.
    pub ece: Ece,
    /// At most [`private::REQ`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Message receipt acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mra<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// The acknowledged message.
    pub about: About,
    /// Time that the answer takes: 5 bits.
    pub service_timeout: u8,
    /// At most [`private::MRA`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rej<'a> {
    /// Id of the sender, or 0.
    pub local_id: CommId,
    /// Id of the receiver, or 0.
    pub remote_id: CommId,
    /// The rejected message.
    pub about: About,
    /// Reason.
    pub reason: Reason,
    /// Valid part of the additional information; at most [`private::INFO`] bytes.
    pub ari: &'a [u8],
    /// At most [`private::REJ`] bytes; as many when parsed.
    pub private: &'a [u8],
    /// The GUID at the start of the additional information field, which need not be in the valid
    /// part. Not written.
    pub ari_guid: Guid,
}

/// Connection reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rep<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// Q_Key (of datagram services only).
    pub qkey: u32,
    /// Sender's queue pair.
    pub qpn: Qpn,
    /// Sender's queue pair if the connection is an [XRC](Transport::Xrc) one.
    pub eecn: Qpn,
    /// First PSN that the sender expects.
    pub psn: Psn,
    /// Requests that the sender executes at a time.
    pub responder_resources: u8,
    /// Requests that the sender issues at a time.
    pub initiator_depth: u8,
    /// Acknowledgement delay of the sender's adapter: 5 bits.
    pub target_ack_delay: u8,
    /// Whether the alternate path is accepted: 2 bits.
    pub failover_accepted: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries after "receiver not ready": 3 bits.
    pub rnr_retry_count: u8,
    /// The queue pair has a shared receive queue.
    pub srq: bool,
    /// Sender's adapter.
    pub ca_guid: Guid,
    /// Vendor options.
    pub ece: Ece,
    /// At most [`private::REP`] bytes; as many when parsed.
    pub private: &'a [u8],
}

impl Rep<'_> {
    /// The sender's queue pair, given the transport of the connection.
    pub const fn qpn_for(&self, transport: Transport) -> Qpn {
        match transport {
            Transport::Xrc => self.eecn,
            Transport::Rc | Transport::Uc | Transport::Other(..) => self.qpn,
        }
    }
}

/// Ready to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtu<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// At most [`private::RTU`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Disconnection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dreq<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// Receiver's queue pair.
    pub remote_qpn: Qpn,
    /// At most [`private::DREQ`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Disconnection reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drep<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// At most [`private::DREP`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Service id resolution request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidrReq<'a> {
    /// Id of the request.
    pub request_id: CommId,
    /// Partition.
    pub pkey: u16,
    /// Service.
    pub service_id: ServiceId,
    /// At most [`private::SIDR_REQ`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Service id resolution reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidrRep<'a> {
    /// Id of the request.
    pub request_id: CommId,
    /// Result (`enum ib_cm_sidr_status`).
    pub status: u8,
    /// Queue pair of the service.
    pub qpn: Qpn,
    /// Service.
    pub service_id: ServiceId,
    /// Q_Key of the service.
    pub qkey: u32,
    /// Vendor options.
    pub ece: Ece,
    /// Valid part of the additional information; at most [`private::INFO`] bytes.
    pub info: &'a [u8],
    /// At most [`private::SIDR_REP`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Load alternate path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lap<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// Receiver's queue pair.
    pub remote_qpn: Qpn,
    /// Response timeout that the receiver of this message is granted: 5 bits.
    pub remote_response_timeout: u8,
    /// The path.
    pub alternate: WirePath,
    /// At most [`private::LAP`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// Alternate path response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apr<'a> {
    /// Id of the sender.
    pub local_id: CommId,
    /// Id of the receiver.
    pub remote_id: CommId,
    /// Result (`enum ib_cm_apr_status`).
    pub status: u8,
    /// Valid part of the additional information; at most [`private::INFO`] bytes.
    pub info: &'a [u8],
    /// At most [`private::APR`] bytes; as many when parsed.
    pub private: &'a [u8],
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Connection request.
    Req(Req<'a>),
    /// Message receipt acknowledgement.
    Mra(Mra<'a>),
    /// Rejection.
    Rej(Rej<'a>),
    /// Connection reply.
    Rep(Rep<'a>),
    /// Ready to use.
    Rtu(Rtu<'a>),
    /// Disconnection request.
    Dreq(Dreq<'a>),
    /// Disconnection reply.
    Drep(Drep<'a>),
    /// Service id resolution request.
    SidrReq(SidrReq<'a>),
    /// Service id resolution reply.
    SidrRep(SidrRep<'a>),
    /// Load alternate path.
    Lap(Lap<'a>),
    /// Alternate path response.
    Apr(Apr<'a>),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Transaction id.
    pub tid: u64,
    /// What it says.
    pub body: Body<'a>,
}

/// Private data or additional information is longer than its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl<'a> Body<'a> {
    /// Kind of the message.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Req(_) => Kind::Req,
            Self::Mra(_) => Kind::Mra,
            Self::Rej(_) => Kind::Rej,
            Self::Rep(_) => Kind::Rep,
            Self::Rtu(_) => Kind::Rtu,
            Self::Dreq(_) => Kind::Dreq,
            Self::Drep(_) => Kind::Drep,
            Self::SidrReq(_) => Kind::SidrReq,
            Self::SidrRep(_) => Kind::SidrRep,
            Self::Lap(_) => Kind::Lap,
            Self::Apr(_) => Kind::Apr,
        }
    }

    /// Its private data.
    pub const fn private(&self) -> &'a [u8] {
        match self {
            Self::Req(m) => m.private,
            Self::Mra(m) => m.private,
            Self::Rej(m) => m.private,
            Self::Rep(m) => m.private,
            Self::Rtu(m) => m.private,
            Self::Dreq(m) => m.private,
            Self::Drep(m) => m.private,
            Self::SidrReq(m) => m.private,
            Self::SidrRep(m) => m.private,
            Self::Lap(m) => m.private,
            Self::Apr(m) => m.private,
        }
    }
}
