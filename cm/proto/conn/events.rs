// SPDX-License-Identifier: GPL-2.0

//! Steps of what happens: messages, sends that end, timers, removal, destruction. Each message has a
//! function of its own, whose variables do not take the stack of the others.

use super::super::answer::timeout_ari;
use super::super::answer::Answer;
use super::super::answer::Ari;
use super::super::answer::Say;
use super::super::answer::SIDR_REJECT;
use super::super::ids::CommId;
use super::super::ids::Instant;
use super::super::ids::SendId;
use super::super::repeat;
use super::super::repeat::Early;
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
use super::state::Step;
use super::Actions;
use super::Conn;
use super::Destroy;
use super::Event;
use super::Keep;
use super::Lap;
use super::LapPaths;
use super::Route;
use super::SendEnd;
use super::SendRequest;
use super::Source;
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

/// Repeats the answer of a connection to the sender of a repeated message.
fn repeat<R>(answer: Answer) -> Option<SendRequest<R>> {
    repeat_to(To::Sender, answer)
}

fn repeat_to<R>(to: To<R>, answer: Answer) -> Option<SendRequest<R>> {
    Some(SendRequest {
        to,
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
                    send: repeat_to(To::Stranger, answer),
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
            Body::Mra(m) => self.on_mra(m, now),
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
            | State::Linked { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return actions,
        };
        actions.send = repeat(self.say(message.tid, say));
        actions
    }

    #[inline(never)]
    fn on_rep(
        &mut self,
        message: &Message<'_>,
        m: &Rep<'_>,
        claim: impl FnOnce(&PeerKeys) -> Claim,
    ) -> Actions<R> {
        let State::ReqSent {
            terms, local, send, ..
        } = &mut self.state
        else {
            return self.on_duplicate_rep(m);
        };
        let peer = Peer {
            guid: m.ca_guid,
            id: m.local_id,
            qpn: m.qpn_for(terms.transport),
            psn: m.psn,
        };
        let claimed = claim(&peer.keys());
        if claimed != Claim::Granted {
            let answer = Answer::reject(message, Reason::STALE_CONN, Ari::None)
                .filter(|_| claimed == Claim::SameQpn);
            return Actions {
                send: answer.map(|answer| SendRequest {
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
        let send = *send;
        let link = Link {
            terms: terms.clone(),
            peer,
            local: *local,
        };
        self.remote_id = peer.id;
        self.state = State::Linked {
            link,
            step: Step::RepRcvd { mra: false },
        };
        Actions {
            cancel: send,
            ..deliver(Kind::Rep)
        }
    }

    /// The peer did not get what followed its REP.
    #[inline(never)]
    fn on_duplicate_rep(&self, m: &Rep<'_>) -> Actions<R> {
        if m.local_id != self.remote_id {
            return Actions::default();
        }
        let (terms, say) = match &self.state {
            State::Linked {
                link,
                step: Step::Established { .. },
            } => (&link.terms, Say::Rtu),
            State::Linked {
                link,
                step: Step::RepRcvd { mra: true },
            } => (&link.terms, Say::Mra { about: About::Rep }),
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return duplicate(Kind::Rep),
        };
        Actions {
            send: repeat(self.say(terms.tid, say)),
            ..duplicate(Kind::Rep)
        }
    }

    #[inline(never)]
    fn on_rtu(&mut self, m: &Rtu<'_>) -> Actions<R> {
        if m.local_id != self.remote_id {
            return Actions::default();
        }
        let State::Linked { step, .. } = &mut self.state else {
            return duplicate(Kind::Rtu);
        };
        let Step::RepSent { send, .. } = *step else {
            return duplicate(Kind::Rtu);
        };
        *step = Step::Established { lap: Lap::Uninit };
        Actions {
            cancel: send,
            ..deliver(Kind::Rtu)
        }
    }

    #[inline(never)]
    fn on_mra(&mut self, m: &Mra<'_>, now: Instant) -> Actions<R> {
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
            State::Linked {
                link,
                step: Step::RepSent { send, mra },
            } => (&link.terms, send, mra, About::Rep),
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
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
        if self.early.provoked(send, now) {
            // Once: a copy provokes one MRA.
            self.early = self.early.over();
            return Actions::default();
        }
        *mra = true;
        let timeout = times::ms(m.service_timeout).saturating_add(times::ms(terms.primary.timeout));
        // The peer has the message.
        self.early = self.early.over();
        Actions {
            extend: Some((send, timeout)),
            ..deliver(Kind::Mra)
        }
    }

    #[inline(never)]
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
        let has_timewait = match &self.state {
            State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Linked {
                step: Step::RepSent { .. },
                ..
            } => is_stale,
            State::Linked {
                step:
                    Step::DreqSent { .. }
                    | Step::RepRcvd { .. }
                    | Step::Established { lap: Lap::Uninit },
                ..
            } => true,
            State::Linked {
                step: Step::Established { .. } | Step::DreqRcvd,
                ..
            }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return Actions::default(),
        };
        let mut actions = deliver(Kind::Rej);
        actions.cancel = self.current_send();
        if has_timewait {
            self.end_with_timewait(now, &mut actions);
        } else {
            self.end(&mut actions);
        }
        actions
    }

    #[inline(never)]
    fn on_dreq(&mut self, message: &Message<'_>, m: &Dreq<'_>) -> Actions<R> {
        let (link, step) = match &mut self.state {
            State::Linked { link, step } if link.local.qpn == m.remote_qpn => (link, step),
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return self.on_duplicate_dreq(message, m),
        };
        let send = match step {
            Step::Established { .. } => None,
            Step::RepSent { send, .. } | Step::DreqSent { send } => *send,
            Step::RepRcvd { .. } | Step::DreqRcvd => return self.on_duplicate_dreq(message, m),
        };
        link.terms.tid = message.tid;
        *step = Step::DreqRcvd;
        Actions {
            cancel: send,
            ..deliver(Kind::Dreq)
        }
    }

    /// The peer did not get the DREP, or it was not sent yet.
    #[inline(never)]
    fn on_duplicate_dreq(&self, message: &Message<'_>, m: &Dreq<'_>) -> Actions<R> {
        match &self.state {
            State::Timewait { local_qpn, .. } if *local_qpn == Some(m.remote_qpn) => Actions {
                send: repeat(self.say(message.tid, Say::Drep { kept: true })),
                ..duplicate(Kind::Dreq)
            },
            State::Linked {
                link,
                step: Step::DreqRcvd,
            } if link.local.qpn == m.remote_qpn => duplicate(Kind::Dreq),
            State::Linked { .. }
            | State::Timewait { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Actions::default(),
        }
    }

    #[inline(never)]
    fn on_drep(&mut self, m: &Drep<'_>, now: Instant) -> Actions<R> {
        // A single value, so that the compiler builds it in the return slot.
        let mut actions = Actions::default();
        let State::Linked {
            step: Step::DreqSent { .. } | Step::DreqRcvd,
            ..
        } = &self.state
        else {
            return actions;
        };
        if m.local_id == self.remote_id {
            actions.event = Some(Event::Received(Kind::Drep));
            actions.cancel = self.current_send();
            self.end_with_timewait(now, &mut actions);
        }
        actions
    }

    #[inline(never)]
    fn on_sidr_rep(&mut self) -> Actions<R> {
        match mem::replace(&mut self.state, State::Idle) {
            State::SidrReqSent { path, send, .. } => Actions {
                cancel: send,
                dropped: [Some(path.route), None],
                ..deliver(Kind::SidrRep)
            },
            other @ (State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Linked { .. }
            | State::Timewait { .. }
            | State::SidrReqRcvd { .. }) => {
                self.state = other;
                Actions::default()
            }
        }
    }

    #[inline(never)]
    fn on_lap(
        &mut self,
        message: &Message<'_>,
        m: &LapMessage<'_>,
        paths: Option<LapPaths<R>>,
    ) -> Actions<R> {
        let (link, lap) = match &mut self.state {
            State::Linked {
                link,
                step: Step::Established { lap },
            } if link.peer.id == m.local_id && link.terms.primary.has_lid => (link, lap),
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
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
            | State::SidrReqSent { send, .. }
            | State::Linked {
                step: Step::RepSent { send, .. } | Step::DreqSent { send },
                ..
            } => send,
            State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
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
        let kind = match &self.state {
            State::ReqSent { terms, .. } => {
                // The peer may have accepted: do not let it wait for the RTU.
                actions.send = Some(self.give_up(&terms.primary.route, terms.tid));
                self.end(&mut actions);
                Kind::Req
            }
            State::Linked {
                step: Step::RepSent { .. },
                ..
            } => {
                self.end(&mut actions);
                Kind::Rep
            }
            State::SidrReqSent { path, .. } => {
                actions.dropped = [Some(path.route.clone()), None];
                self.state = State::Idle;
                Kind::SidrReq
            }
            State::Linked {
                step: Step::DreqSent { .. },
                ..
            } => {
                self.end_with_timewait(now, &mut actions);
                Kind::Dreq
            }
            // No sends: returned above.
            State::Linked {
                step: Step::RepRcvd { .. } | Step::Established { .. } | Step::DreqRcvd,
                ..
            }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqRcvd { .. } => return actions,
        };
        actions.event = Some(Event::Failed(kind, status));
        actions
    }

    /// The time of the early repeat of the present send has come.
    fn repeat_early(&mut self, now: Instant) -> Actions<R> {
        let (Early::Due { send, at }, Some(terms)) = (self.early, self.terms()) else {
            return Actions::default();
        };
        let regular = at.after(terms.timeout_ms.saturating_sub(repeat::AFTER_MS));
        if now >= regular {
            // The timer is so late that the first repetition was sent.
            self.early = self.early.over();
            return Actions::default();
        }
        let route = terms.primary.route.clone();
        self.early = Early::Sent {
            send,
            until: now.after(repeat::ANSWER_MS).min(regular),
        };
        Actions {
            again: Some((send, route)),
            ..Actions::default()
        }
    }

    /// The timer fired: does what the [deadline](Self::deadline) is for, if it has come.
    pub fn timer(&mut self, now: Instant) -> Actions<R> {
        if self.deadline().is_none_or(|at| now < at) {
            return Actions::default();
        }
        let State::Timewait { .. } = &self.state else {
            return self.repeat_early(now);
        };
        self.state = State::Idle;
        Actions {
            keep: Some(Keep::Nothing),
            event: Some(Event::TimewaitExit),
            ..Actions::default()
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
        match &self.state {
            State::Idle | State::Gone | State::Listen => {}
            State::ReqSent { terms, .. } => {
                actions.send = Some(self.give_up(&terms.primary.route, terms.tid));
                self.end(&mut actions);
            }
            State::ReqRcvd { terms, mra, .. } => {
                let local_id = if *mra { self.local_id } else { CommId::NONE };
                if *mra || why != Destroy::NoMemory {
                    let answer = self.refuse(terms.tid, local_id, About::Req);
                    actions.send = Some(by_route(&terms.primary.route, answer));
                }
                self.end(&mut actions);
            }
            State::Linked { link, step } => {
                let answer = self.farewell(link, step);
                actions.send = answer.map(|answer| by_route(&link.terms.primary.route, answer));
                self.end(&mut actions);
            }
            State::Timewait { .. } => actions.keep = Some(Keep::Nothing),
            State::SidrReqSent { path, .. } => {
                actions.dropped = [Some(path.route.clone()), None];
            }
            State::SidrReqRcvd { route, key, tid } => {
                let service_id = self.service_id;
                let status = SIDR_REJECT;
                let answer = self.say(*tid, Say::SidrRep { service_id, status });
                actions.send = Some(by_route(route, answer));
                actions.release_sidr = Some(*key);
                actions.dropped = [Some(route.clone()), None];
            }
        }
        self.state = State::Gone;
        actions
    }

    /// What the peer of a connection is told when the identifier is destroyed.
    fn farewell(&self, link: &Link<R>, step: &Step) -> Option<Answer> {
        let tid = link.terms.tid;
        match step {
            Step::RepRcvd { .. } => Some(self.refuse(tid, self.local_id, About::Rep)),
            Step::RepSent { .. } => Some(self.refuse(tid, self.local_id, About::Other)),
            Step::Established { .. } if link.terms.is_xrc_target() => None,
            Step::Established { .. } => {
                let tid = self.own_tid(&link.terms.primary.route);
                let remote_qpn = link.peer.qpn;
                Some(self.say(tid, Say::Dreq { remote_qpn }))
            }
            Step::DreqSent { .. } => None,
            Step::DreqRcvd => Some(self.say(tid, Say::Drep { kept: false })),
        }
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
    fn give_up(&self, route: &R, tid: u64) -> SendRequest<R> {
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
fn by_route<R: Clone>(route: &R, answer: Answer) -> SendRequest<R> {
    SendRequest {
        to: To::Route(route.clone()),
        answer,
        is_repeat: false,
    }
}
