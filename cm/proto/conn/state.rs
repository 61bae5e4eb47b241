// SPDX-License-Identifier: GPL-2.0

//! The states, each with the data that exists in it, and what other parts ask about them.

use super::super::ids::CommId;
use super::super::ids::Gid;
use super::super::ids::Guid;
use super::super::ids::Instant;
use super::super::ids::Psn;
use super::super::ids::Qpn;
use super::super::ids::SendId;
use super::super::ids::ServiceId;
use super::super::repeat::Early;
use super::super::tables::PeerKeys;
use super::super::tables::SidrKey;
use super::super::times;
use super::super::wire::Req;
use super::super::wire::SidrReq;
use super::super::wire::Transport;
use super::Actions;
use super::Keep;
use super::Lap;
use super::Path;
use super::Refused;
use super::Route;
use super::Source;
use super::StateName;

/// What both sides agree on, and how messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms<R> {
    pub(super) primary: Path<R>,
    pub(super) alternate: Option<Path<R>>,
    /// TID of the exchange: answers repeat it.
    pub(super) tid: u64,
    /// Whether the identifier has sent a request before, so that a late answer to that one can only
    /// be told by its TID.
    pub(super) is_reused: bool,
    /// Time to the repetition of a message.
    pub(super) timeout_ms: u32,
    pub(super) max_retries: u8,
    pub(super) transport: Transport,
    /// Whether this side sent the REQ.
    pub(super) is_active: bool,
    pub(super) mtu: u8,
    pub(super) pkey: u16,
    /// Requests that this side executes at a time.
    pub(super) responder_resources: u8,
    /// Requests that this side issues at a time.
    pub(super) initiator_depth: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
}

impl<R> Terms<R> {
    /// Whether this side is the target of an XRC connection: it has no send queue.
    pub(super) fn is_xrc_target(&self) -> bool {
        self.transport == Transport::Xrc && !self.is_active
    }

    /// Whether a message can be from the peer, by its source GID.
    pub(super) fn is_from_peer(&self, source: &Source) -> bool {
        self.peers().includes(source)
    }

    fn peers(&self) -> Peers {
        Peers {
            primary: self.primary.peer,
            alternate: self.alternate.as_ref().map(|path| path.peer),
        }
    }
}

impl<R: Clone> Terms<R> {
    /// The routes, to be dropped.
    pub(super) fn routes(&self) -> [Option<R>; 2] {
        [
            Some(self.primary.route.clone()),
            self.alternate.as_ref().map(|path| path.route.clone()),
        ]
    }
}

/// GIDs of the peer's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peers {
    primary: Gid,
    alternate: Option<Gid>,
}

impl Peers {
    pub(super) fn includes(&self, source: &Source) -> bool {
        source
            .gid
            .is_none_or(|gid| gid == self.primary || Some(gid) == self.alternate)
    }
}

/// The other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) guid: Guid,
    pub(super) id: CommId,
    pub(super) qpn: Qpn,
    /// First PSN that the peer's queue pair expects: the first one to send.
    pub(super) psn: Psn,
}

impl Peer {
    pub(super) fn keys(&self) -> PeerKeys {
        PeerKeys {
            guid: self.guid,
            id: self.id,
            qpn: self.qpn,
        }
    }
}

/// This side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) qpn: Qpn,
    /// First PSN that the own queue pair expects.
    pub(super) psn: Psn,
}

/// All of a connection of which both sides are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link<R> {
    pub(super) terms: Terms<R>,
    pub(super) peer: Peer,
    pub(super) local: Local,
}

/// What a connection of which both sides are known waits for. `send` is `None` if the send ended
/// but was neither answered nor failed: its agent is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    RepSent { send: Option<SendId>, mra: bool },
    RepRcvd { mra: bool },
    Established { lap: Lap },
    DreqSent { send: Option<SendId> },
    DreqRcvd,
}

impl Step {
    const fn name(self) -> StateName {
        match self {
            Self::RepSent { mra: false, .. } => StateName::RepSent,
            Self::RepSent { mra: true, .. } => StateName::MraRepRcvd,
            Self::RepRcvd { mra: false } => StateName::RepRcvd,
            Self::RepRcvd { mra: true } => StateName::MraRepSent,
            Self::Established { .. } => StateName::Established,
            Self::DreqSent { .. } => StateName::DreqSent,
            Self::DreqRcvd => StateName::DreqRcvd,
        }
    }
}

/// See [`StateName`]. `mra` tells the states with an MRA from those without, `send` is as in
/// [`Step`]. A connection keeps its place from REP to the end: steps change what they change in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State<R> {
    Idle,
    Listen,
    /// Destroyed, or the device is gone: calls are refused, messages ignored.
    Gone,
    ReqSent {
        terms: Terms<R>,
        local: Local,
        send: Option<SendId>,
        mra: bool,
    },
    ReqRcvd {
        terms: Terms<R>,
        peer: Peer,
        mra: bool,
    },
    Linked {
        link: Link<R>,
        step: Step,
    },
    /// The keys are released. What private data is kept is that of a DREP.
    Timewait {
        until: Instant,
        local_qpn: Option<Qpn>,
        peers: Peers,
    },
    SidrReqSent {
        path: Path<R>,
        send: Option<SendId>,
        tid: u64,
        is_reused: bool,
    },
    SidrReqRcvd {
        route: R,
        key: SidrKey,
        tid: u64,
    },
}

/// One communication identifier. See the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conn<R> {
    pub(super) local_id: CommId,
    /// Of the present connection, or of the last one.
    pub(super) remote_id: CommId,
    pub(super) service_id: ServiceId,
    pub(super) next_send: u32,
    /// Of the send of the state, or of an earlier one.
    pub(super) early: Early,
    pub(super) state: State<R>,
}

impl<R: Route> Conn<R> {
    /// An idle identifier. `local_id` is unique, not 0, and not reused soon.
    pub const fn new(local_id: CommId) -> Self {
        Self {
            local_id,
            remote_id: CommId::NONE,
            service_id: ServiceId(0),
            next_send: 0,
            early: Early::Off,
            state: State::Idle,
        }
    }

    /// Has messages of this identifier [repeated early](super::super::repeat), or not.
    #[must_use]
    pub fn with_early_repeats(self, on: bool) -> Self {
        let early = if on { Early::None } else { Early::Off };
        Self { early, ..self }
    }

    /// The identifier of a received REQ, whose keys were [claimed](super::super::tables::claim).
    /// The caller delivers [`Event::Received`](super::Event::Received). `primary.peer` is the source
    /// GID of the message if there is one.
    pub fn from_req(
        local_id: CommId,
        tid: u64,
        req: &Req<'_>,
        primary: Path<R>,
        alternate: Option<Path<R>>,
    ) -> Self {
        Self {
            local_id,
            remote_id: req.local_id,
            service_id: req.service_id,
            next_send: 0,
            early: Early::Off,
            state: State::ReqRcvd {
                terms: Terms {
                    primary,
                    alternate,
                    tid,
                    is_reused: false,
                    timeout_ms: times::ms(req.local_response_timeout),
                    max_retries: req.max_cm_retries,
                    transport: req.transport,
                    is_active: false,
                    mtu: req.mtu,
                    pkey: req.pkey,
                    responder_resources: req.initiator_depth,
                    initiator_depth: req.responder_resources,
                    retry_count: req.retry_count,
                    rnr_retry_count: req.rnr_retry_count,
                },
                peer: Peer {
                    guid: req.ca_guid,
                    id: req.local_id,
                    qpn: req.qpn,
                    psn: req.psn,
                },
                mra: false,
            },
        }
    }

    /// The identifier of a received SIDR_REQ, whose key was inserted. The caller delivers
    /// [`Event::Received`](super::Event::Received).
    pub fn from_sidr_req(
        local_id: CommId,
        tid: u64,
        req: &SidrReq<'_>,
        key: SidrKey,
        route: R,
    ) -> Self {
        Self {
            local_id,
            remote_id: req.request_id,
            service_id: req.service_id,
            next_send: 0,
            early: Early::Off,
            state: State::SidrReqRcvd { route, key, tid },
        }
    }

    /// Own id.
    pub const fn local_id(&self) -> CommId {
        self.local_id
    }

    /// Id of the peer, or of the last one; 0 if there was none.
    pub const fn remote_id(&self) -> CommId {
        self.remote_id
    }

    /// Service.
    pub const fn service_id(&self) -> ServiceId {
        self.service_id
    }

    /// Name of the state.
    pub const fn state(&self) -> StateName {
        match &self.state {
            State::Idle | State::Gone => StateName::Idle,
            State::Listen => StateName::Listen,
            State::ReqSent { mra: false, .. } => StateName::ReqSent,
            State::ReqSent { mra: true, .. } => StateName::MraReqRcvd,
            State::ReqRcvd { mra: false, .. } => StateName::ReqRcvd,
            State::ReqRcvd { mra: true, .. } => StateName::MraReqSent,
            State::Linked { step, .. } => step.name(),
            State::Timewait { .. } => StateName::Timewait,
            State::SidrReqSent { .. } => StateName::SidrReqSent,
            State::SidrReqRcvd { .. } => StateName::SidrReqRcvd,
        }
    }

    /// State of the alternate path; [`Lap::Uninit`] unless established.
    pub const fn lap(&self) -> Lap {
        match &self.state {
            State::Linked {
                step: Step::Established { lap },
                ..
            } => *lap,
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Lap::Uninit,
        }
    }

    /// Whether `ib_send_cm_req`, `ib_send_cm_sidr_req` and `ib_cm_listen` may go on and find paths:
    /// the step itself checks again.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] if the identifier is not idle.
    pub const fn check_idle(&self) -> Result<(), Refused> {
        match &self.state {
            State::Idle => Ok(()),
            State::Listen
            | State::Gone
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Linked { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Err(Refused::Invalid),
        }
    }

    /// Records that the identifier listens: it is in the table of services. Listeners get no
    /// messages and have no events of their own.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] if it is not idle.
    pub fn listen(&mut self, service_id: ServiceId) -> Result<(), Refused> {
        self.check_idle()?;
        self.service_id = service_id;
        self.state = State::Listen;
        Ok(())
    }

    /// Partition and path MTU of the connection, which a LAP does not repeat.
    pub const fn pkey_and_mtu(&self) -> Option<(u16, u8)> {
        match self.terms() {
            Some(terms) => Some((terms.pkey, terms.mtu)),
            None => None,
        }
    }

    /// Whether a message that concerns the peer's adapter is from one of the peer's ports, as far
    /// as its source tells.
    pub fn is_from_peer(&self, source: &Source) -> bool {
        match &self.state {
            State::Timewait { peers, .. } => peers.includes(source),
            State::SidrReqSent { path, .. } => source.gid.is_none_or(|gid| gid == path.peer),
            State::Idle
            | State::Gone
            | State::Listen
            | State::SidrReqRcvd { .. }
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Linked { .. } => self.terms().is_some_and(|t| t.is_from_peer(source)),
        }
    }

    /// Whether an answer with this TID can be one to the present request.
    pub(super) fn is_of_exchange(&self, answer: u64) -> bool {
        match &self.state {
            State::ReqSent { terms, .. } => !terms.is_reused || answer == terms.tid,
            State::SidrReqSent { tid, is_reused, .. } => !is_reused || answer == *tid,
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
            | State::Linked { .. }
            | State::Timewait { .. }
            | State::SidrReqRcvd { .. } => true,
        }
    }

    /// Keys that the connection has in the tables.
    pub const fn keys(&self) -> Option<PeerKeys> {
        match self.peer() {
            Some(peer) => Some(PeerKeys {
                guid: peer.guid,
                id: peer.id,
                qpn: peer.qpn,
            }),
            None => None,
        }
    }

    /// The tracked send of the state.
    pub const fn current_send(&self) -> Option<SendId> {
        match &self.state {
            State::ReqSent { send, .. }
            | State::SidrReqSent { send, .. }
            | State::Linked {
                step: Step::RepSent { send, .. } | Step::DreqSent { send },
                ..
            } => *send,
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqRcvd { .. } => None,
        }
    }

    /// When [`timer`](Self::timer) is to be called, which may be later. It changes with each step; a timer
    /// of an earlier deadline may still fire.
    pub fn deadline(&self) -> Option<Instant> {
        if let State::Timewait { until, .. } = &self.state {
            return Some(*until);
        }
        self.early.due(self.current_send())
    }

    pub(super) const fn terms(&self) -> Option<&Terms<R>> {
        match &self.state {
            State::ReqSent { terms, .. } | State::ReqRcvd { terms, .. } => Some(terms),
            State::Linked { link, .. } => Some(&link.terms),
            State::Idle
            | State::Gone
            | State::Listen
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => None,
        }
    }

    pub(super) const fn peer(&self) -> Option<&Peer> {
        match &self.state {
            State::ReqRcvd { peer, .. } => Some(peer),
            State::Linked { link, .. } => Some(&link.peer),
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => None,
        }
    }

    const fn local(&self) -> Option<&Local> {
        match &self.state {
            State::ReqSent { local, .. } => Some(local),
            State::Linked { link, .. } => Some(&link.local),
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => None,
        }
    }

    /// A number for the next tracked send.
    pub(super) fn new_send(&mut self) -> SendId {
        let id = SendId(self.next_send);
        self.next_send = self.next_send.wrapping_add(1);
        id
    }

    /// A message was posted: schedules its early repeat.
    pub(super) fn begin_early(&mut self, now: Instant) {
        if let (Some(send), Some(terms)) = (self.current_send(), self.terms()) {
            self.early = self
                .early
                .of(send, now, terms.timeout_ms, terms.max_retries);
        }
    }

    /// A TID of this side.
    pub(super) fn own_tid(&self, route: &R) -> u64 {
        own_tid(self.local_id, route)
    }

    /// The TID of a new request, which differs from those of earlier requests; and whether there
    /// were any.
    pub(super) fn request_tid(&self, route: &R) -> (u64, bool) {
        let tid = self.own_tid(route) ^ u64::from(self.next_send);
        (tid, self.next_send != 0)
    }

    /// Ends a connection, or an attempt to make one.
    pub(super) fn end(&mut self, actions: &mut Actions<R>) {
        actions.release = self.keys();
        actions.keep = Some(Keep::Nothing);
        if let Some(terms) = self.terms() {
            actions.dropped = terms.routes();
        }
        self.state = State::Idle;
    }

    /// Ends a connection, of which messages may still be on their way.
    pub(super) fn end_with_timewait(&mut self, now: Instant, actions: &mut Actions<R>) {
        let Some(terms) = self.terms() else { return };
        let until = now.after(times::ms(terms.primary.timeout));
        let peers = terms.peers();
        let local_qpn = self.local().map(|local| local.qpn);
        self.end(actions);
        self.state = State::Timewait {
            until,
            local_qpn,
            peers,
        };
    }
}

/// A TID of this side, for an identifier with this id.
pub(super) fn own_tid(local_id: CommId, route: &impl Route) -> u64 {
    u64::from(route.hi_tid()) << 32 | u64::from(local_id.0)
}
