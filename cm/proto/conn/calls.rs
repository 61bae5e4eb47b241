// SPDX-License-Identifier: GPL-2.0

//! Steps of the consumer's calls. Each is a function of its own, whose variables do not take the stack
//! of the others.

use super::super::ids::CommId;
use super::super::ids::Ece;
use super::super::ids::Guid;
use super::super::ids::Instant;
use super::super::ids::Qpn;
use super::super::times;
use super::super::wire::private;
use super::super::wire::About;
use super::super::wire::Body;
use super::super::wire::Drep;
use super::super::wire::Dreq;
use super::super::wire::Message;
use super::super::wire::Reason;
use super::super::wire::Rej;
use super::super::wire::Rep;
use super::super::wire::Rtu;
use super::super::wire::SidrRep;
use super::super::wire::SidrReq;
use super::super::wire::Transport;
use super::state::own_tid;
use super::state::Link;
use super::state::Local;
use super::state::State;
use super::state::Step;
use super::state::Terms;
use super::Actions;
use super::Agent;
use super::Call;
use super::CallError;
use super::Conn;
use super::Event;
use super::Keep;
use super::Lap;
use super::Policy;
use super::Posting;
use super::Refused;
use super::RepCall;
use super::ReqCall;
use super::Route;
use super::SidrRepCall;
use super::SidrReqCall;

use core::mem;

/// Bits of the vendor that a SIDR_REP carries.
const SIDR_VENDOR: u32 = 0xffff;

/// Result of a call.
type Done<R, E> = (Result<(), CallError<E>>, Actions<R>);

/// A call that is refused.
fn refused<R, E>() -> Done<R, E> {
    let refused = CallError::Refused(Refused::Invalid);
    (Err(refused), Actions::default())
}

/// A call whose message could not be posted, with what happens nevertheless.
fn not_posted<R, E>(error: E, actions: Actions<R>) -> Done<R, E> {
    (Err(CallError::NotPosted(error)), actions)
}

/// What to do with private data that may be sent again.
fn keep(data: &[u8]) -> Option<Keep> {
    Some(if data.is_empty() {
        Keep::Nothing
    } else {
        Keep::Private
    })
}

impl<R: Route> Conn<R> {
    /// The consumer calls. `post` posts the message of the call; it is called at most once, before
    /// the state changes. The actions are to be carried out whatever the result is.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn call<E>(
        &mut self,
        call: &Call<'_, R>,
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> (Result<(), CallError<E>>, Actions<R>) {
        match call {
            Call::Req(call) => self.call_req(call, now, post),
            Call::Rep(call) => self.call_rep(call, now, post),
            Call::Rtu { private } => self.call_rtu(private, post),
            Call::Rej {
                reason,
                ari,
                private,
            } => self.call_rej(*reason, ari, private, now, post),
            Call::Dreq { private } => self.call_dreq(private, now, post),
            Call::Drep { private } => self.call_drep(private, now, post),
            Call::PrepareMra => self.call_mra(),
            Call::Established => self.call_established(),
            Call::Migrated => self.call_migrated(),
            Call::SidrReq(call) => self.call_sidr_req(call, post),
            Call::SidrRep(call) => self.call_sidr_rep(call, post),
        }
    }

    #[inline(never)]
    fn call_req<E>(
        &mut self,
        call: &ReqCall<'_, R>,
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        let ReqCall {
            primary,
            alternate,
            life_time,
            req,
        } = call;
        let is_known = match req.transport {
            Transport::Rc | Transport::Uc | Transport::Xrc => true,
            Transport::Other(..) => false,
        };
        if !is_known || req.private.len() > private::REQ || self.check_idle().is_err() {
            return refused();
        }
        let (tid, is_reused) = self.request_tid(&primary.route);
        let terms = Terms {
            tid,
            is_reused,
            timeout_ms: times::request_ms(*life_time, req.remote_response_timeout),
            max_retries: req.max_cm_retries,
            transport: req.transport,
            is_active: true,
            mtu: req.mtu,
            pkey: req.pkey,
            responder_resources: req.responder_resources,
            initiator_depth: req.initiator_depth,
            retry_count: req.retry_count,
            // That of the REP.
            rnr_retry_count: 0,
            primary: primary.clone(),
            alternate: alternate.clone(),
        };
        let mut message = *req;
        message.local_id = self.local_id;
        message.ca_guid = terms.primary.route.node_guid();
        if message.transport == Transport::Xrc {
            // An initiator has no receive queue.
            message.responder_resources = 0;
            message.retry_count = 0;
            message.rnr_retry_count = 0;
            message.srq = false;
        }
        let id = self.new_send();
        let posted = post(Posting {
            to: &terms.primary.route,
            agent: Agent::Main,
            policy: Policy::Tracked {
                id,
                timeout_ms: terms.timeout_ms,
                retries: terms.max_retries,
            },
            message: &Message {
                tid: terms.tid,
                body: Body::Req(message),
            },
        });
        if let Err(error) = posted {
            return not_posted(error, Actions::default());
        }
        self.remote_id = CommId::NONE;
        self.service_id = req.service_id;
        self.state = State::ReqSent {
            terms,
            local: Local {
                qpn: req.qpn,
                psn: req.psn,
            },
            send: Some(id),
            mra: false,
        };
        self.begin_early(now);
        (Ok(()), Actions::default())
    }

    #[inline(never)]
    fn call_rep<E>(
        &mut self,
        call: &RepCall<'_>,
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        if call.private.len() > private::REP {
            return refused();
        }
        let id = self.new_send();
        let State::ReqRcvd { terms, peer, .. } = &mut self.state else {
            return refused();
        };
        let route = &terms.primary.route;
        let mut message = Rep {
            local_id: self.local_id,
            remote_id: peer.id,
            qkey: 0,
            qpn: call.qpn,
            eecn: Qpn::default(),
            psn: call.psn,
            responder_resources: call.responder_resources,
            initiator_depth: call.initiator_depth,
            target_ack_delay: route.ack_delay(),
            failover_accepted: call.failover_accepted,
            flow_control: call.flow_control,
            rnr_retry_count: call.rnr_retry_count,
            srq: call.srq,
            ca_guid: route.node_guid(),
            ece: call.ece,
            private: call.private,
        };
        if terms.is_xrc_target() {
            message.qpn = Qpn::default();
            message.eecn = call.qpn;
            message.initiator_depth = 0;
            message.flow_control = false;
            message.srq = true;
        }
        let posted = post(Posting {
            to: route,
            agent: Agent::Reply,
            policy: Policy::Tracked {
                id,
                timeout_ms: terms.timeout_ms,
                retries: terms.max_retries,
            },
            message: &Message {
                tid: terms.tid,
                body: Body::Rep(message),
            },
        });
        if let Err(error) = posted {
            return not_posted(error, Actions::default());
        }
        terms.responder_resources = call.responder_resources;
        terms.initiator_depth = call.initiator_depth;
        let local = Local {
            qpn: call.qpn,
            psn: call.psn,
        };
        let link = Link {
            terms: terms.clone(),
            peer: *peer,
            local,
        };
        self.state = State::Linked {
            link,
            step: Step::RepSent {
                send: Some(id),
                mra: false,
            },
        };
        self.begin_early(now);
        (Ok(()), Actions::default())
    }

    #[inline(never)]
    fn call_rtu<E>(
        &mut self,
        data: &[u8],
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        if data.len() > private::RTU {
            return refused();
        }
        let State::Linked { link, step } = &mut self.state else {
            return refused();
        };
        let Step::RepRcvd { .. } = step else {
            return refused();
        };
        let body = Body::Rtu(Rtu {
            local_id: self.local_id,
            remote_id: link.peer.id,
            private: data,
        });
        if let Err(error) = once(&link.terms, body, post) {
            return not_posted(error, Actions::default());
        }
        *step = Step::Established { lap: Lap::Uninit };
        let actions = Actions {
            keep: keep(data),
            ..Actions::default()
        };
        (Ok(()), actions)
    }

    #[inline(never)]
    fn call_rej<E>(
        &mut self,
        reason: Reason,
        ari: &[u8],
        data: &[u8],
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        if data.len() > private::REJ || ari.len() > private::INFO {
            return refused();
        }
        let (terms, about, local_id) = match &self.state {
            State::ReqRcvd { terms, mra, .. } => {
                let local_id = if *mra { self.local_id } else { CommId::NONE };
                (terms, About::Req, local_id)
            }
            State::ReqSent { terms, .. } => (terms, About::Other, self.local_id),
            State::Linked { link, step } => match step {
                Step::RepRcvd { .. } => (&link.terms, About::Rep, self.local_id),
                Step::RepSent { .. } => (&link.terms, About::Other, self.local_id),
                Step::Established { .. } | Step::DreqSent { .. } | Step::DreqRcvd => {
                    return refused();
                }
            },
            State::Idle
            | State::Gone
            | State::Listen
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return refused(),
        };
        let body = Body::Rej(Rej {
            local_id,
            remote_id: self.remote_id,
            about,
            reason,
            ari,
            private: data,
            ari_guid: Guid::default(),
        });
        let posted = once(terms, body, post);
        let mut actions = Actions {
            cancel: self.current_send(),
            ..Actions::default()
        };
        match &self.state {
            State::Linked {
                step: Step::RepSent { .. },
                ..
            } => self.end_with_timewait(now, &mut actions),
            // `RepRcvd`: the other steps were refused above.
            State::Linked { .. }
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => self.end(&mut actions),
        }
        (posted.map_err(CallError::NotPosted), actions)
    }

    #[inline(never)]
    fn call_dreq<E>(
        &mut self,
        data: &[u8],
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        if data.len() > private::DREQ {
            return refused();
        }
        let id = self.new_send();
        let State::Linked { link, step } = &mut self.state else {
            return refused();
        };
        let Step::Established { .. } = step else {
            return refused();
        };
        let route = &link.terms.primary.route;
        let posted = post(Posting {
            to: route,
            agent: Agent::Main,
            policy: Policy::Tracked {
                id,
                timeout_ms: link.terms.timeout_ms,
                retries: link.terms.max_retries,
            },
            message: &Message {
                tid: own_tid(self.local_id, route),
                body: Body::Dreq(Dreq {
                    local_id: self.local_id,
                    remote_id: link.peer.id,
                    remote_qpn: link.peer.qpn,
                    private: data,
                }),
            },
        });
        if let Err(error) = posted {
            let mut actions = Actions::default();
            self.end_with_timewait(now, &mut actions);
            return not_posted(error, actions);
        }
        *step = Step::DreqSent { send: Some(id) };
        self.begin_early(now);
        (Ok(()), Actions::default())
    }

    #[inline(never)]
    fn call_drep<E>(
        &mut self,
        data: &[u8],
        now: Instant,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        // A single value, so that the compiler builds it in the return slot.
        let mut done = refused();
        if data.len() > private::DREP {
            return done;
        }
        let State::Linked {
            link,
            step: Step::DreqRcvd,
        } = &self.state
        else {
            return done;
        };
        let body = Body::Drep(Drep {
            local_id: self.local_id,
            remote_id: link.peer.id,
            private: data,
        });
        let (result, actions) = &mut done;
        *result = once(&link.terms, body, post).map_err(CallError::NotPosted);
        self.end_with_timewait(now, actions);
        actions.keep = keep(data);
        done
    }

    #[inline(never)]
    fn call_mra<E>(&mut self) -> Done<R, E> {
        match &mut self.state {
            State::ReqRcvd { mra, .. }
            | State::Linked {
                step: Step::RepRcvd { mra },
                ..
            } if !*mra => *mra = true,
            State::Linked {
                step: Step::Established { lap },
                ..
            } if *lap == Lap::Rcvd => *lap = Lap::MraSent,
            State::ReqRcvd { .. }
            | State::Linked { .. }
            | State::Idle
            | State::Gone
            | State::Listen
            | State::ReqSent { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => return refused(),
        }
        (Ok(()), Actions::default())
    }

    #[inline(never)]
    fn call_established<E>(&mut self) -> Done<R, E> {
        let error = match &mut self.state {
            State::Linked { step, .. } => match *step {
                Step::RepSent { send, .. } => {
                    *step = Step::Established { lap: Lap::Uninit };
                    let actions = Actions {
                        cancel: send,
                        event: Some(Event::UserEstablished),
                        ..Actions::default()
                    };
                    return (Ok(()), actions);
                }
                Step::Established { .. } => Refused::Connected,
                Step::RepRcvd { .. } | Step::DreqSent { .. } | Step::DreqRcvd => Refused::Invalid,
            },
            State::Gone => Refused::NoDevice,
            State::Idle
            | State::Listen
            | State::ReqSent { .. }
            | State::ReqRcvd { .. }
            | State::Timewait { .. }
            | State::SidrReqSent { .. }
            | State::SidrReqRcvd { .. } => Refused::Invalid,
        };
        (Err(CallError::Refused(error)), Actions::default())
    }

    #[inline(never)]
    fn call_migrated<E>(&mut self) -> Done<R, E> {
        let State::Linked {
            link,
            step: Step::Established { lap },
        } = &mut self.state
        else {
            return refused();
        };
        let Some(alternate) = &link.terms.alternate else {
            return refused();
        };
        if !matches!(lap, Lap::Uninit | Lap::Idle) {
            return refused();
        }
        let old = mem::replace(&mut link.terms.primary, alternate.clone());
        *lap = Lap::Idle;
        let actions = Actions {
            dropped: [Some(old.route), None],
            ..Actions::default()
        };
        (Ok(()), actions)
    }

    #[inline(never)]
    fn call_sidr_req<E>(
        &mut self,
        call: &SidrReqCall<'_, R>,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        let path = &call.path;
        if call.private.len() > private::SIDR_REQ || self.check_idle().is_err() {
            return refused();
        }
        let (tid, is_reused) = self.request_tid(&path.route);
        let id = self.new_send();
        let posted = post(Posting {
            to: &path.route,
            agent: Agent::Main,
            policy: Policy::Tracked {
                id,
                timeout_ms: call.timeout_ms,
                retries: call.max_cm_retries,
            },
            message: &Message {
                tid,
                body: Body::SidrReq(SidrReq {
                    request_id: self.local_id,
                    pkey: call.pkey,
                    service_id: call.service_id,
                    private: call.private,
                }),
            },
        });
        if let Err(error) = posted {
            return not_posted(error, Actions::default());
        }
        self.remote_id = CommId::NONE;
        self.service_id = call.service_id;
        self.state = State::SidrReqSent {
            path: path.clone(),
            send: Some(id),
            tid,
            is_reused,
        };
        (Ok(()), Actions::default())
    }

    #[inline(never)]
    fn call_sidr_rep<E>(
        &mut self,
        call: &SidrRepCall<'_>,
        post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
    ) -> Done<R, E> {
        if call.info.len() > private::INFO || call.private.len() > private::SIDR_REP {
            return refused();
        }
        let State::SidrReqRcvd { route, key, tid } = &self.state else {
            return refused();
        };
        let (key, tid) = (*key, *tid);
        let posted = post(Posting {
            to: route,
            agent: Agent::Main,
            policy: Policy::Once,
            message: &Message {
                tid,
                body: Body::SidrRep(SidrRep {
                    request_id: key.id,
                    status: call.status,
                    qpn: call.qpn,
                    service_id: self.service_id,
                    qkey: call.qkey,
                    ece: Ece {
                        vendor_id: call.ece.vendor_id & SIDR_VENDOR,
                        attr_mod: call.ece.attr_mod,
                    },
                    info: call.info,
                    private: call.private,
                }),
            },
        });
        if let Err(error) = posted {
            return not_posted(error, Actions::default());
        }
        let actions = Actions {
            release_sidr: Some(key),
            dropped: [Some(route.clone()), None],
            ..Actions::default()
        };
        self.state = State::Idle;
        (Ok(()), actions)
    }
}

/// Posts a message of the exchange that is sent once.
fn once<R, E>(
    terms: &Terms<R>,
    body: Body<'_>,
    post: impl FnOnce(Posting<'_, R>) -> Result<(), E>,
) -> Result<(), E> {
    post(Posting {
        to: &terms.primary.route,
        agent: Agent::Main,
        policy: Policy::Once,
        message: &Message {
            tid: terms.tid,
            body,
        },
    })
}
