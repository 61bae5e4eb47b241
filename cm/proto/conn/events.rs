// SPDX-License-Identifier: GPL-2.0

//! Steps of what happens: messages, sends that end, timers, removal, destruction.

use super::super::answer::timeout_ari;
use super::super::answer::Answer;
use super::super::answer::Ari;
use super::super::answer::Say;
use super::super::answer::SIDR_REJECT;
use super::super::ids::CommId;
use super::super::ids::Instant;
use super::super::ids::SendId;
use super::super::tables::Claim;
use super::super::tables::PeerKeys;
use super::super::times;
use super::super::wire::About;
use super::super::wire::Body;
use super::super::wire::Drep;
use super::super::wire::Dreq;
use super::super::wire::Kind;
use super::super::wire::Lap as LapMessage;
use super::super::wire::Message;
use super::super::wire::Mra;
use super::super::wire::Reason;
use super::super::wire::Rej;
use super::super::wire::Rep;
use super::super::wire::Rtu;
use super::state::Link;
use super::state::Peer;
use super::state::State;
use super::Actions;
use super::Conn;
use super::Destroy;
use super::Event;
use super::Keep;
use super::Lap;
use super::LapPaths;
use super::Route;
use super::Send;
use super::SendEnd;
use super::Source;
use super::Timer;
use super::To;

use core::mem;

/// The message is delivered.
fn deliver<R>(kind: Kind) -> Actions<R> {
    Actions {
        event: Some(Event::Received(kind)),
        ..Actions::default()
    }
}

/// The message is a duplicate.
fn duplicate<R>(kind: Kind) -> Actions<R> {
    Actions {
        duplicate: Some(kind),
        ..Actions::default()
    }
}

/// Sends the answer of a connection once more, to who repeated himself.
fn repeat<R>(answer: Answer) -> Option<Send<R>> {
    Some(Send {
        to: To::Sender,
        answer,
        is_repeat: true,
    })
}

impl<R: Route> Conn<R> {
    /// A message for this identifier was received ([`Lookup`](super::super::tables::Lookup)).
    /// `claim` claims the keys of the peer; it is called at most once, for a REP. On
    /// [`Claim::SameQpn`] the caller has more to do once it has unlocked. `lap`: the paths of a LAP,
    /// if they can be used.
    pub fn receive(
        &mut self,
        message: &Message<'_>,
        source: &Source,
        lap: Option<LapPaths<R>>,
        now: Instant,
        claim: impl FnOnce(&PeerKeys) -> Claim,
    ) -> Actions<R> {
        if let (Body::Dreq(m), Some(answer)) = (&message.body, Answer::to_stranger(message)) {
            if m.local_id != self.remote_id {
                return Actions {
                    send: repeat(answer),
                    ..duplicate(Kind::Dreq)
                };
            }
        }
        if !self.is_from_peer(source) || !self.is_of_exchange(message.tid) {
            return Actions::default();
        }
        match &message.body {
            Body::Rep(m) => self.on_rep(message, m, claim),
            Body::Rtu(m) => self.on_rtu(m),
            Body::Mra(m) => self.on_mra(m),
            Body::Rej(m) => self.on_rej(m, now),
            Body::Dreq(m) => self.on_dreq(message, m),
            Body::Drep(m) => self.on_drep(m, now),
            Body::SidrRep(_) => self.on_sidr_rep(),
            Body::Lap(m) => self.on_lap(message, m, lap),
            Body::Req(_) | Body::SidrReq(_) | Body::Apr(_) => Actions::default(),
        }
    }

    /// A REQ was received whose peer and id are those of this connection.
    pub fn duplicate_req(&mut self, message: &Message<'_>, source: &Source) -> Actions<R> {
        let mut actions = duplicate(Kind::Req);
        if !self.is_from_peer(source) {
            return actions;
        }
        let say = match &self.state {
            State::ReqRcvd { mra: true, .. } => Say::Mra { about: About::Req },
            State::Timewait { .. } => Say::Rej {
                about: About::Other,
                reason: Reason::STALE_CONN,
                ari: Ari::None,
            },
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::RepSent { .. }
            | State::RepRcvd { .. }
            | State::Established { .. }
            | State::DreqSent { .. }
            | State::DreqRcvd { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return actions,
        };
        actions.send = repeat(self.say(message.tid, say));
        actions
    }

    fn on_rep(
        &mut self,
        message: &Message<'_>,
        m: &Rep<'_>,
        claim: impl FnOnce(&PeerKeys) -> Claim,
    ) -> Actions<R> {
        let (mut terms, local, send, mra) = match mem::replace(&mut self.state, State::Idle) {
            State::ReqSent {
                terms,
                local,
                send,
                mra,
            } => (terms, local, send, mra),
            other => {
                self.state = other;
                return self.on_duplicate_rep(m);
            }
        };
        let peer = Peer {
            guid: m.ca_guid,
            id: m.local_id,
            qpn: m.qpn_for(terms.transport),
            psn: m.psn,
        };
        let claimed = claim(&peer.keys());
        if claimed != Claim::Granted {
            self.state = State::ReqSent {
                terms,
                local,
                send,
                mra,
            };
            let answer = Answer::reject(message, Reason::STALE_CONN, Ari::None)
                .filter(|_| claimed == Claim::SameQpn);
            return Actions {
                send: answer.map(|answer| Send {
                    to: To::Sender,
                    answer,
                    is_repeat: false,
                }),
                ..Actions::default()
            };
        }
        terms.initiator_depth = m.responder_resources;
        terms.responder_resources = m.initiator_depth;
        terms.rnr_retry_count = m.rnr_retry_count;
        let paths = [Some(&mut terms.primary), terms.alternate.as_mut()];
        for path in paths.into_iter().flatten() {
            path.timeout = times::ack_timeout(m.target_ack_delay, path.timeout.saturating_sub(1));
        }
        self.remote_id = peer.id;
        self.state = State::RepRcvd {
            link: Link { terms, peer, local },
            mra: false,
        };
        Actions {
            cancel: send,
            ..deliver(Kind::Rep)
        }
    }

    /// The peer did not get what followed its REP.
    fn on_duplicate_rep(&self, m: &Rep<'_>) -> Actions<R> {
        if m.local_id != self.remote_id {
            return Actions::default();
        }
        let (terms, say) = match &self.state {
            State::Established { link, .. } => (&link.terms, Say::Rtu),
            State::RepRcvd { link, mra: true } => (&link.terms, Say::Mra { about: About::Rep }),
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::RepSent { .. }
            | State::RepRcvd { .. }
            | State::DreqSent { .. }
            | State::DreqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return duplicate(Kind::Rep),
        };
        Actions {
            send: repeat(self.say(terms.tid, say)),
            ..duplicate(Kind::Rep)
        }
    }

    fn on_rtu(&mut self, m: &Rtu<'_>) -> Actions<R> {
        if m.local_id != self.remote_id {
            return Actions::default();
        }
        match mem::replace(&mut self.state, State::Idle) {
            State::RepSent { link, send, .. } => {
                self.state = State::Established {
                    link,
                    lap: Lap::Uninit,
                };
                Actions {
                    cancel: send,
                    ..deliver(Kind::Rtu)
                }
            }
            other => {
                self.state = other;
                duplicate(Kind::Rtu)
            }
        }
    }

    fn on_mra(&mut self, m: &Mra<'_>) -> Actions<R> {
        // One who acknowledges a REQ does so before this side knows an id of it.
        let id = match m.about {
            About::Req => CommId::NONE,
            About::Rep | About::Other => m.local_id,
            About::Reserved => return Actions::default(),
        };
        if id != self.remote_id {
            return Actions::default();
        }
        let (terms, send, mra, about) = match &mut self.state {
            State::ReqSent {
                terms, send, mra, ..
            } => (&*terms, send, mra, About::Req),
            State::RepSent { link, send, mra } => (&link.terms, send, mra, About::Rep),
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
            | State::RepRcvd { .. }
            | State::Established { .. }
            | State::DreqSent { .. }
            | State::DreqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return Actions::default(),
        };
        if *mra {
            return duplicate(Kind::Mra);
        }
        let Some(send) = send.filter(|_| about == m.about) else {
            return Actions::default();
        };
        *mra = true;
        let timeout = times::ms(m.service_timeout).saturating_add(times::ms(terms.primary.timeout));
        Actions {
            extend: Some((send, timeout)),
            ..deliver(Kind::Mra)
        }
    }

    fn on_rej(&mut self, m: &Rej<'_>, now: Instant) -> Actions<R> {
        let is_known = if m.reason == Reason::TIMEOUT {
            self.keys()
                .is_some_and(|keys| keys.guid == m.ari_guid && keys.id == m.local_id)
        } else {
            // One who rejects a REQ does so before this side knows an id of it.
            let id = match m.about {
                About::Req => CommId::NONE,
                About::Rep | About::Other | About::Reserved => m.local_id,
            };
            id == self.remote_id
        };
        if !is_known {
            return Actions::default();
        }
        let is_stale = m.reason == Reason::STALE_CONN;
        let mut actions = deliver(Kind::Rej);
        match mem::replace(&mut self.state, State::Idle) {
            State::ReqSent {
                terms, local, send, ..
            } => {
                actions.cancel = send;
                if is_stale {
                    self.end_with_timewait(terms, None, Some(local), now, &mut actions);
                } else {
                    self.end(terms, None, &mut actions);
                }
            }
            State::ReqRcvd { terms, peer, .. } => {
                if is_stale {
                    self.end_with_timewait(terms, Some(peer), None, now, &mut actions);
                } else {
                    self.end(terms, Some(peer), &mut actions);
                }
            }
            State::RepSent { link, send, .. } => {
                actions.cancel = send;
                if is_stale {
                    self.end_link(link, now, &mut actions);
                } else {
                    self.end(link.terms, Some(link.peer), &mut actions);
                }
            }
            State::DreqSent { link, send } => {
                actions.cancel = send;
                self.end_link(link, now, &mut actions);
            }
            State::RepRcvd { link, .. }
            | State::Established {
                link,
                lap: Lap::Uninit,
            } => self.end_link(link, now, &mut actions),
            other => {
                self.state = other;
                return Actions::default();
            }
        }
        actions
    }

    fn on_dreq(&mut self, message: &Message<'_>, m: &Dreq<'_>) -> Actions<R> {
        let (mut link, send) = match mem::replace(&mut self.state, State::Idle) {
            State::Established { link, .. } if link.local.qpn == m.remote_qpn => (link, None),
            State::RepSent { link, send, .. } | State::DreqSent { link, send }
                if link.local.qpn == m.remote_qpn =>
            {
                (link, send)
            }
            other => {
                self.state = other;
                return self.on_duplicate_dreq(message, m);
            }
        };
        link.terms.tid = message.tid;
        self.state = State::DreqRcvd { link };
        Actions {
            cancel: send,
            ..deliver(Kind::Dreq)
        }
    }

    /// The peer did not get the DREP, or it was not sent yet.
    fn on_duplicate_dreq(&self, message: &Message<'_>, m: &Dreq<'_>) -> Actions<R> {
        match &self.state {
            State::Timewait { local_qpn, .. } if *local_qpn == Some(m.remote_qpn) => Actions {
                send: repeat(self.say(message.tid, Say::Drep { kept: true })),
                ..duplicate(Kind::Dreq)
            },
            State::DreqRcvd { link } if link.local.qpn == m.remote_qpn => duplicate(Kind::Dreq),
            State::Timewait { .. }
            | State::DreqRcvd { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::RepSent { .. }
            | State::RepRcvd { .. }
            | State::Established { .. }
            | State::DreqSent { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Actions::default(),
        }
    }

    fn on_drep(&mut self, m: &Drep<'_>, now: Instant) -> Actions<R> {
        if m.local_id != self.remote_id {
            return Actions::default();
        }
        let mut actions = deliver(Kind::Drep);
        match mem::replace(&mut self.state, State::Idle) {
            State::DreqSent { link, send } => {
                actions.cancel = send;
                self.end_link(link, now, &mut actions);
            }
            State::DreqRcvd { link } => self.end_link(link, now, &mut actions),
            other => {
                self.state = other;
                return Actions::default();
            }
        }
        actions
    }

    fn on_sidr_rep(&mut self) -> Actions<R> {
        match mem::replace(&mut self.state, State::Idle) {
            State::SidrReqSent { path, send, .. } => Actions {
                cancel: send,
                dropped: [Some(path.route), None],
                ..deliver(Kind::SidrRep)
            },
            other => {
                self.state = other;
                Actions::default()
            }
        }
    }

    fn on_lap(
        &mut self,
        message: &Message<'_>,
        m: &LapMessage<'_>,
        paths: Option<LapPaths<R>>,
    ) -> Actions<R> {
        let (link, lap) = match &mut self.state {
            State::Established { link, lap }
                if link.peer.id == m.local_id && link.terms.primary.has_lid =>
            {
                (link, lap)
            }
            State::Established { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::RepSent { .. }
            | State::RepRcvd { .. }
            | State::DreqSent { .. }
            | State::DreqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return unused(paths),
        };
        match lap {
            Lap::Uninit | Lap::Idle => {}
            Lap::Rcvd => {
                return Actions {
                    duplicate: Some(Kind::Lap),
                    ..unused(paths)
                };
            }
            Lap::MraSent => {
                let tid = link.terms.tid;
                let about = About::Other;
                return Actions {
                    duplicate: Some(Kind::Lap),
                    send: repeat(self.say(tid, Say::Mra { about })),
                    ..unused(paths)
                };
            }
        }
        let Some(LapPaths { reply, alternate }) = paths else {
            return Actions::default();
        };
        *lap = Lap::Rcvd;
        link.terms.tid = message.tid;
        let old = mem::replace(&mut link.terms.primary.route, reply);
        let old_alternate = link.terms.alternate.replace(alternate);
        Actions {
            dropped: [Some(old), old_alternate.map(|path| path.route)],
            ..deliver(Kind::Lap)
        }
    }

    /// A tracked send ended.
    pub fn send_ended(&mut self, id: SendId, end: SendEnd, now: Instant) -> Actions<R> {
        let current = match &mut self.state {
            State::ReqSent { send, .. }
            | State::RepSent { send, .. }
            | State::DreqSent { send, .. }
            | State::SidrReqSent { send, .. } => send,
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
            | State::RepRcvd { .. }
            | State::Established { .. }
            | State::DreqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqRcvd { .. } => return Actions::default(),
        };
        // A send that was cancelled, of an earlier state.
        if current.take_if(|current| *current == id).is_none() {
            return Actions::default();
        }
        let SendEnd::Failed(status) = end else {
            return Actions::default();
        };
        let mut actions = Actions::default();
        match mem::replace(&mut self.state, State::Idle) {
            State::ReqSent { terms, .. } => {
                actions.event = Some(Event::Failed(Kind::Req, status));
                // The peer may have accepted: do not let it wait for the RTU.
                actions.send = Some(self.give_up(&terms.primary.route, terms.tid));
                self.end(terms, None, &mut actions);
            }
            State::RepSent { link, .. } => {
                actions.event = Some(Event::Failed(Kind::Rep, status));
                self.end(link.terms, Some(link.peer), &mut actions);
            }
            State::DreqSent { link, .. } => {
                actions.event = Some(Event::Failed(Kind::Dreq, status));
                self.end_link(link, now, &mut actions);
            }
            State::SidrReqSent { path, .. } => {
                actions.event = Some(Event::Failed(Kind::SidrReq, status));
                actions.dropped = [Some(path.route), None];
            }
            // Has no send.
            other => self.state = other,
        }
        actions
    }

    /// The timer fired.
    pub fn timer(&mut self, now: Instant) -> Actions<R> {
        match &self.state {
            State::Timewait { until, .. } if now < *until => Actions {
                timer: Some(Timer::Start(*until)),
                ..Actions::default()
            },
            State::Timewait { .. } => {
                self.state = State::Idle;
                Actions {
                    keep: Some(Keep::Nothing),
                    event: Some(Event::TimewaitExit),
                    ..Actions::default()
                }
            }
            State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::RepSent { .. }
            | State::RepRcvd { .. }
            | State::Established { .. }
            | State::DreqSent { .. }
            | State::DreqRcvd { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Actions::default(),
        }
    }

    /// The device is being removed: nothing is sent any more, and no event follows. A listener
    /// stays one until it is destroyed.
    pub fn device_gone(&mut self) -> Actions<R> {
        if let State::Listen = self.state {
            return Actions::default();
        }
        Actions {
            // Nobody is told.
            send: None,
            ..self.destroy(Destroy::Consumer)
        }
    }

    /// The identifier is destroyed: tells the peer, and ends all. No event follows. A listener is
    /// removed from its table by the caller, if nobody else shares it.
    pub fn destroy(&mut self, why: Destroy) -> Actions<R> {
        let mut actions = Actions {
            cancel: self.current_send(),
            ..Actions::default()
        };
        match mem::replace(&mut self.state, State::Gone) {
            State::Idle | State::Gone | State::Listen => {}
            State::ReqSent { terms, .. } => {
                actions.send = Some(self.give_up(&terms.primary.route, terms.tid));
                self.end(terms, None, &mut actions);
            }
            State::ReqRcvd { terms, peer, mra } => {
                let local_id = if mra { self.local_id } else { CommId::NONE };
                if mra || why != Destroy::NoMemory {
                    let answer = self.refuse(terms.tid, local_id, About::Req);
                    actions.send = Some(by_route(&terms.primary.route, answer));
                }
                self.end(terms, Some(peer), &mut actions);
            }
            State::RepRcvd { link, .. } => {
                let answer = self.refuse(link.terms.tid, self.local_id, About::Rep);
                actions.send = Some(by_route(&link.terms.primary.route, answer));
                self.end(link.terms, Some(link.peer), &mut actions);
            }
            State::RepSent { link, .. } => {
                let answer = self.refuse(link.terms.tid, self.local_id, About::Other);
                actions.send = Some(by_route(&link.terms.primary.route, answer));
                self.end(link.terms, Some(link.peer), &mut actions);
            }
            State::Established { link, .. } => {
                if !link.terms.is_xrc_target() {
                    let route = &link.terms.primary.route;
                    let remote_qpn = link.peer.qpn;
                    let answer = self.say(self.own_tid(route), Say::Dreq { remote_qpn });
                    actions.send = Some(by_route(route, answer));
                }
                self.end(link.terms, Some(link.peer), &mut actions);
            }
            State::DreqSent { link, .. } => {
                self.end(link.terms, Some(link.peer), &mut actions);
            }
            State::DreqRcvd { link } => {
                let answer = self.say(link.terms.tid, Say::Drep { kept: false });
                actions.send = Some(by_route(&link.terms.primary.route, answer));
                self.end(link.terms, Some(link.peer), &mut actions);
            }
            State::Timewait { .. } => {
                actions.timer = Some(Timer::Stop);
                actions.keep = Some(Keep::Nothing);
            }
            State::SidrReqSent { path, .. } => actions.dropped = [Some(path.route), None],
            State::SidrReqRcvd { route, key, tid } => {
                let service_id = self.service_id;
                let status = SIDR_REJECT;
                let answer = self.say(tid, Say::SidrRep { service_id, status });
                actions.send = Some(by_route(&route, answer));
                actions.release_sidr = Some(key);
                actions.dropped = [Some(route), None];
            }
        }
        self.state = State::Gone;
        actions
    }

    /// An answer of this identifier to its peer.
    fn say(&self, tid: u64, say: Say) -> Answer {
        Answer {
            tid,
            local_id: self.local_id,
            remote_id: self.remote_id,
            say,
        }
    }

    /// Tells a peer whose id is not known that this side has given up.
    fn give_up(&self, route: &R, tid: u64) -> Send<R> {
        let say = Say::Rej {
            about: About::Other,
            reason: Reason::TIMEOUT,
            ari: timeout_ari(route.node_guid()),
        };
        by_route(route, self.say(tid, say))
    }

    /// Rejects in the consumer's name. The peer may not know an id of this side.
    fn refuse(&self, tid: u64, local_id: CommId, about: About) -> Answer {
        Answer {
            tid,
            local_id,
            remote_id: self.remote_id,
            say: Say::Rej {
                about,
                reason: Reason::CONSUMER_DEFINED,
                ari: Ari::None,
            },
        }
    }
}

/// The paths of a LAP are not used.
fn unused<R>(paths: Option<LapPaths<R>>) -> Actions<R> {
    let dropped = match paths {
        Some(LapPaths { reply, alternate }) => [Some(reply), Some(alternate.route)],
        None => [None, None],
    };
    Actions {
        dropped,
        ..Actions::default()
    }
}

/// Sends an answer by a route.
fn by_route<R: Clone>(route: &R, answer: Answer) -> Send<R> {
    Send {
        to: To::Route(route.clone()),
        answer,
        is_repeat: false,
    }
}
