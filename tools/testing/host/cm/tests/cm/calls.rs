// SPDX-License-Identifier: GPL-2.0

//! Every call in every state: whether it is refused, what it sends, and what is left behind when
//! its message cannot be posted.

use super::bed::*;
use rdma_cm_engine::proto::conn::Agent;
use rdma_cm_engine::proto::conn::Call;
use rdma_cm_engine::proto::conn::CallError;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::Destroy;
use rdma_cm_engine::proto::conn::Event;
use rdma_cm_engine::proto::conn::Keep;
use rdma_cm_engine::proto::conn::Lap;
use rdma_cm_engine::proto::conn::Policy;
use rdma_cm_engine::proto::conn::Refused;
use rdma_cm_engine::proto::conn::SendEnd;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::conn::To;
use rdma_cm_engine::proto::ids::CommId;
use rdma_cm_engine::proto::ids::Ece;
use rdma_cm_engine::proto::ids::Instant;
use rdma_cm_engine::proto::ids::Qpn;
use rdma_cm_engine::proto::tables::Claim;
use rdma_cm_engine::proto::wire::private;
use rdma_cm_engine::proto::wire::About;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::Transport;
use rdma_cm_engine::proto::wire::MAD;

const REASON: Reason = Reason(29);

fn a_call(name: &str) -> Call<'static, Rt> {
    match name {
        "req" => Call::Req(req_call(Transport::Rc)),
        "rep" => Call::Rep(rep_call()),
        "rtu" => Call::Rtu { private: b"rtu" },
        "rej" => Call::Rej {
            reason: REASON,
            ari: b"ari",
            private: b"rej",
        },
        "dreq" => Call::Dreq { private: b"dreq" },
        "drep" => Call::Drep { private: b"drep" },
        "mra" => Call::PrepareMra,
        "est" => Call::Established,
        "mig" => Call::Migrated,
        "sidr_req" => Call::SidrReq(sidr_req_call()),
        "sidr_rep" => Call::SidrRep(sidr_rep_call()),
        _ => unreachable!(),
    }
}

/// State, call, next state, and that if the message cannot be posted. All others are refused.
#[rustfmt::skip]
const ACCEPTED: &[(StateName, &str, StateName, StateName)] = &[
    (StateName::Idle, "req", StateName::ReqSent, StateName::Idle),
    (StateName::Idle, "sidr_req", StateName::SidrReqSent, StateName::Idle),
    (StateName::ReqRcvd, "rep", StateName::RepSent, StateName::ReqRcvd),
    (StateName::MraReqSent, "rep", StateName::RepSent, StateName::MraReqSent),
    (StateName::RepRcvd, "rtu", StateName::Established, StateName::RepRcvd),
    (StateName::MraRepSent, "rtu", StateName::Established, StateName::MraRepSent),
    (StateName::ReqSent, "rej", StateName::Idle, StateName::Idle),
    (StateName::MraReqRcvd, "rej", StateName::Idle, StateName::Idle),
    (StateName::ReqRcvd, "rej", StateName::Idle, StateName::Idle),
    (StateName::MraReqSent, "rej", StateName::Idle, StateName::Idle),
    (StateName::RepRcvd, "rej", StateName::Idle, StateName::Idle),
    (StateName::MraRepSent, "rej", StateName::Idle, StateName::Idle),
    (StateName::RepSent, "rej", StateName::Timewait, StateName::Timewait),
    (StateName::MraRepRcvd, "rej", StateName::Timewait, StateName::Timewait),
    (StateName::Established, "dreq", StateName::DreqSent, StateName::Timewait),
    (StateName::DreqRcvd, "drep", StateName::Timewait, StateName::Timewait),
    (StateName::SidrReqRcvd, "sidr_rep", StateName::Idle, StateName::SidrReqRcvd),
    (StateName::ReqRcvd, "mra", StateName::MraReqSent, StateName::MraReqSent),
    (StateName::RepRcvd, "mra", StateName::MraRepSent, StateName::MraRepSent),
    (StateName::RepSent, "est", StateName::Established, StateName::Established),
    (StateName::MraRepRcvd, "est", StateName::Established, StateName::Established),
    (StateName::Established, "mig", StateName::Established, StateName::Established),
];

const CALLS: [&str; 11] = [
    "req", "rep", "rtu", "rej", "dreq", "drep", "mra", "est", "mig", "sidr_req", "sidr_rep",
];

#[test]
fn states_and_calls() {
    for state in StateName::ALL {
        for name in CALLS {
            let accepted = ACCEPTED.iter().find(|a| (a.0, a.1) == (state, name));
            let sends = !matches!(name, "mra" | "est" | "mig");
            let before = at(state);
            for is_posted in [true, false] {
                let mut conn = before;
                let mut posts = 0;
                let (result, actions) = conn.call(&a_call(name), NOW, |posting| {
                    posts += 1;
                    let mut mad = [0; MAD];
                    posting.message.write(&mut mad).unwrap();
                    assert_eq!(Message::parse(&mad).unwrap().tid, posting.message.tid);
                    if is_posted {
                        Ok(())
                    } else {
                        Err(5)
                    }
                });
                let what = format!("{name} in {state:?}, posted: {is_posted}");
                assert!(actions.event.is_none() || name == "est", "{what}");
                assert_eq!(actions.send, None, "{what}");
                match accepted {
                    Some(&(_, _, next, _)) if is_posted || !sends => {
                        assert_eq!(result, Ok(()), "{what}");
                        assert_eq!(conn.state(), next, "{what}");
                        assert_eq!(posts, u32::from(sends), "{what}");
                    }
                    Some(&(_, _, _, next)) => {
                        assert_eq!(result, Err(CallError::NotPosted(5)), "{what}");
                        assert_eq!(conn.state(), next, "{what}");
                        assert_eq!(posts, 1, "{what}");
                        if next == state {
                            // All is as before, but for the number of the send.
                            let mut again = conn;
                            let _ = call(&mut again, a_call(name));
                            assert_eq!(again.state(), accepted.unwrap().2);
                        }
                    }
                    None => {
                        let error = if (state, name) == (StateName::Established, "est") {
                            Refused::Connected
                        } else {
                            Refused::Invalid
                        };
                        assert_eq!(result, Err(CallError::Refused(error)), "{what}");
                        assert_eq!(posts, 0, "{what}");
                        assert_eq!(conn.state(), state, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_works_without_a_device() {
    for state in StateName::ALL {
        let mut conn = at(state);
        let _ = conn.device_gone();
        if state == StateName::Listen {
            continue;
        }
        for name in CALLS {
            let error = if name == "est" {
                Refused::NoDevice
            } else {
                Refused::Invalid
            };
            let result = call(&mut conn, a_call(name)).0;
            assert_eq!(result, Err(CallError::Refused(error)));
        }
        assert_eq!(conn.listen(SERVICE), Err(Refused::Invalid));
        assert_eq!(conn.destroy(Destroy::Consumer).send, None);
    }
}

#[test]
fn only_idle_ones_listen() {
    for state in StateName::ALL {
        let mut conn = at(state);
        let result = conn.listen(SERVICE);
        assert_eq!(result.is_ok(), state == StateName::Idle);
        assert!(conn.check_idle().is_err());
        assert_eq!(at(state).check_idle().is_ok(), state == StateName::Idle);
    }
}

/// Private data and additional information that is too long is refused before all else.
#[test]
fn too_long() {
    let data = [0; 300];
    for state in StateName::ALL {
        let mut rep = rep_call();
        rep.private = &data[..private::REP + 1];
        let mut req = req_call(Transport::Rc);
        req.req.private = &data[..private::REQ + 1];
        let mut sidr_req = sidr_req_call();
        sidr_req.private = &data[..private::SIDR_REQ + 1];
        let mut sidr_rep = sidr_rep_call();
        sidr_rep.private = &data[..private::SIDR_REP + 1];
        let mut sidr_info = sidr_rep_call();
        sidr_info.info = &data[..private::INFO + 1];
        for c in [
            Call::Req(req),
            Call::Rep(rep),
            Call::Rtu {
                private: &data[..private::RTU + 1],
            },
            Call::Rej {
                reason: REASON,
                ari: &data[..private::INFO + 1],
                private: &[],
            },
            Call::Rej {
                reason: REASON,
                ari: &[],
                private: &data[..private::REJ + 1],
            },
            Call::Dreq {
                private: &data[..private::DREQ + 1],
            },
            Call::Drep {
                private: &data[..private::DREP + 1],
            },
            Call::SidrReq(sidr_req),
            Call::SidrRep(sidr_rep),
            Call::SidrRep(sidr_info),
        ] {
            let mut conn = at(state);
            let (result, _) = call(&mut conn, c);
            assert_eq!(result, Err(CallError::Refused(Refused::Invalid)));
            assert_eq!(conn, at(state));
        }
    }
}

/// Calls, and returns what was posted.
fn posted(conn: &mut C, c: Call<'_, Rt>) -> (u8, Agent, Policy, [u8; MAD]) {
    let mut out = None;
    let (result, _) = conn.call(&c, NOW, |posting| {
        let mut mad = [0; MAD];
        posting.message.write(&mut mad).unwrap();
        out = Some((posting.to.0, posting.agent, posting.policy, mad));
        Ok::<_, ()>(())
    });
    assert_eq!(result, Ok(()));
    out.unwrap()
}

const OWN_TID: u64 = (HI_TID as u64) << 32 | LOCAL.0 as u64;

#[test]
fn messages_of_the_active_side() {
    let mut conn = Conn::new(LOCAL);
    let (to, agent, policy, mad) = posted(&mut conn, a_call("req"));
    assert_eq!((to, agent), (1, Agent::Main));
    // 2 * 2^(16-8) + 2^(20-8) ms: 4.6 s.
    let Policy::Tracked {
        id,
        timeout_ms: 4608,
        retries: 15,
    } = policy
    else {
        panic!("{policy:?}")
    };
    assert_eq!(conn.current_send(), Some(id));
    let message = Message::parse(&mad).unwrap();
    assert_eq!(message.tid, OWN_TID);
    let Body::Req(m) = message.body else { panic!() };
    assert_eq!((m.local_id, m.ca_guid), (LOCAL, OWN_GUID));
    assert_eq!((m.qpn, m.psn, m.rnr_retry_count), (OWN_QPN, OWN_PSN, 7));
    assert_eq!(conn.service_id(), SERVICE);
    assert_eq!(conn.keys(), None);

    let actions = receive(&mut conn, rep());
    assert_eq!(actions.cancel, Some(id));
    assert_eq!(actions.event, Some(Event::Received(Kind::Rep)));
    assert_eq!(conn.remote_id(), REMOTE);
    assert_eq!(conn.keys().unwrap().qpn, PEER_QPN);

    let (to, agent, policy, mad) = posted(&mut conn, a_call("rtu"));
    assert_eq!((to, agent, policy), (1, Agent::Main, Policy::Once));
    let message = Message::parse(&mad).unwrap();
    assert_eq!(message.tid, OWN_TID);
    assert_eq!(message.body.private()[..4], *b"rtu\0");

    // The RTU got lost.
    let actions = receive(&mut conn, rep());
    assert_eq!(actions.duplicate, Some(Kind::Rep));
    let send = actions.send.unwrap();
    assert_eq!((send.to, send.is_repeat), (To::Sender, true));
    assert_eq!(send.answer.message(b"rtu").body.private(), b"rtu");

    let (_, _, policy, mad) = posted(&mut conn, a_call("dreq"));
    assert!(matches!(
        policy,
        Policy::Tracked {
            timeout_ms: 4608,
            retries: 15,
            ..
        }
    ));
    let Body::Dreq(m) = Message::parse(&mad).unwrap().body else {
        panic!()
    };
    assert_eq!((m.local_id, m.remote_id), (LOCAL, REMOTE));
    assert_eq!(m.remote_qpn, PEER_QPN);
    let actions = receive(&mut conn, drep());
    // The acknowledgement timeout is that with the peer's delay: 18, and 17 is within one.
    assert_eq!(conn.deadline(), Some(Instant(NOW.0 + (1 << (19 - 8)))));
    assert_eq!(actions.dropped, [Some(Rt(1)), Some(Rt(2))]);
}

#[test]
fn messages_of_the_passive_side() {
    let mut conn = passive(Transport::Rc);
    let (to, agent, policy, mad) = posted(&mut conn, a_call("rep"));
    assert_eq!((to, agent), (1, Agent::Reply));
    // 2^(19-8) ms.
    assert!(matches!(
        policy,
        Policy::Tracked {
            timeout_ms: 2048,
            retries: 15,
            ..
        }
    ));
    let message = Message::parse(&mad).unwrap();
    assert_eq!(message.tid, PEER_TID);
    let Body::Rep(m) = message.body else { panic!() };
    assert_eq!((m.local_id, m.remote_id), (LOCAL, REMOTE));
    assert_eq!((m.ca_guid, m.target_ack_delay), (OWN_GUID, 15));
    assert_eq!((m.qpn, m.eecn), (OWN_QPN, Qpn::default()));
    assert_eq!(
        receive(&mut conn, rtu()).cancel.map(|id| id.to_raw()),
        Some(0)
    );

    let mut dreq_body = dreq();
    if let Body::Dreq(m) = &mut dreq_body {
        m.private = b"bye";
    }
    assert_eq!(
        receive(&mut conn, dreq_body).event,
        Some(Event::Received(Kind::Dreq))
    );
    let (_, _, policy, mad) = posted(&mut conn, a_call("drep"));
    assert_eq!(policy, Policy::Once);
    let message = Message::parse(&mad).unwrap();
    assert_eq!(message.tid, PEER_TID);
    assert_eq!(message.body.private()[..5], *b"drep\0");
    // It got lost.
    let send = receive(&mut conn, dreq()).send.unwrap();
    assert_eq!(send.answer.tid, PEER_TID);
    assert_eq!(send.answer.message(b"drep").body.private(), b"drep");
}

/// An initiator of XRC has no receive queue, a target no send queue.
#[test]
fn xrc() {
    let mut conn = Conn::new(LOCAL);
    let (.., mad) = posted(&mut conn, Call::Req(req_call(Transport::Xrc)));
    let Body::Req(m) = Message::parse(&mad).unwrap().body else {
        panic!()
    };
    assert_eq!(m.transport, Transport::Xrc);
    let zero = (m.responder_resources, m.retry_count, m.rnr_retry_count);
    assert_eq!((zero, m.srq), ((0, 0, 0), false));
    let _ = receive(&mut conn, rep());
    assert_eq!(conn.keys().unwrap().qpn, Qpn::new(0x000445));

    let mut conn = passive(Transport::Xrc);
    let mut c = rep_call();
    c.flow_control = true;
    let (.., mad) = posted(&mut conn, Call::Rep(c));
    let Body::Rep(m) = Message::parse(&mad).unwrap().body else {
        panic!()
    };
    assert_eq!((m.qpn, m.eecn), (Qpn::default(), OWN_QPN));
    let zero = (m.initiator_depth, m.flow_control);
    assert_eq!((zero, m.srq), ((0, false), true));
    let _ = receive(&mut conn, rtu());
    // A target is destroyed in silence.
    let actions = conn.destroy(Destroy::Consumer);
    assert_eq!(actions.send, None);
    assert!(actions.release.is_some());

    let mut conn = Conn::new(LOCAL);
    let mut c = req_call(Transport::Other(2, 0));
    assert_eq!(
        call(&mut conn, Call::Req(c)).0,
        Err(CallError::Refused(Refused::Invalid))
    );
    c.req.transport = Transport::Uc;
    assert_eq!(call(&mut conn, Call::Req(c)).0, Ok(()));
}

/// What is kept for repetitions.
#[test]
fn kept_data() {
    let mut conn = at(StateName::RepRcvd);
    assert_eq!(call(&mut conn, a_call("rtu")).1.keep, Some(Keep::Private));
    let mut conn = at(StateName::RepRcvd);
    assert_eq!(
        call(&mut conn, Call::Rtu { private: &[] }).1.keep,
        Some(Keep::Nothing)
    );
    let mut conn = at(StateName::DreqRcvd);
    assert_eq!(call(&mut conn, a_call("drep")).1.keep, Some(Keep::Private));
    // Even if it could not be posted: the peer asks again.
    let mut conn = at(StateName::DreqRcvd);
    let (_, actions) = call_in_vain(&mut conn, a_call("drep"));
    assert_eq!(actions.keep, Some(Keep::Private));
    assert!(conn.deadline().is_some());
    // That of an RTU does not outlive the connection.
    let mut conn = at(StateName::DreqSent);
    assert_eq!(receive(&mut conn, drep()).keep, Some(Keep::Nothing));
}

/// What a rejection says, by state.
#[test]
fn rejections() {
    for (state, about, local_id, remote_id) in [
        (StateName::ReqSent, About::Other, LOCAL, CommId::NONE),
        (StateName::MraReqRcvd, About::Other, LOCAL, CommId::NONE),
        (StateName::ReqRcvd, About::Req, CommId::NONE, REMOTE),
        (StateName::MraReqSent, About::Req, LOCAL, REMOTE),
        (StateName::RepSent, About::Other, LOCAL, REMOTE),
        (StateName::MraRepRcvd, About::Other, LOCAL, REMOTE),
        (StateName::RepRcvd, About::Rep, LOCAL, REMOTE),
        (StateName::MraRepSent, About::Rep, LOCAL, REMOTE),
    ] {
        let mut conn = at(state);
        let (.., mad) = posted(&mut conn, a_call("rej"));
        let Body::Rej(m) = Message::parse(&mad).unwrap().body else {
            panic!()
        };
        let ids = (m.about, m.local_id, m.remote_id);
        assert_eq!(ids, (about, local_id, remote_id), "{state:?}");
        assert_eq!((m.reason, m.ari), (REASON, &b"ari"[..]));

        // A destroyed one says the same in the consumer's name, or that it gives up.
        let mut conn = at(state);
        let answer = conn.destroy(Destroy::Consumer).send.unwrap();
        assert_eq!((answer.to, answer.is_repeat), (To::Route(Rt(1)), false));
        let Body::Rej(m) = answer.answer.message(&[]).body else {
            panic!()
        };
        assert_eq!(
            (m.about, m.local_id, m.remote_id),
            (about, local_id, remote_id)
        );
        if matches!(state, StateName::ReqSent | StateName::MraReqRcvd) {
            assert_eq!(m.reason, Reason::TIMEOUT);
            assert_eq!(m.ari, OWN_GUID.0.to_be_bytes());
            assert_eq!(answer.answer.tid, OWN_TID);
        } else {
            assert_eq!((m.reason, m.ari), (Reason::CONSUMER_DEFINED, &[][..]));
        }
    }
}

/// A handler without memory lets the peer try again.
#[test]
fn no_memory() {
    let mut conn = at(StateName::ReqRcvd);
    let actions = conn.destroy(Destroy::NoMemory);
    assert_eq!(actions.send, None);
    assert!(actions.release.is_some());
    for state in StateName::ALL {
        if state != StateName::ReqRcvd {
            let (mut a, mut b) = (at(state), at(state));
            assert_eq!(
                a.destroy(Destroy::NoMemory),
                b.destroy(Destroy::Consumer),
                "{state:?}"
            );
        }
    }
}

/// A REQ that is not answered: the peer is told, by its id alone.
#[test]
fn giving_up() {
    for state in [StateName::ReqSent, StateName::MraReqRcvd] {
        let mut conn = at(state);
        let send = conn.current_send().unwrap();
        let actions = conn.send_ended(send, SendEnd::Failed(12), NOW);
        assert_eq!(actions.event, Some(Event::Failed(Kind::Req, 12)));
        let answer = actions.send.unwrap();
        assert_eq!(answer.to, To::Route(Rt(1)));
        let message = answer.answer.message(&[]);
        let Body::Rej(m) = message.body else { panic!() };
        assert_eq!((m.reason, m.ari_guid), (Reason::TIMEOUT, OWN_GUID));
        assert_eq!((m.local_id, m.remote_id), (LOCAL, CommId::NONE));
        // The identifier can be used again.
        assert_eq!(call(&mut conn, a_call("req")).0, Ok(()));
    }
}

/// An identifier that had a connection makes another one. (In the C module the id of the old peer
/// remains, so that no REP is accepted any more.)
#[test]
fn second_connection() {
    let mut conn = at(StateName::Timewait);
    let _ = conn.timer(Instant(NOW.0 + 100_000));
    assert_eq!(conn.remote_id(), REMOTE);
    assert_eq!(call(&mut conn, a_call("req")).0, Ok(()));
    assert_eq!(conn.remote_id(), CommId::NONE);
    let first = conn.current_send().unwrap();
    // A REP to the REQ before comes late.
    for old in [OWN_TID, PEER_TID] {
        let message = Message {
            tid: old,
            body: rep(),
        };
        let actions = conn.receive(&message, &FROM_PEER, None, NOW, |_| unreachable!());
        assert_eq!(actions, Default::default());
    }
    let tid = OWN_TID ^ u64::from(first.to_raw());
    let message = Message { tid, body: rep() };
    let actions = conn.receive(&message, &FROM_PEER, None, NOW, |_| Claim::Granted);
    assert!(actions.event.is_some());
    assert_eq!(conn.state(), StateName::RepRcvd);
    // Its sends have other numbers.
    assert_eq!(call(&mut conn, a_call("rtu")).0, Ok(()));
    assert_eq!(call(&mut conn, a_call("dreq")).0, Ok(()));
    assert_ne!(conn.current_send(), Some(first));
}

#[test]
fn alternate_path() {
    // No alternate path: the queue pair cannot have migrated.
    let mut conn = Conn::new(LOCAL);
    let mut c = req_call(Transport::Rc);
    c.alternate = None;
    assert_eq!(call(&mut conn, Call::Req(c)).0, Ok(()));
    let _ = receive(&mut conn, rep());
    let _ = call(&mut conn, a_call("rtu"));
    let before = conn;
    assert_eq!(
        call(&mut conn, a_call("mig")).0,
        Err(CallError::Refused(Refused::Invalid))
    );
    assert_eq!(conn, before);

    // To the alternate path, and again; a REJ is then ignored.
    let mut conn = at(StateName::Established);
    assert_eq!(conn.lap(), Lap::Uninit);
    let (result, actions) = call(&mut conn, a_call("mig"));
    assert_eq!((result, actions.dropped), (Ok(()), [Some(Rt(1)), None]));
    assert_eq!(conn.lap(), Lap::Idle);
    assert_eq!(call(&mut conn, a_call("mig")).0, Ok(()));
    let reason = Reason::CONSUMER_DEFINED;
    assert_eq!(receive(&mut conn, rej(About::Other, reason)).event, None);
    let (to, ..) = posted(&mut conn, a_call("dreq"));
    assert_eq!(to, 2);

    // The peer proposes one.
    let mut conn = at(StateName::Established);
    let actions = receive(&mut conn, lap());
    assert_eq!(actions.event, Some(Event::Received(Kind::Lap)));
    assert_eq!(actions.dropped, [Some(Rt(1)), Some(Rt(2))]);
    assert_eq!(conn.lap(), Lap::Rcvd);
    let actions = receive(&mut conn, lap());
    assert_eq!((actions.duplicate, actions.send), (Some(Kind::Lap), None));
    assert_eq!(actions.dropped, [Some(Rt(3)), Some(Rt(4))]);
    assert!(call(&mut conn, a_call("mig")).0.is_err());
    assert_eq!(call(&mut conn, a_call("mra")).0, Ok(()));
    assert_eq!(conn.lap(), Lap::MraSent);
    assert!(call(&mut conn, a_call("mra")).0.is_err());
    let actions = receive(&mut conn, lap());
    let answer = actions.send.unwrap().answer;
    assert!(matches!(
        answer.message(&[]).body,
        Body::Mra(m) if m.about == About::Other && m.service_timeout == 24
    ));
    assert_eq!(answer.tid, PEER_TID);
    let reason = Reason::CONSUMER_DEFINED;
    assert_eq!(receive(&mut conn, rej(About::Other, reason)).event, None);
    let (to, ..) = posted(&mut conn, a_call("dreq"));
    assert_eq!(to, 3);
}

/// A LAP whose paths cannot be used, or on RoCE, changes nothing.
#[test]
fn useless_lap() {
    let message = Message {
        tid: PEER_TID,
        body: lap(),
    };
    let mut conn = at(StateName::Established);
    let before = conn;
    let claim = |_: &_| unreachable!();
    let actions = conn.receive(&message, &FROM_PEER, None, NOW, claim);
    assert_eq!((actions.event, actions.duplicate), (None, None));
    assert_eq!(conn, before);

    let mut conn = Conn::new(LOCAL);
    let mut c = req_call(Transport::Rc);
    c.primary.has_lid = false;
    let _ = call(&mut conn, Call::Req(c));
    let _ = receive(&mut conn, rep());
    let _ = call(&mut conn, a_call("rtu"));
    let before = conn;
    let actions = receive(&mut conn, lap());
    assert_eq!(actions.dropped, [Some(Rt(3)), Some(Rt(4))]);
    assert_eq!(conn, before);
}

#[test]
fn sidr() {
    let mut conn = Conn::new(LOCAL);
    let mut c = sidr_req_call();
    c.private = b"who";
    let (to, agent, policy, mad) = posted(&mut conn, Call::SidrReq(c));
    assert_eq!((to, agent), (1, Agent::Main));
    assert!(matches!(
        policy,
        Policy::Tracked {
            timeout_ms: 1000,
            retries: 3,
            ..
        }
    ));
    let message = Message::parse(&mad).unwrap();
    assert_eq!(message.tid, OWN_TID);
    let Body::SidrReq(m) = message.body else {
        panic!()
    };
    assert_eq!((m.request_id, m.pkey), (LOCAL, 0xffff));

    let mut conn = at(StateName::SidrReqRcvd);
    let mut c = sidr_rep_call();
    c.qpn = OWN_QPN;
    c.qkey = 8;
    c.info = b"info!";
    c.private = b"here";
    c.ece = Ece {
        vendor_id: 0x123456,
        attr_mod: 9,
    };
    let (.., mad) = posted(&mut conn, Call::SidrRep(c));
    let message = Message::parse(&mad).unwrap();
    assert_eq!(message.tid, PEER_TID);
    let Body::SidrRep(m) = message.body else {
        panic!()
    };
    assert_eq!((m.request_id, m.service_id), (REMOTE, SERVICE));
    // The length of the information is told, and 16 bits of the vendor.
    assert_eq!((m.info, m.ece.vendor_id), (&b"info!"[..], 0x3456));
    assert_eq!(m.ece.attr_mod, 9);

    let mut conn = at(StateName::SidrReqRcvd);
    let actions = conn.destroy(Destroy::Consumer);
    assert_eq!(actions.release_sidr, Some(sidr_key()));
    let answer = actions.send.unwrap().answer;
    assert!(matches!(
        answer.message(&[]).body,
        Body::SidrRep(m) if m.status == 2 && m.request_id == REMOTE
    ));
}

/// The time that an MRA grants: 65 s, and the acknowledgement timeout of the path.
#[test]
fn mra_extends() {
    let mut conn = at(StateName::ReqSent);
    let send = conn.current_send().unwrap();
    let actions = receive(&mut conn, mra(About::Req));
    assert_eq!(actions.extend, Some((send, 65_536 + 512)));
    assert_eq!(conn.current_send(), Some(send));
}

#[test]
fn no_device_no_message() {
    for state in StateName::ALL {
        let mut conn = at(state);
        let actions = conn.device_gone();
        assert_eq!((actions.send, actions.event), (None, None));
        assert_eq!(actions.cancel, at(state).current_send());
        assert_eq!(actions.release, at(state).keys());
    }
}

/// What a test of single lines would miss: routes are handed back, the DREP has the TID of the
/// DREQ, and data of full length is accepted.
#[test]
fn small_print() {
    let mut conn = at(StateName::ReqSent);
    let send = conn.current_send().unwrap();
    let actions = conn.send_ended(send, SendEnd::Failed(12), NOW);
    assert_eq!(actions.dropped, [Some(Rt(1)), Some(Rt(2))]);
    assert_eq!(actions.keep, Some(Keep::Nothing));

    let mut conn = at(StateName::Established);
    let message = Message {
        tid: 99,
        body: dreq(),
    };
    let _ = conn.receive(&message, &FROM_PEER, None, NOW, |_| unreachable!());
    let (.., mad) = posted(&mut conn, a_call("drep"));
    assert_eq!(Message::parse(&mad).unwrap().tid, 99);

    let data = [0; 300];
    let mut c = sidr_rep_call();
    c.private = &data[..private::SIDR_REP];
    c.info = &data[..private::INFO];
    let mut conn = at(StateName::SidrReqRcvd);
    assert_eq!(call(&mut conn, Call::SidrRep(c)).0, Ok(()));
    assert_eq!(at(StateName::SidrReqSent).service_id(), SERVICE);
}
