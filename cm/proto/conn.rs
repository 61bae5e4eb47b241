// SPDX-License-Identifier: GPL-2.0

//! State of one communication identifier: [`Conn`].
//!
//! A `Conn` is owned by its identifier and protected by that identifier's lock. Every method is one
//! step: it takes what happened and returns [`Actions`], which the caller carries out; the timer is
//! that of [`Conn::deadline`] afterwards. There are two kinds of steps:
//!
//! * [`Conn::call`]: the consumer calls. The step sends at most one message, through a closure,
//!   before it changes the state: if the message cannot be posted, the state is what the C module
//!   leaves behind in this case, and the error is returned.
//! * all others: something happened. The step sends at most one message, as an action. Nobody waits
//!   for it: if it cannot be posted, it is dropped, and the peer repeats itself.
//!
//! ```text
//!            REQ>        >REP          RTU>
//!   Idle ---------> ReqSent ----> RepRcvd ----+       DREQ>         >DREP, >REJ, no answer
//!    |                                        +-> Established --> DreqSent --> Timewait -> Idle
//!    +-- (new) ---> ReqRcvd ----> RepSent ----+       |  >DREQ           DREP>    ^
//!            >REQ         REP>          >RTU          +---------> DreqRcvd -------+
//! ```
//!
//! `REQ>` is sent, `>REQ` is received. `ReqSent`, `ReqRcvd`, `RepSent` and `RepRcvd` each also
//! exist with an MRA, as [`StateName`] tells.
//!
//! Source: IBTA volume 1, 12.9 (state machines); `enum ib_cm_state`.

mod calls;
mod events;
mod qp;
mod state;

pub use self::qp::Alternate;
pub use self::qp::InitAttr;
pub use self::qp::InitiatorAttr;
pub use self::qp::RtrAttr;
pub use self::qp::RtsAttr;
pub use self::state::Conn;

use super::answer::Answer;
use super::ids::Ece;
use super::ids::Gid;
use super::ids::Guid;
use super::ids::Psn;
use super::ids::Qpn;
use super::ids::SendId;
use super::ids::ServiceId;
use super::tables::PeerKeys;
use super::tables::SidrKey;
use super::wire::Kind;
use super::wire::Message;
use super::wire::Reason;
use super::wire::Req;

/// Address of the peer: what a message is sent by. In the kernel a counted reference to a port, an
/// address handle and its attributes; cloning is cheap.
pub trait Route: Clone {
    /// Upper 32 bits of the TIDs of the agent that sends; 0 if there is none any more.
    fn hi_tid(&self) -> u32;
    /// GUID of the own adapter.
    fn node_guid(&self) -> Guid;
    /// Acknowledgement delay of the own adapter.
    fn ack_delay(&self) -> u8;
}

/// A path to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path<R> {
    /// Where messages are sent.
    pub route: R,
    /// GID of the peer. A message that carries another source GID is a forgery.
    pub peer: Gid,
    /// Timeout field of the queue pair: packet life time and one. See
    /// [`times::ack_timeout`](super::times::ack_timeout).
    pub timeout: u8,
    /// Whether the path has a LID. RoCE has none, and no alternate paths.
    pub has_lid: bool,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Source GID; `None` if the message had no GRH. RoCE messages have one always.
    pub gid: Option<Gid>,
    /// Source LID; 0 on RoCE.
    pub slid: u32,
    /// Service level.
    pub sl: u8,
    /// Lower bits of the destination LID.
    pub dlid_path_bits: u8,
}

/// Name of a state. The discriminant is that of `enum ib_cm_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "named as in the specification")]
pub enum StateName {
    Idle = 0,
    Listen,
    ReqSent,
    ReqRcvd,
    MraReqSent,
    MraReqRcvd,
    RepSent,
    RepRcvd,
    MraRepSent,
    MraRepRcvd,
    Established,
    DreqSent,
    DreqRcvd,
    Timewait,
    SidrReqSent,
    SidrReqRcvd,
}

impl StateName {
    /// All states, by number.
    pub const ALL: [Self; 16] = [
        Self::Idle,
        Self::Listen,
        Self::ReqSent,
        Self::ReqRcvd,
        Self::MraReqSent,
        Self::MraReqRcvd,
        Self::RepSent,
        Self::RepRcvd,
        Self::MraRepSent,
        Self::MraRepRcvd,
        Self::Established,
        Self::DreqSent,
        Self::DreqRcvd,
        Self::Timewait,
        Self::SidrReqSent,
        Self::SidrReqRcvd,
    ];
}

/// State of the alternate path of an established connection. The discriminant is that of `enum
/// ib_cm_lap_state`, of which `IB_CM_LAP_SENT` and `IB_CM_MRA_LAP_RCVD` cannot occur: Linux does
/// not send LAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lap {
    /// As agreed when the connection was made.
    #[default]
    Uninit = 0,
    /// The queue pair has migrated to it.
    Idle = 1,
    /// The peer proposed another one.
    Rcvd = 3,
    /// As before, and the consumer needs time.
    MraSent = 4,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `EINVAL`: not in this state, or an argument is wrong.
    Invalid,
    /// `EISCONN`: the connection is established already.
    Connected,
    /// `ENODEV`: the device is gone.
    NoDevice,
}

/// Why a call failed. `E` is the error of the closure that posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// The call is refused; nothing changed.
    Refused(Refused),
    /// The message could not be posted.
    NotPosted(E),
}

/// Parameters of a connection request.
#[derive(Clone, Copy, Debug)]
pub struct ReqCall<'a, R> {
    /// Primary path.
    pub primary: Path<R>,
    /// Alternate path.
    pub alternate: Option<Path<R>>,
    /// Packet life time field of the primary path.
    pub life_time: u8,
    /// The message. `local_id` and `ca_guid` are set by the step.
    pub req: Req<'a>,
}

/// Parameters of a connection reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepCall<'a> {
    /// Own queue pair.
    pub qpn: Qpn,
    /// First PSN that the own queue pair expects.
    pub psn: Psn,
    /// Requests that this side executes at a time.
    pub responder_resources: u8,
    /// Requests that this side issues at a time.
    pub initiator_depth: u8,
    /// Whether the alternate path is accepted.
    pub failover_accepted: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries after "receiver not ready".
    pub rnr_retry_count: u8,
    /// The queue pair has a shared receive queue.
    pub srq: bool,
    /// Vendor options.
    pub ece: Ece,
    /// Private data.
    pub private: &'a [u8],
}

/// Parameters of a service id resolution request.
#[derive(Clone, Copy, Debug)]
pub struct SidrReqCall<'a, R> {
    /// Path to the node of the service.
    pub path: Path<R>,
    /// Service.
    pub service_id: ServiceId,
    /// Partition.
    pub pkey: u16,
    /// Response timeout in milliseconds.
    pub timeout_ms: u32,
    /// Number of retries.
    pub max_cm_retries: u8,
    /// Private data.
    pub private: &'a [u8],
}

/// Parameters of a service id resolution reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct SidrRepCall<'a> {
    /// Queue pair of the service.
    pub qpn: Qpn,
    /// Q_Key of the service.
    pub qkey: u32,
    /// Result (`enum ib_cm_sidr_status`).
    pub status: u8,
    /// Vendor options, of which 16 bits of the vendor are sent.
    pub ece: Ece,
    /// Additional information.
    pub info: &'a [u8],
    /// Private data.
    pub private: &'a [u8],
}

/// A call of the consumer.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a, R> {
    /// `ib_send_cm_req`.
    Req(ReqCall<'a, R>),
    /// `ib_send_cm_rep`.
    Rep(RepCall<'a>),
    /// `ib_send_cm_rtu`.
    Rtu {
        /// Private data.
        private: &'a [u8],
    },
    /// `ib_send_cm_rej`.
    Rej {
        /// Reason.
        reason: Reason,
        /// Additional information.
        ari: &'a [u8],
        /// Private data.
        private: &'a [u8],
    },
    /// `ib_send_cm_dreq`. Also for the owner of keys that a newer connection claims
    /// ([`Claim::SameQpn`](super::tables::Claim::SameQpn)), result ignored.
    Dreq {
        /// Private data.
        private: &'a [u8],
    },
    /// `ib_send_cm_drep`.
    Drep {
        /// Private data.
        private: &'a [u8],
    },
    /// `ib_prepare_cm_mra`.
    PrepareMra,
    /// `ib_cm_notify` with `IB_EVENT_COMM_EST`.
    Established,
    /// `ib_cm_notify` with `IB_EVENT_PATH_MIG`.
    Migrated,
    /// `ib_send_cm_sidr_req`.
    SidrReq(SidrReqCall<'a, R>),
    /// `ib_send_cm_sidr_rep`.
    SidrRep(SidrRepCall<'a>),
}

/// The agent that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// The one that receives.
    Main,
    /// The second, which only sends: REPs do not wait behind REQs for flow control.
    Reply,
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Once, without a response. The send is not part of the state.
    Once,
    /// Repeated until it is cancelled, or fails after all retries. Its end is reported by
    /// [`Conn::send_ended`].
    Tracked {
        /// The send.
        id: SendId,
        /// Time to a repetition in milliseconds.
        timeout_ms: u32,
        /// Number of retries.
        retries: u8,
    },
}

/// A message that a call sends.
#[derive(Clone, Copy, Debug)]
pub struct Posting<'a, R> {
    /// Where to.
    pub to: &'a R,
    /// By which agent.
    pub agent: Agent,
    /// How.
    pub policy: Policy,
    /// What. Private data is never too long.
    pub message: &'a Message<'a>,
}

/// Where an [`Answer`] is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To<R> {
    /// By this route.
    Route(R),
    /// To the sender of the message that this step is about, who is the peer.
    Sender,
    /// To the sender of the message that this step is about, which names another connection than this:
    /// never along a route of this connection.
    Stranger,
}

/// A message that a step sends: once, by [`Agent::Main`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest<R> {
    /// Where to.
    pub to: To<R>,
    /// What.
    pub answer: Answer,
    /// Whether it answers a message that was repeated: for the [counters](super::counters::sent).
    pub is_repeat: bool,
}

/// An event for the consumer's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The message that this step is about; it is delivered with the event.
    Received(Kind),
    /// The message of this kind (REQ, REP, DREQ or SIDR_REQ) was not answered. With the completion
    /// status of the send.
    Failed(Kind, u32),
    /// The queue pair has received a message before the RTU arrived.
    UserEstablished,
    /// The timewait period is over.
    TimewaitExit,
}

impl Event {
    /// Its number in `enum ib_cm_event_type`.
    pub const fn number(self) -> u32 {
        match self {
            Self::Received(Kind::Req) => 1,
            Self::Received(Kind::Rep) => 3,
            Self::Received(Kind::Rtu) => 4,
            Self::Received(Kind::Dreq) => 7,
            Self::Received(Kind::Drep) => 8,
            Self::Received(Kind::Mra) => 10,
            Self::Received(Kind::Rej) => 11,
            Self::Received(Kind::Lap) => 13,
            Self::Received(Kind::Apr) => 14,
            Self::Received(Kind::SidrReq) => 16,
            Self::Received(Kind::SidrRep) => 17,
            Self::Failed(Kind::Rep, _) => 2,
            Self::Failed(Kind::Dreq, _) => 6,
            Self::Failed(Kind::Lap, _) => 12,
            Self::Failed(Kind::SidrReq, _) => 15,
            Self::Failed(_, _) => 0,
            Self::UserEstablished => 5,
            Self::TimewaitExit => 9,
        }
    }
}

/// Private data that the caller keeps with the `Conn`, for answers to repeated messages
/// ([`Answer::message`]). There is at most one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Replace it by the private data of this call.
    Private,
    /// Drop it.
    Nothing,
}

/// What a step makes the caller do, in the order of the fields. None of it waits, so all can be
/// done under the lock, except `event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is not done is lost"]
pub struct Actions<R> {
    /// Cancel a send.
    pub cancel: Option<SendId>,
    /// Change the time to the next repetition of a send, in milliseconds.
    pub extend: Option<(SendId, u32)>,
    /// Remove both keys of the connection from the tables.
    pub release: Option<PeerKeys>,
    /// Remove the key of the request from the table.
    pub release_sidr: Option<SidrKey>,
    /// What to do with the kept private data. A step that changes it sends none of it.
    pub keep: Option<Keep>,
    /// Send the message of a send once more by this route, if the port's
    /// [`Budget`](super::repeat::Budget) has room. If it cannot be posted, go on.
    pub again: Option<(SendId, R)>,
    /// Send a message once. If it cannot be posted, go on.
    pub send: Option<SendRequest<R>>,
    /// Count a duplicate of this kind.
    pub duplicate: Option<Kind>,
    /// Paths that are not used any more: drop them after unlocking.
    pub dropped: [Option<R>; 2],
    /// Deliver this to the consumer, after the events before it.
    pub event: Option<Event>,
}

impl<R> Default for Actions<R> {
    fn default() -> Self {
        Self {
            cancel: None,
            extend: None,
            release: None,
            release_sidr: None,
            keep: None,
            again: None,
            send: None,
            duplicate: None,
            dropped: [None, None],
            event: None,
        }
    }
}

/// How a tracked send ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// It was cancelled, or its agent is gone (`IB_WC_WR_FLUSH_ERR`), or it needs no response.
    Ended,
    /// It failed with this completion status: after all retries, or at once.
    Failed(u32),
}

/// Why an identifier is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroy {
    /// The consumer calls `ib_destroy_cm_id`, or its handler returned an error.
    Consumer,
    /// The handler returned `ENOMEM`. A REQ is then not answered: the peer repeats it.
    NoMemory,
}

/// The paths of a LAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LapPaths<R> {
    /// Route back to the sender of the message.
    pub reply: R,
    /// The proposed path.
    pub alternate: Path<R>,
}
