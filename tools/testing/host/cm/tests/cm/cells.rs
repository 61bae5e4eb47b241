// SPDX-License-Identifier: GPL-2.0

//! Every state against every message and other happening, as a table.
//!
//! A cell reads: `=` or the next state, `+` an event, `d` a duplicate is counted, `x` the send is
//! cancelled, `e` its timeout is extended, `r` the keys are released, `t` there is a new deadline, and
//! after `!` the message that is sent. `.` means that nothing happens at all.

use super::bed::*;
use rdma_cm_engine::proto::conn::Actions;
use rdma_cm_engine::proto::conn::Destroy;
use rdma_cm_engine::proto::conn::SendEnd;
use rdma_cm_engine::proto::conn::Source;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::conn::To;
use rdma_cm_engine::proto::ids::Instant;
use rdma_cm_engine::proto::ids::SendId;
use rdma_cm_engine::proto::wire::About;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::Transport;

const SHORT: [&str; 16] = [
    "Idle", "Listen", "ReqS", "ReqR", "MReqS", "MReqR", "RepS", "RepR", "MRepS", "MRepR", "Est",
    "DreqS", "DreqR", "Tw", "SidrS", "SidrR",
];

const COLUMNS: [&str; 18] = [
    "REP",
    "RTU",
    "MRA req",
    "MRA rep",
    "REJ req",
    "REJ rep",
    "REJ stale",
    "REJ 4",
    "DREQ",
    "DREP",
    "SIDR_REP",
    "LAP",
    "REQ again",
    "failed",
    "ended",
    "timer",
    "gone",
    "destroy",
];

#[rustfmt::skip]
const CELLS: [(StateName, [&str; 18]); 16] = [
    (StateName::Idle, [
        ".", ".", ".", ".", ".", ".", ".", ".", "d!DREP", ".", ".", ".", "d", ".", ".", ".", ".", "."]),
    (StateName::Listen, [
        ".", ".", ".", ".", ".", ".", ".", ".", "d!DREP", ".", ".", ".", "d", ".", ".", ".", ".", "Idle"]),
    (StateName::ReqSent, [
        "RepR+x", ".", "MReqR+e", ".", "Idle+x", ".", ".", ".", "d!DREP", ".", ".", ".", "d",
        "Idle+!REJ", ".", ".", "Idle x", "Idle x!REJ"]),
    (StateName::ReqRcvd, [
        "d", "d", ".", ".", ".", "Idle+r", "Tw+rt", "Idle+r", ".", ".", ".", ".", "d",
        ".", ".", ".", "Idle r", "Idle r!REJ"]),
    (StateName::MraReqSent, [
        "d", "d", ".", ".", ".", "Idle+r", "Tw+rt", "Idle+r", ".", ".", ".", ".", "d!MRA",
        ".", ".", ".", "Idle r", "Idle r!REJ"]),
    (StateName::MraReqRcvd, [
        "RepR+x", ".", "d", ".", "Idle+x", ".", ".", ".", "d!DREP", ".", ".", ".", "d",
        "Idle+!REJ", ".", ".", "Idle x", "Idle x!REJ"]),
    (StateName::RepSent, [
        "d", "Est+x", ".", "MRepR+e", ".", "Idle+xr", "Tw+xrt", "Idle+xr", "DreqR+x", ".", ".", ".", "d",
        "Idle+r", ".", ".", "Idle xr", "Idle xr!REJ"]),
    (StateName::RepRcvd, [
        "d", "d", ".", ".", ".", "Tw+rt", "Tw+rt", "Tw+rt", ".", ".", ".", ".", "d",
        ".", ".", ".", "Idle r", "Idle r!REJ"]),
    (StateName::MraRepSent, [
        "d!MRA", "d", ".", ".", ".", "Tw+rt", "Tw+rt", "Tw+rt", ".", ".", ".", ".", "d",
        ".", ".", ".", "Idle r", "Idle r!REJ"]),
    (StateName::MraRepRcvd, [
        "d", "Est+x", ".", "d", ".", "Idle+xr", "Tw+xrt", "Idle+xr", "DreqR+x", ".", ".", ".", "d",
        "Idle+r", ".", ".", "Idle xr", "Idle xr!REJ"]),
    (StateName::Established, [
        "d!RTU", "d", ".", ".", ".", "Tw+rt", "Tw+rt", "Tw+rt", "DreqR+", ".", ".", "=+", "d",
        ".", ".", ".", "Idle r", "Idle r!DREQ"]),
    (StateName::DreqSent, [
        "d", "d", ".", ".", ".", "Tw+xrt", "Tw+xrt", "Tw+xrt", "DreqR+x", "Tw+xrt", ".", ".", "d",
        "Tw+rt", ".", ".", "Idle xr", "Idle xr"]),
    (StateName::DreqRcvd, [
        "d", "d", ".", ".", ".", ".", ".", ".", "d", "Tw+rt", ".", ".", "d",
        ".", ".", ".", "Idle r", "Idle r!DREP"]),
    (StateName::Timewait, [
        "d", "d", ".", ".", ".", ".", ".", ".", "d!DREP", ".", ".", ".", "d!REJ",
        ".", ".", "Idle+", "Idle", "Idle"]),
    (StateName::SidrReqSent, [
        ".", ".", ".", ".", ".", ".", ".", ".", "d!DREP", ".", "Idle+x", ".", "d",
        "Idle+", ".", ".", "Idle x", "Idle x"]),
    // It is not in the table of local ids, and gets no messages.
    (StateName::SidrReqRcvd, [
        ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "d",
        ".", ".", ".", "Idle r", "Idle r!SIDR_REP"]),
];

fn cell(before: &C, after: &C, actions: &Actions<Rt>) -> String {
    let mut text = String::new();
    if after.state() != before.state() {
        text += SHORT[after.state() as usize];
        if actions.event.is_none() {
            text += " ";
        }
    } else if actions.event.is_some() {
        text += "=";
    }
    for (is_set, letter) in [
        (actions.event.is_some(), '+'),
        (actions.duplicate.is_some(), 'd'),
        (actions.cancel.is_some(), 'x'),
        (actions.extend.is_some(), 'e'),
        (
            actions.release.is_some() || actions.release_sidr.is_some(),
            'r',
        ),
        (
            after.deadline().is_some() && after.deadline() != before.deadline(),
            't',
        ),
    ] {
        if is_set {
            text.push(letter);
        }
    }
    if let Some(send) = &actions.send {
        let message = send.answer.message(&[]);
        let kind = format!("{:?}", message.body.kind());
        text += "!";
        text += &kind.replace("Sidr", "Sidr_").to_uppercase();
    }
    let text = text.trim_end().to_owned();
    if text.is_empty() {
        ".".to_owned()
    } else {
        text
    }
}

/// Something that happens to an identifier.
fn happen(column: &str, conn: &mut C) -> Actions<Rt> {
    let other = Reason::CONSUMER_DEFINED;
    let late = Instant(NOW.0 + 1_000_000);
    let send = conn.current_send().unwrap_or(SendId::from_raw(77));
    match column {
        "REP" => receive(conn, rep()),
        "RTU" => receive(conn, rtu()),
        "MRA req" => receive(conn, mra(About::Req)),
        "MRA rep" => receive(conn, mra(About::Rep)),
        "REJ req" => receive(conn, rej(About::Req, other)),
        "REJ rep" => receive(conn, rej(About::Rep, other)),
        "REJ stale" => receive(conn, rej(About::Other, Reason::STALE_CONN)),
        "REJ 4" => receive(conn, rej(About::Other, Reason::TIMEOUT)),
        "DREQ" => receive(conn, dreq()),
        "DREP" => receive(conn, drep()),
        "SIDR_REP" => receive(conn, sidr_rep()),
        "LAP" => receive(conn, lap()),
        "REQ again" => {
            let message = Message {
                tid: PEER_TID,
                body: Body::Req(req(Transport::Rc)),
            };
            conn.duplicate_req(&message, &FROM_PEER)
        }
        "failed" => conn.send_ended(send, SendEnd::Failed(12), late),
        "ended" => conn.send_ended(send, SendEnd::Ended, late),
        "timer" => conn.timer(late),
        "gone" => conn.device_gone(),
        "destroy" => conn.destroy(Destroy::Consumer),
        _ => unreachable!(),
    }
}

#[test]
fn states_and_happenings() {
    let mut wrong = Vec::new();
    for (state, cells) in CELLS {
        for (column, expected) in COLUMNS.into_iter().zip(cells) {
            let before = at(state);
            let mut after = before;
            let actions = happen(column, &mut after);
            let found = cell(&before, &after, &actions);
            if found != expected {
                wrong.push(format!("{state:?} {column}: {expected} expected, {found}"));
            }
            // A state that is not left is not changed either.
            let may_change = column == "gone"
                || column == "ended"
                || column == "destroy"
                || (state, column) == (StateName::Established, "LAP");
            if after.state() == before.state() && !may_change {
                assert_eq!(after, before, "{state:?} {column}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Messages with the source GID of another node do nothing.
#[test]
fn forged() {
    let other = Reason::CONSUMER_DEFINED;
    let foreign = Source {
        gid: Some(FOREIGN_GID),
        ..FROM_PEER
    };
    for state in StateName::ALL {
        for body in [
            rep(),
            rtu(),
            mra(About::Req),
            mra(About::Rep),
            rej(About::Req, other),
            rej(About::Rep, Reason::STALE_CONN),
            rej(About::Other, Reason::TIMEOUT),
            drep(),
            sidr_rep(),
            lap(),
        ] {
            let mut conn = at(state);
            let actions = receive_from(&mut conn, body, foreign);
            assert_eq!(conn, at(state), "{state:?} {body:?}");
            // The paths of a LAP are handed back.
            assert_eq!(
                Actions {
                    dropped: [None, None],
                    ..actions
                },
                Actions::default()
            );
        }
        let mut conn = at(state);
        let actions = receive_from(&mut conn, dreq(), foreign);
        assert_eq!(conn, at(state));
        if conn.remote_id() == REMOTE {
            assert_eq!(actions, Actions::default());
        }
    }
}

/// Both GIDs of the peer are its own, and messages without a GRH are believed.
#[test]
fn sources_of_the_peer() {
    for gid in [Some(PEER_GID), Some(ALT_GID), None] {
        let source = Source { gid, ..FROM_PEER };
        let mut conn = at(StateName::ReqSent);
        let actions = receive_from(&mut conn, rep(), source);
        assert!(actions.event.is_some());
        assert_eq!(conn.state(), StateName::RepRcvd);
    }
}

/// Messages whose ids, adapter or queue pair are not those of the connection do nothing.
#[test]
fn right_source_and_wrong_numbers() {
    use rdma_cm_engine::proto::ids::CommId;
    use rdma_cm_engine::proto::ids::Guid;
    use rdma_cm_engine::proto::ids::Qpn;

    for state in StateName::ALL {
        // As long as the peer's id is not known, any is right.
        if at(state).remote_id() != REMOTE {
            continue;
        }
        for mut body in [
            rep(),
            rtu(),
            mra(About::Rep),
            mra(About::Reserved),
            rej(About::Rep, Reason::CONSUMER_DEFINED),
            rej(About::Other, Reason::STALE_CONN),
            rej(About::Other, Reason::TIMEOUT),
            drep(),
            lap(),
        ] {
            let wrong = CommId(5);
            match &mut body {
                Body::Rep(m) => m.local_id = wrong,
                Body::Rtu(m) => m.local_id = wrong,
                Body::Mra(m) => m.local_id = wrong,
                Body::Rej(m) => m.local_id = wrong,
                Body::Drep(m) => m.local_id = wrong,
                Body::Lap(m) => m.local_id = wrong,
                _ => unreachable!(),
            }
            let mut conn = at(state);
            let actions = receive(&mut conn, body);
            assert_eq!(conn, at(state), "{state:?} {body:?}");
            assert_eq!((actions.event, actions.send), (None, None));
        }
        let mut conn = at(state);
        let mut body = rej(About::Other, Reason::TIMEOUT);
        if let Body::Rej(m) = &mut body {
            m.ari_guid = Guid(1);
        }
        assert_eq!(receive(&mut conn, body), Actions::default());
        let mut body = dreq();
        if let Body::Dreq(m) = &mut body {
            m.remote_qpn = Qpn::new(1);
        }
        assert_eq!(receive(&mut conn, body), Actions::default());
        assert_eq!(conn, at(state));
        // A DREQ of a connection that is not this one is answered: whoever has sent it, not the peer of
        // this one.
        if let Body::Dreq(m) = &mut body {
            m.local_id = CommId(6);
        }
        let actions = receive(&mut conn, body);
        assert_eq!(conn, at(state));
        let send = actions.send.unwrap();
        assert_eq!(send.to, To::Stranger);
        assert!(matches!(
            send.answer.message(&[]).body,
            Body::Drep(m) if m.remote_id == CommId(6) && m.local_id == LOCAL
        ));
    }
}

/// A send that is not the present one ends.
#[test]
fn late_completions() {
    for state in StateName::ALL {
        for end in [SendEnd::Ended, SendEnd::Failed(12)] {
            let mut conn = at(state);
            let late = SendId::from_raw(99);
            assert_eq!(conn.send_ended(late, end, NOW), Actions::default());
            assert_eq!(conn, at(state));
        }
    }
    // A REP arrives while the failure of the REQ is on its way.
    let mut conn = at(StateName::ReqSent);
    let send = conn.current_send().unwrap();
    assert_eq!(receive(&mut conn, rep()).cancel, Some(send));
    let after = conn;
    assert_eq!(
        conn.send_ended(send, SendEnd::Failed(12), NOW),
        Actions::default()
    );
    assert_eq!(conn, after);
}

/// A timer that fires too early does nothing.
#[test]
fn early_timer() {
    let mut conn = at(StateName::Timewait);
    let before = conn;
    // 2^(19 - 8) ms after NOW.
    let until = Instant(NOW.0 + 2048);
    assert_eq!(conn.deadline(), Some(until));
    assert_eq!(conn.timer(Instant(until.0 - 1)), Actions::default());
    assert_eq!(conn, before);
    assert!(conn.timer(until).event.is_some());
    assert_eq!(conn.state(), StateName::Idle);
    assert_eq!(conn.deadline(), None);
}

/// Without a send there is nothing to extend: its agent is gone.
#[test]
fn mra_without_send() {
    for state in [StateName::ReqSent, StateName::RepSent] {
        let mut conn = at(state);
        let send = conn.current_send().unwrap();
        let _ = conn.send_ended(send, SendEnd::Ended, NOW);
        assert_eq!(conn.current_send(), None);
        for about in [About::Req, About::Rep] {
            assert_eq!(receive(&mut conn, mra(about)), Actions::default());
        }
        assert_eq!(conn.state(), state);
    }
}
