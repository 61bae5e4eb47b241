// SPDX-License-Identifier: GPL-2.0

//! A queue pair that was reset behaves as one that was never used, whatever it had been
//! through.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
/// When the script begins, long after what was before.
const T1: u64 = 10_000_000_000;

fn fresh() -> Node {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = Some(Nanos(1_000_000_000));
    attr.window = 8;
    n.send.set_attr(attr);
    n
}

/// Resets a node and makes it ready again.
fn reset(n: &mut Node) {
    n.modify(QpState::Reset).expect("reset");
    n.host.room = None;
    let _ = seen(n);
    n.host.counts.clear();
    n.host.send_cq.clear();
    n.host.recv_cq.clear();
    n.ready(START.get(), START.get());
}

/// What is to be seen of the send side.
fn look(n: &mut Node, now: u64) -> String {
    let sent: Vec<_> = poll(n, Nanos(now))
        .iter()
        .map(|p| (p.opcode, p.psn, p.ack_req))
        .collect();
    let deadline = n.send.next_deadline().map(|at| at.0 - now);
    format!("{now} {sent:?} {deadline:?} {}", n.send.window())
}

fn seq(n: &mut Node, now: u64, psn: i32) -> Disposition {
    nak(n, Nanos(now), psn, NakCode::PsnSequence)
}

/// Nobody answers any more, until that is an error.
fn silence(n: &mut Node, log: &mut Vec<String>) {
    for _ in 0..40 {
        let Some(now) = n.send.next_deadline() else {
            return;
        };
        n.send.on_timer(now, &mut n.host);
        log.push(look(n, now.0));
    }
    panic!("no end: {log:#?}");
}

/// The peer is never ready for number 12.
fn not_ready(n: &mut Node, log: &mut Vec<String>) {
    for _ in 0..40 {
        let Some(now) = n.send.next_deadline() else {
            return;
        };
        log.push(look(n, now.0));
        log.push(format!("{:?}", rnr(n, now, 12)));
    }
    panic!("no end: {log:#?}");
}

type End = fn(&mut Node, &mut Vec<String>);
/// What a node has been through, and its name.
type Life = (&'static str, fn(&mut Node));

fn send_script(n: &mut Node, end: End) -> Vec<String> {
    let mut log = vec![];
    let mut now = T1;
    post(n, send(), 4);
    log.push(look(n, now));
    now += 4_000_000;
    let _ = ack(n, Nanos(now), 0);
    // Numbers 1 to 6, and what the peer misses.
    post(n, send(), 6 * MTU);
    log.push(look(n, now));
    now += 1_000_000;
    for psn in [2, 2, 3] {
        log.push(format!("{:?}", seq(n, now, psn)));
        log.push(look(n, now));
    }
    let _ = ack(n, Nanos(now), 6);
    // Responses 7 to 11, of which the first is late.
    post(n, read(), 5 * MTU);
    log.push(look(n, now));
    let body = [7; MTU as usize];
    for psn in [8, 9, 10] {
        let early = give(
            n,
            Nanos(now),
            Opcode::RcReadRespMiddle,
            psn,
            Ext::None,
            &body,
        );
        log.push(format!("{early:?}"));
        log.push(look(n, now));
    }
    for psn in 7..12 {
        let opcode = match psn {
            7 => Opcode::RcReadRespFirst,
            11 => Opcode::RcReadRespLast,
            _ => Opcode::RcReadRespMiddle,
        };
        let _ = give(n, Nanos(now), opcode, psn, aeth(AethSyndrome::ACK), &body);
    }
    post(n, add(), 8);
    post(n, send(), 4);
    log.push(look(n, now));
    end(n, &mut log);
    log.push(format!("{:?} {:?}", n.state, n.host.counts));
    let statuses: Vec<_> = n.host.send_cq.iter().map(|c| c.status).collect();
    log.push(format!("{statuses:?}"));
    log
}

#[test]
fn sending_begins_anew() {
    let lives: [Life; 8] = [
        ("nothing", |_| {}),
        ("some packets that ask for nothing", |n| {
            post(n, send(), 8 * MTU);
            n.host.room = Some(3);
            assert_eq!(poll(n, T0).len(), 3);
        }),
        ("reads under way", |n| {
            post(n, read(), MTU);
            post(n, read(), MTU);
            post(n, read(), MTU);
            assert_eq!(poll(n, T0).len(), 2);
        }),
        ("silence", |n| {
            post(n, send(), 3 * MTU);
            assert_eq!(poll(n, T0).len(), 3);
            for _ in 0..3 {
                let now = n.send.next_deadline().expect("a deadline");
                n.send.on_timer(now, &mut n.host);
                assert_eq!(poll(n, now).len(), 1);
            }
        }),
        ("a peer that keeps nothing", |n| {
            post(n, send(), 8 * MTU);
            assert_eq!(poll(n, T0).len(), 8);
            for psn in [1, 3] {
                let _ = seq(n, 1000, psn);
                assert_eq!(poll(n, Nanos(1000)).len(), 1);
                let _ = ack(n, Nanos(2000), psn);
                assert!(poll(n, Nanos(2000)).len() > 1);
            }
            let _ = seq(n, 3000, 5);
        }),
        ("a peer that is not ready", |n| {
            post(n, send(), 4);
            assert_eq!(poll(n, T0).len(), 1);
            let _ = rnr(n, T0, 0);
        }),
        ("responses that come early, and then twice", |n| {
            post(n, read(), 6 * MTU);
            assert_eq!(poll(n, T0).len(), 1);
            let body = [7; MTU as usize];
            for psn in [1, 2, 3] {
                let _ = give(n, T0, Opcode::RcReadRespMiddle, psn, Ext::None, &body);
            }
            assert_eq!(poll(n, T0).len(), 1);
            let ack = aeth(AethSyndrome::ACK);
            for _ in 0..2 {
                let _ = give(n, T0, Opcode::RcReadRespFirst, 0, ack, &body);
            }
            let _ = give(n, T0, Opcode::RcReadRespMiddle, 2, Ext::None, &body);
        }),
        ("congestion, and a packet whose answer is timed", |n| {
            post(n, send(), 4);
            assert_eq!(poll(n, T0).len(), 1);
            n.send.on_congestion(T0);
        }),
    ];
    for end in [silence as End, not_ready] {
        let want = send_script(&mut fresh(), end);
        for (name, life) in lives {
            let mut n = fresh();
            life(&mut n);
            reset(&mut n);
            assert_eq!(send_script(&mut n, end), want, "after {name}");
        }
    }
}

#[test]
fn a_drain_after_reset_has_nothing_to_wait_for() {
    let mut n = fresh();
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, T0).len(), 1);
    reset(&mut n);
    n.modify(QpState::Sqd).expect("a drain");
    assert_eq!(n.host.events, [QpEvent::SqDrained]);
}

/// A request, of which an answer is asked for or not.
fn request(n: &mut Node, opcode: Opcode, psn: i32, ext: Ext, len: u32, ask: bool) -> String {
    n.host.payload = vec![7; len as usize];
    let packet = RxPacket {
        opcode,
        psn: START + u32::from_ne_bytes(psn.to_ne_bytes()),
        ack_req: ask,
        solicited: false,
        ext,
        len,
        mtu: None,
    };
    let done = n.recv.on_request(&packet, &mut n.host);
    format!("{done:?} {:?}", poll(n, T0))
}

fn add_request(n: &mut Node, psn: i32) -> String {
    let eth = AtomicEth {
        va: BASE,
        rkey: KEY.0,
        swap_or_add: 0,
        compare: 0,
    };
    request(n, Opcode::RcFetchAdd, psn, Ext::AtomicEth(eth), 0, true)
}

fn recv_script(n: &mut Node) -> Vec<String> {
    let (only, none) = (Opcode::RcSendOnly, Ext::None);
    for k in 0..9 {
        post_recv(n, k, 10);
    }
    // An atomic from before, and one of now, both asked for again.
    let mut log: Vec<_> = [-1, 0, 0].map(|psn| add_request(n, psn)).into();
    for psn in [3, 4, 5, 6, 1, 2, 3, 4] {
        log.push(request(n, only, psn, none, 1, false));
    }
    log.push(request(n, Opcode::RcSendLast, 5, none, 1, true));
    log.push(format!("{:?} {:?}", n.state, n.host.counts));
    log.push(format!("{:?} {}", received(n), n.recv.msn().get()));
    log
}

#[test]
fn receiving_begins_anew() {
    let lives: [Life; 6] = [
        ("nothing", |_| {}),
        ("half a message", |n| {
            post_recv(n, 0, 1000);
            let _ = request(n, Opcode::RcSendFirst, 0, Ext::None, MTU, false);
        }),
        ("atomics", |n| {
            for psn in 0..2 {
                let _ = add_request(n, psn - 1);
                let _ = add_request(n, psn);
            }
        }),
        ("a read that is half answered", |n| {
            n.host.room = Some(1);
            let reth = Reth {
                va: BASE,
                rkey: KEY.0,
                length: 3 * MTU,
            };
            let _ = request(n, Opcode::RcReadRequest, 0, Ext::Reth(reth), 0, true);
        }),
        ("no receive request, and no way to say so", |n| {
            n.host.room = Some(0);
            let _ = request(n, Opcode::RcSendOnly, 0, Ext::None, 1, true);
        }),
        ("swapped packets", |n| {
            for k in 0..9 {
                post_recv(n, k, 10);
            }
            for psn in [1, 2, 3, 0, 0, 2] {
                let _ = request(n, Opcode::RcSendOnly, psn, Ext::None, 1, false);
            }
        }),
    ];
    let want = recv_script(&mut fresh());
    for (name, life) in lives {
        let mut n = fresh();
        life(&mut n);
        reset(&mut n);
        assert_eq!(recv_script(&mut n), want, "after {name}");
    }
}
