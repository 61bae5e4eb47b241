// SPDX-License-Identifier: GPL-2.0

//! The target `cm`: a peer sends any MADs to one identifier, whose consumer makes any calls.
//!
//! What is parsed is written back; keys are claimed and released once; there is one send at a time;
//! nothing follows the end.

use crate::bytes::Bytes;
use rdma_cm_engine::proto::answer::Answer;
use rdma_cm_engine::proto::conn::*;
use rdma_cm_engine::proto::ids::*;
use rdma_cm_engine::proto::tables::{Claim, Lookup, PeerKeys, SidrKey};
use rdma_cm_engine::proto::wire::*;

const LOCAL: CommId = CommId(0x1111_2222);
const PEER: Gid = Gid([2; 16]);

/// A route that counts nothing: dropping is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rt;

impl Route for Rt {
    fn hi_tid(&self) -> u32 {
        7
    }
    fn node_guid(&self) -> Guid {
        Guid(0x77)
    }
    fn ack_delay(&self) -> u8 {
        15
    }
}

fn path(data: &mut Bytes<'_>) -> Path<Rt> {
    Path {
        route: Rt,
        peer: PEER,
        timeout: data.u8(),
        has_lid: data.flip(),
    }
}

/// What the engine has promised, as far as its actions tell.
struct Bed {
    conn: Conn<Rt>,
    now: u64,
    keys: Option<PeerKeys>,
    sidr: Option<SidrKey>,
    over: bool,
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut data = Bytes::new(input);
    let mut bed = Bed {
        conn: Conn::new(LOCAL),
        now: 1000,
        keys: None,
        sidr: None,
        over: false,
    };
    begin(&mut bed, &mut data);
    while !data.is_empty() {
        bed.now += u64::from(data.u8());
        match data.below(8) {
            0..=3 => receive(&mut bed, &mut data),
            4 | 5 => call(&mut bed, &mut data),
            6 => happen(&mut bed, &mut data),
            _ => {
                let at = Instant(bed.now + u64::from(data.number32()));
                let due = bed.conn.deadline().is_some_and(|deadline| deadline <= at);
                let actions = bed.conn.timer(at);
                assert!(due || actions == Actions::default(), "too early");
                bed.take(actions);
            }
        }
    }
    let actions = bed.conn.destroy(Destroy::Consumer);
    bed.over = true;
    bed.take(actions);
    assert_eq!(
        (bed.keys, bed.sidr, bed.conn.deadline()),
        (None, None, None)
    );
    assert_eq!(bed.conn.current_send(), None);
}

/// An idle identifier, or one that a request made.
fn begin(bed: &mut Bed, data: &mut Bytes<'_>) {
    if data.flip() {
        return;
    }
    let mad = mad(data);
    let Some(message) = Message::parse(&mad) else {
        return;
    };
    match (Lookup::of(&message), &message.body) {
        (Lookup::Request(keys), Body::Req(req)) => {
            bed.keys = Some(keys);
            let alternate = req.alternate.map(|_| path(data));
            bed.conn = Conn::from_req(LOCAL, message.tid, req, path(data), alternate);
            let actions = bed.conn.duplicate_req(&message, &source(data));
            bed.take(actions);
        }
        (Lookup::SidrRequest, Body::SidrReq(req)) => {
            let key = SidrKey {
                gid: Some(PEER),
                slid: 0,
                id: req.request_id,
            };
            bed.sidr = Some(key);
            bed.conn = Conn::from_sidr_req(LOCAL, message.tid, req, key, Rt);
        }
        _ => {}
    }
}

/// A MAD: a few bytes of the input on a header that is right, or all of it.
fn mad(data: &mut Bytes<'_>) -> [u8; MAD] {
    if data.below(16) == 0 {
        return data.array();
    }
    let mut mad = [0; MAD];
    mad[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD]);
    mad[17] = 0x10 + data.below(12) as u8;
    mad[15] = data.u8();
    // The peer's id, and that of the identifier.
    mad[24..28].copy_from_slice(&data.below(3).to_be_bytes());
    mad[28..32].copy_from_slice(&LOCAL.0.to_be_bytes());
    let body = data.slice(24);
    mad[32..32 + body.len()].copy_from_slice(body);
    mad
}

fn source(data: &mut Bytes<'_>) -> Source {
    Source {
        gid: data.pick(&[Some(PEER), Some(PEER), None, Some(Gid([3; 16]))]),
        slid: 5,
        sl: 0,
        dlid_path_bits: 0,
    }
}

fn receive(bed: &mut Bed, data: &mut Bytes<'_>) {
    let mad = mad(data);
    let Some(message) = Message::parse(&mad) else {
        return;
    };
    let mut again = [0xff; MAD];
    message.write(&mut again).expect("it was parsed");
    let parsed = Message::parse(&again).expect("it was written");
    assert_eq!(parsed.body.kind(), message.body.kind());
    assert_eq!(parsed.body.private(), message.body.private());
    let source = source(data);
    let _ = Lookup::of(&message);
    if let Some(answer) = Answer::to_stranger(&message) {
        sendable(&answer.message(&[1; 224]));
    }
    let lap = data.flip().then(|| LapPaths {
        reply: Rt,
        alternate: path(data),
    });
    let claim = data.pick(&[
        Claim::Granted,
        Claim::Granted,
        Claim::SameId,
        Claim::SameQpn,
    ]);
    let before = bed.conn;
    let mut claimed = None;
    let actions = bed
        .conn
        .receive(&message, &source, lap, Instant(bed.now), |keys| {
            claimed = Some(*keys);
            claim
        });
    if let Some(keys) = claimed.filter(|_| claim == Claim::Granted) {
        assert_eq!(bed.keys.replace(keys), None, "claimed twice");
    }
    if source.gid == Some(Gid([3; 16])) {
        assert_eq!(bed.conn, before, "a forgery works");
    }
    bed.take(actions);
}

fn call(bed: &mut Bed, data: &mut Bytes<'_>) {
    let long = [data.u8(); 300];
    let private = &long[..usize::from(data.u16()) % 230];
    let posts = !data.flip();
    let call = match data.below(11) {
        0 => {
            let mad = mad(data);
            let Some(Message {
                body: Body::Req(req),
                ..
            }) = Message::parse(&mad)
            else {
                return;
            };
            let call = Call::Req(ReqCall {
                primary: path(data),
                alternate: data.flip().then(|| path(data)),
                life_time: data.u8(),
                req: Req {
                    private: &[],
                    ..req
                },
            });
            return bed.call(call, posts);
        }
        1 => Call::Rep(RepCall {
            qpn: Qpn::new(data.u32()),
            private,
            ..RepCall::default()
        }),
        2 => Call::Rtu { private },
        3 => Call::Rej {
            reason: Reason(data.u16()),
            ari: &long[..usize::from(data.u8()) % 80],
            private,
        },
        4 => Call::Dreq { private },
        5 => Call::Drep { private },
        6 => Call::PrepareMra,
        7 => Call::Established,
        8 => Call::Migrated,
        9 => Call::SidrReq(SidrReqCall {
            path: path(data),
            service_id: ServiceId(data.number()),
            pkey: data.u16(),
            timeout_ms: data.number32(),
            max_cm_retries: data.u8(),
            private,
        }),
        _ => Call::SidrRep(SidrRepCall {
            info: &long[..usize::from(data.u8()) % 80],
            private,
            ..SidrRepCall::default()
        }),
    };
    bed.call(call, posts);
}

fn happen(bed: &mut Bed, data: &mut Bytes<'_>) {
    let now = Instant(bed.now);
    let actions = match data.below(6) {
        0..=2 => {
            let id = match bed.conn.current_send() {
                Some(id) if data.flip() => id,
                _ => SendId::from_raw(u32::from(data.u8())),
            };
            let end = data.pick(&[SendEnd::Failed(12), SendEnd::Ended]);
            bed.conn.send_ended(id, end, now)
        }
        3 => {
            let _ = bed.conn.listen(ServiceId(data.number()));
            Actions::default()
        }
        4 if data.below(8) == 0 => {
            bed.over = true;
            let actions = bed.conn.device_gone();
            assert_eq!(actions.send, None);
            actions
        }
        5 if data.below(8) == 0 => {
            bed.over = bed.conn.state() != StateName::Listen;
            bed.conn.destroy(Destroy::NoMemory)
        }
        _ => Actions::default(),
    };
    bed.take(actions);
    let known = bed.conn.rtr_attr().is_ok();
    assert_eq!(known, bed.conn.rts_attr().is_ok());
    assert!(!known || bed.conn.init_attr().is_ok());
}

fn sendable(message: &Message<'_>) {
    let mut mad = [0; MAD];
    message.write(&mut mad).expect("it fits");
    let parsed = Message::parse(&mad).expect("a message");
    assert_eq!(parsed.body.kind(), message.body.kind());
}

impl Bed {
    fn call(&mut self, call: Call<'_, Rt>, posts: bool) {
        let before = self.conn;
        let mut posted = 0;
        let (result, actions) = self.conn.call(&call, Instant(self.now), |posting| {
            posted += 1;
            sendable(posting.message);
            if posts {
                Ok(())
            } else {
                Err(())
            }
        });
        match result {
            Ok(()) => {}
            Err(CallError::Refused(_)) => {
                assert_eq!(posted, 0);
                assert_eq!(self.conn.state(), before.state());
            }
            Err(CallError::NotPosted(())) => assert_eq!(posted, 1),
        }
        assert!(!self.over || result.is_err(), "after the end");
        self.take(actions);
    }

    /// Checks the actions of a step.
    fn take(&mut self, actions: Actions<Rt>) {
        if let Some(keys) = actions.release {
            assert_eq!(self.keys.take(), Some(keys), "released and not claimed");
        }
        if let Some(key) = actions.release_sidr {
            assert_eq!(self.sidr.take(), Some(key));
        }
        if let Some((id, ms)) = actions.extend {
            assert_eq!(self.conn.current_send(), Some(id));
            assert_ne!(ms, 0);
        }
        assert!(actions.cancel.is_none() || actions.cancel != self.conn.current_send());
        if let Some(send) = actions.send {
            sendable(&send.answer.message(&[1; 224]));
        }
        assert!(!self.over || actions.event.is_none(), "an event after all");
        assert_eq!(self.conn.keys(), self.keys);
        // There are no early repeats here.
        let waits = self.conn.state() == StateName::Timewait;
        assert_eq!(self.conn.deadline().is_some(), waits);
    }
}
