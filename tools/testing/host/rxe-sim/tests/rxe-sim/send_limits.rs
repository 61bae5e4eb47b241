// SPDX-License-Identifier: GPL-2.0

//! The send side: what it begins with, what it refuses, when it asks for an acknowledgement,
//! which timers it wants, and what it counts.

use crate::common::*;
use rxe_sim::host::PostedSend;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
const MS: u64 = 1_000_000;
use WcStatus::Success;

fn ms(n: u64) -> Nanos {
    Nanos(n * MS)
}

fn with_attr(mut n: Node, change: impl Fn(&mut SendAttr)) -> Node {
    let mut attr = *n.send.attr();
    change(&mut attr);
    n.send.set_attr(attr);
    n
}

/// A node that knows that a round trip takes 4 ms; its next PSN is number 1.
fn informed() -> Node {
    let mut n = with_attr(node(), |attr| attr.timeout = Some(ms(1000)));
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, T0), [0]);
    let _ = ack(&mut n, ms(4), 0);
    n
}

fn psns(n: &mut Node, now: Nanos) -> Vec<i32> {
    poll(n, now).iter().map(|p| p.psn).collect()
}

fn asks(n: &mut Node, now: Nanos) -> Vec<bool> {
    poll(n, now).iter().map(|p| p.ack_req).collect()
}

fn seq(n: &mut Node, now: Nanos, psn: i32) -> Disposition {
    nak(n, now, psn, NakCode::PsnSequence)
}

/// All there is to ask for.
fn operations() -> [SendOp; 13] {
    let (va, key) = (BASE, KEY);
    let imm = Some([1, 2, 3, 4]);
    [
        send(),
        SendOp::Send { imm },
        SendOp::SendInv { key },
        SendOp::Write { va, key, imm: None },
        SendOp::Write { va, key, imm },
        read(),
        SendOp::CompareSwap {
            va,
            key,
            compare: 0,
            swap: 0,
        },
        add(),
        SendOp::AtomicWrite {
            va,
            key,
            value: [1; 8],
        },
        SendOp::Flush {
            va,
            key,
            length: 8,
            kind: 1,
            level: 0,
        },
        SendOp::LocalInv { key },
        SendOp::RegMr,
        SendOp::BindMw,
    ]
}

#[test]
fn a_new_queue_pair_begins_at_zero() {
    let other = node();
    let mut n = Node::new(*other.send.attr(), *other.recv.attr(), 64, 2);
    assert_eq!((n.send.psn(), n.recv.psn()), (Psn::new(0), Psn::new(0)));
    assert_eq!(n.recv.msn().get(), 0);
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        n.modify(state).expect("in order");
    }
    // Zero is number 2 for the script.
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, T0), [2]);
    assert_eq!(ack(&mut n, T0, 2), Disposition::Done);
    assert_eq!(done(&n), [(0, Success)]);
    post_recv(&mut n, 0, 4);
    let heard = give(&mut n, T0, Opcode::RcSendOnly, 2, Ext::None, &[1]);
    assert_eq!(heard, Disposition::Done);
    assert!(n.recv.ack_may_wait());
}

#[test]
fn the_psn_is_set_while_nothing_is_under_way() {
    let mut n = node();
    let to = START + 100;
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    assert!(!n.send.set_psn(to));
    assert_eq!(n.send.psn(), START + 1);
    assert_eq!(ack(&mut n, T0, 0), Disposition::Done);
    assert!(n.send.set_psn(to));
    assert_eq!(n.send.psn(), to);
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, T0), [100]);
    assert_eq!(ack(&mut n, T0, 100), Disposition::Done);
    assert_eq!(done(&n), [(0, Success), (1, Success)]);
    // Of UC nothing is outstanding, but a message may be half sent.
    let mut n = node_of(QpType::Uc, 0);
    assert!(n.send.set_psn(to));
    post(&mut n, send(), 2 * MTU);
    n.host.room = Some(1);
    assert_eq!(psns(&mut n, T0), [100]);
    assert!(!n.send.set_psn(START));
    n.host.room = None;
    assert_eq!(psns(&mut n, T0), [101]);
    assert!(n.send.set_psn(START));
    // What only waits for its turn is in nobody's way.
    n.host.room = Some(0);
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, T0), []);
    assert!(n.send.set_psn(START + 7));
    n.host.room = None;
    assert_eq!(psns(&mut n, T0), [7]);
}

#[test]
fn attributes_have_bounds_and_count_afresh() {
    let window = |n: Node, window| {
        let n = with_attr(n, |attr| attr.window = window);
        (n.send.attr().window, n.send.window())
    };
    assert_eq!(window(node(), u32::MAX), (1 << 22, 1 << 22));
    assert_eq!(window(node(), 1 << 22), (1 << 22, 1 << 22));
    assert_eq!(window(node(), 0), (1, 1));
    // Another window begins anew, the same goes on.
    let slow = || {
        let mut n = node();
        n.send.on_congestion(T0);
        assert_eq!(n.send.window(), 64);
        n
    };
    assert_eq!(window(slow(), 128), (128, 64));
    assert_eq!(window(slow(), 100), (100, 100));
    // Retries count afresh.
    let mut n = node();
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    for k in 0..8 {
        if k == 2 || k == 5 {
            n = with_attr(n, |_| {});
        }
        assert_eq!(done(&n), []);
        let now = n.send.next_deadline().expect("a deadline");
        n.send.on_timer(now, &mut n.host);
        let _ = poll(&mut n, now);
    }
    let now = n.send.next_deadline().expect("a deadline");
    n.send.on_timer(now, &mut n.host);
    assert_eq!(done(&n), [(0, WcStatus::RetryExc)]);
    let mut n = node();
    post(&mut n, send(), 4);
    let mut now = T0;
    for k in 0..5 {
        if k == 2 || k == 4 {
            n = with_attr(n, |_| {});
        }
        let _ = poll(&mut n, now);
        let _ = rnr(&mut n, now, 0);
        assert_eq!(done(&n), []);
        now = n.send.next_deadline().expect("a wait");
    }
}

#[test]
fn each_transport_does_what_it_can() {
    let local = |op: &SendOp| op.is_local();
    let send = |op: &SendOp| matches!(op, SendOp::Send { .. });
    let write = |op: &SendOp| matches!(op, SendOp::Write { .. });
    for reads in [0, 2] {
        for kind in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi] {
            for op in operations() {
                let mut n = with_attr(node_of(kind, 2), |attr| attr.max_rd_atomic = reads);
                let can = match kind {
                    QpType::Rc => reads != 0 || !op.wants_response(),
                    QpType::Uc => send(&op) || write(&op) || local(&op),
                    QpType::Ud | QpType::Gsi => send(&op),
                };
                let ud = kind.is_datagram().then_some(UdDest {
                    qpn: Qpn(9),
                    qkey: 5,
                });
                post_with(&mut n, op, 8, |w| w.ud = ud);
                let sent = poll(&mut n, T0).len();
                let packets = usize::from(can && !local(&op));
                assert_eq!(sent, packets, "{kind:?} {op:?} {reads}");
                let refused = [(0, WcStatus::LocQpOp)];
                assert_eq!(done(&n) == refused, !can, "{kind:?} {op:?} {reads}");
            }
        }
    }
}

#[test]
fn a_message_has_its_longest_length_and_number_of_packets() {
    for (mtu, length, fits) in [
        (1024, 1 << 31, true),
        (1024, (1 << 31) + 1, false),
        (256, 1 << 31, true),
        (128, 1 << 30, true),
        (128, (1 << 30) + 1, false),
    ] {
        let mut n = with_attr(node(), |attr| attr.mtu = mtu);
        n.host.mtu = None;
        post(&mut n, read(), 0);
        n.host.sq[0].wqe.as_mut().expect("good").length = length;
        assert_eq!(poll(&mut n, T0).len(), usize::from(fits));
        assert_eq!(done(&n) == [(0, WcStatus::LocLen)], !fits);
    }
}

#[test]
fn a_general_services_queue_pair_has_its_own_key() {
    for (kind, qkey) in [(QpType::Ud, 5), (QpType::Gsi, 0x8001_0000)] {
        let mut n = node_of(kind, 0);
        let ud = UdDest {
            qpn: Qpn(9),
            qkey: 5,
        };
        post_with(&mut n, send(), 4, |w| w.ud = Some(ud));
        let out = poll(&mut n, T0);
        assert_eq!(out[0].ext, Ext::Deth(Deth { qkey, src_qpn: 7 }));
    }
}

#[test]
fn the_last_that_is_sure_to_go_asks() {
    // A read, perhaps, a send, and what comes next: whether the send asks.
    type Next = fn(&mut Node);
    let cases: [(&str, usize, Next, bool); 11] = [
        ("nothing", 0, |_| {}, true),
        ("a send", 0, |n| post(n, send(), 4), false),
        ("a long one", 0, |n| post(n, send(), 5 * MTU), false),
        ("a local operation", 0, |n| post(n, SendOp::RegMr, 0), true),
        (
            "an invalidate",
            0,
            |n| post(n, SendOp::LocalInv { key: KEY }, 0),
            true,
        ),
        (
            "one that is too long",
            0,
            |n| {
                post(n, send(), 4);
                let last = n.host.sq.back_mut().expect("one");
                last.wqe.as_mut().expect("good").length = (1 << 31) + 1;
            },
            true,
        ),
        (
            "one that makes no sense",
            0,
            |n| {
                n.host.sq.push_back(PostedSend {
                    wqe: Err((7, WcStatus::LocQpOp)),
                    buf: vec![],
                });
            },
            true,
        ),
        ("a read", 1, |n| post(n, read(), 4), false),
        ("a read too many", 2, |n| post(n, read(), 4), true),
        (
            "a fence",
            1,
            |n| post_with(n, send(), 4, |w| w.flags.fence = true),
            true,
        ),
        (
            "a fence without a reason",
            0,
            |n| post_with(n, send(), 4, |w| w.flags.fence = true),
            false,
        ),
    ];
    for (name, reads, next, asks) in cases {
        let mut n = node();
        for _ in 0..reads {
            post(&mut n, read(), 4);
        }
        post(&mut n, send(), 4);
        next(&mut n);
        let out = poll(&mut n, T0);
        assert_eq!(out[reads].opcode, Opcode::RcSendOnly);
        assert_eq!(out[reads].ack_req, asks, "before {name}");
        assert!(out[..reads].iter().all(|p| p.ack_req));
    }
}

#[test]
fn retransmissions_request_acknowledgements_as_before() {
    let mut n = node();
    for _ in 0..3 {
        post(&mut n, send(), 4);
    }
    assert_eq!(asks(&mut n, T0), [false, false, true]);
    let _ = rnr(&mut n, T0, 0);
    let wait = n.send.next_deadline().expect("a wait");
    // What is posted meanwhile follows at once.
    post(&mut n, send(), 4);
    assert_eq!(asks(&mut n, wait), [false, false, false, true]);
}

#[test]
fn half_of_any_window_asks() {
    for (window, want) in [
        (1, vec![0]),
        (2, vec![0, 1]),
        (3, vec![0, 1, 2]),
        (5, vec![1, 3, 4]),
        (6, vec![2, 5]),
        (9, vec![3, 7, 8]),
    ] {
        let mut n = with_attr(node(), |attr| attr.window = window);
        post(&mut n, send(), 40 * MTU);
        let out = poll(&mut n, T0);
        assert_eq!(out.len() as u32, window);
        let asked: Vec<_> = out.iter().filter(|p| p.ack_req).map(|p| p.psn).collect();
        assert_eq!(asked, want, "{window}");
    }
}

#[test]
fn asking_begins_anew_after_an_error_or_a_reset() {
    let asked = |n: &mut Node| {
        post(n, send(), 8 * MTU);
        asks(n, T0)
    };
    let fresh = || with_attr(node(), |attr| attr.window = 8);
    let want = asked(&mut fresh());
    assert_eq!(want.iter().position(|ask| *ask), Some(3));
    for reset in [false, true] {
        let mut n = fresh();
        post(&mut n, send(), 8 * MTU);
        n.host.room = Some(3);
        assert_eq!(asks(&mut n, T0), [false; 3]);
        n.host.room = None;
        if reset {
            n.modify(QpState::Reset).expect("reset");
            n.ready(START.get(), START.get());
        } else {
            n.send.set_error();
            assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Idle);
            assert!(n.send.enable());
            assert_eq!(n.send.next_deadline(), None);
        }
        assert_eq!(asked(&mut n), want, "{reset}");
    }
}

#[test]
fn a_wait_that_is_over_is_asked_for_no_more() {
    let mut n = node();
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    let _ = rnr(&mut n, T0, 0);
    let wait = n.send.next_deadline().expect("a wait");
    n.send.on_timer(Nanos(wait.0 - 1), &mut n.host);
    assert_eq!(n.send.next_deadline(), Some(wait));
    n.send.on_timer(wait, &mut n.host);
    assert_eq!(n.send.next_deadline(), None);
    assert_eq!(psns(&mut n, wait), [0]);
    // A poll that finds it over does as well as a timer.
    let _ = rnr(&mut n, wait, 0);
    let wait = n.send.next_deadline().expect("a wait");
    n.host.room = Some(0);
    assert_eq!(psns(&mut n, Nanos(wait.0 - 1)), []);
    assert_eq!(n.send.next_deadline(), Some(wait));
    assert_eq!(psns(&mut n, wait), []);
    assert_eq!(n.send.next_deadline(), None);
}

#[test]
fn no_probe_for_packets_that_were_not_sent() {
    let mut n = informed();
    post(&mut n, send(), 10 * MTU);
    let now = ms(5);
    assert_eq!(psns(&mut n, now).len(), 10);
    let now = n.send.next_deadline().expect("a probe");
    n.send.on_timer(now, &mut n.host);
    assert_eq!(psns(&mut n, now), [1]);
    // The peer has that and nothing behind it, so all is to be sent; the wire is full.
    n.host.room = Some(0);
    let now = Nanos(now.0 + 4 * MS);
    let _ = ack(&mut n, now, 1);
    assert_eq!(psns(&mut n, now), []);
    let probe = n.send.next_deadline().expect("a probe");
    n.send.on_timer(probe, &mut n.host);
    // No timer that goes off again and again.
    let deadline = n.send.next_deadline().expect("a deadline");
    assert_eq!(deadline, Nanos(now.0 + 1000 * MS));
    n.send.on_timer(deadline, &mut n.host);
    let later = n.send.next_deadline().expect("another");
    assert!(later > deadline);
    assert!(!n.host.counts.contains(&Counter::Retry));
    n.host.room = None;
    assert_eq!(psns(&mut n, deadline), (2..=10).collect::<Vec<_>>());
}

#[test]
fn a_timeout_makes_probes_wait_longer() {
    let mut n = informed();
    post(&mut n, send(), 2 * MTU);
    assert_eq!(psns(&mut n, ms(5)).len(), 2);
    assert_eq!(n.send.next_deadline(), Some(ms(5 + 12)));
    // As if no timer had gone off for a second.
    for (at, probe) in [(2_000, 24), (4_000, 48), (6_000, 96)] {
        n.send.on_timer(ms(at), &mut n.host);
        assert_eq!(psns(&mut n, ms(at)), [1]);
        assert_eq!(n.send.next_deadline(), Some(ms(at + probe)));
    }
    let retries = n.host.counts.iter().filter(|c| **c == Counter::Retry);
    assert_eq!(retries.count(), 3);
    // An answer makes them short again.
    let _ = ack(&mut n, ms(6_004), 1);
    let _ = poll(&mut n, ms(6_004));
    assert_eq!(n.send.next_deadline(), Some(ms(6_004 + 12)));
}

#[test]
fn one_answer_in_eight_is_timed() {
    let mut n = informed();
    let wait = |n: &mut Node, psn: i32, at: u64| {
        post(n, send(), 4);
        assert_eq!(psns(n, ms(at)), [psn]);
        let wait = n.send.next_deadline().expect("a probe").0 - at * MS;
        let _ = ack(n, ms(at + 10), psn);
        wait
    };
    // Number 2 is 0 of 2^24, and so are those that follow by eights: from the next one on, what
    // they took counts.
    let mut waits = vec![];
    for psn in 1..=20 {
        waits.push(wait(&mut n, psn, 100 * psn as u64));
    }
    let changes: Vec<_> = (1..20).filter(|&k| waits[k] != waits[k - 1]).collect();
    assert_eq!(changes, [2, 10, 18]);
}

#[test]
fn a_whole_retransmission_ignores_early_responses() {
    let mut n = node();
    post(&mut n, read(), 6 * MTU);
    let _ = poll(&mut n, T0);
    let body = [7; MTU as usize];
    for psn in [4, 5, 5] {
        let opcode = Opcode::RcReadRespMiddle;
        let _ = give(&mut n, T0, opcode, psn, Ext::None, &body);
    }
    let _ = n.host.early[0].insert(START + 4, vec![]);
    // Numbers 0 to 3 are asked for.
    assert_eq!(psns(&mut n, T0), [0]);
    // The peer was not ready, so all of it is.
    let _ = rnr(&mut n, T0, 0);
    let wait = n.send.next_deadline().expect("a wait");
    let out = poll(&mut n, wait);
    assert_eq!(brief(&out), [(Opcode::RcReadRequest, 0)]);
    let _ = n.host.early[0].pop();
    let _ = n.host.early[0].insert(START + 5, vec![]);
    for psn in 0..4 {
        let opcode = Opcode::RcReadRespMiddle;
        let _ = give(&mut n, wait, opcode, psn, Ext::None, &body);
        assert_eq!(psns(&mut n, wait), []);
    }
}

#[test]
fn sending_one_again_may_fail_or_have_to_wait() {
    let missing = || {
        let mut n = node();
        post(&mut n, send(), 3 * MTU);
        post(&mut n, send(), 4);
        assert_eq!(psns(&mut n, T0).len(), 4);
        assert_eq!(seq(&mut n, T0, 1), Disposition::Done);
        assert!(n.send.has_unsent() && !n.send.is_idle());
        n
    };
    let mut n = missing();
    n.host.room = Some(0);
    assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Blocked);
    assert!(n.send.has_unsent());
    n.host.room = None;
    assert_eq!(psns(&mut n, T0), [1]);
    assert!(!n.send.has_unsent());
    assert_eq!(psns(&mut n, T0), []);
    // The user's buffer is gone.
    let mut n = missing();
    n.host.slots[0].as_mut().expect("busy").buf.clear();
    assert_eq!(psns(&mut n, T0), []);
    let flushed = (1, WcStatus::WrFlush);
    assert_eq!(done(&n), [(0, WcStatus::LocProt), flushed]);
    assert_eq!(n.state, QpState::Err);
}

#[test]
fn an_early_response_is_due_when_nothing_before_it_is_to_come() {
    let due = |n: &Node| [0, 1, 2, 3, 4].map(|psn| n.send.is_due(START + psn));
    let response = |n: &mut Node, opcode, psn| {
        let ext = aeth(AethSyndrome::ACK);
        let _ = give(n, T0, opcode, psn, ext, &[7; MTU as usize]);
    };
    let (yes, no) = (true, false);
    // Two reads.
    let mut n = node();
    post(&mut n, read(), 2 * MTU);
    post(&mut n, read(), 2 * MTU);
    let _ = poll(&mut n, T0);
    assert_eq!(due(&n), [yes, no, no, no, no]);
    response(&mut n, Opcode::RcReadRespFirst, 0);
    assert_eq!(due(&n), [yes, yes, no, no, no]);
    response(&mut n, Opcode::RcReadRespLast, 1);
    assert_eq!(due(&n), [yes, yes, yes, no, no]);
    // A send, which any answer stands for, and a read behind it.
    let mut n = node();
    post(&mut n, send(), 4);
    post(&mut n, read(), 2 * MTU);
    let _ = poll(&mut n, T0);
    assert_eq!(due(&n), [yes, yes, no, no, no]);
    // Sends alone.
    let mut n = node();
    post(&mut n, send(), 4 * MTU);
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    assert_eq!(due(&n), [yes; 5]);
    // A read that is not begun.
    let mut n = with_attr(node(), |attr| attr.window = 1);
    post(&mut n, send(), 4);
    post(&mut n, read(), 2 * MTU);
    let _ = poll(&mut n, T0);
    assert_eq!(due(&n), [yes; 5]);
    // Nobody wants it any more.
    let mut n = node();
    post(&mut n, read(), 4 * MTU);
    let _ = poll(&mut n, T0);
    assert!(!n.send.is_due(START + 1));
    n.send.set_error();
    assert!(n.send.is_due(START + 1));
    n.send.reset();
    assert!(n.send.is_due(START + 1));
}

#[test]
fn completions_say_what_was_moved() {
    for op in operations() {
        let mut n = node();
        post(&mut n, op, 8);
        let sent = poll(&mut n, T0);
        match sent.first().map(|p| p.opcode) {
            None => assert!(op.is_local()),
            Some(Opcode::RcReadRequest) => {
                let ext = aeth(AethSyndrome::ACK);
                let _ = give(&mut n, T0, Opcode::RcReadRespOnly, 0, ext, &[1; 8]);
            }
            Some(Opcode::RcFetchAdd | Opcode::RcCompareSwap) => {
                let aeth = Aeth {
                    syndrome: AethSyndrome::ACK,
                    msn: Msn::new(0),
                };
                let ext = Ext::AethAtomicAck(aeth, AtomicAckEth { original: 3 });
                let _ = give(&mut n, T0, Opcode::RcAtomicAck, 0, ext, &[]);
            }
            Some(Opcode::RcAtomicWrite | Opcode::RcFlush) => {
                let ext = aeth(AethSyndrome::ACK);
                let _ = give(&mut n, T0, Opcode::RcReadRespOnly, 0, ext, &[]);
            }
            Some(_) => {
                let _ = ack(&mut n, T0, 0);
            }
        }
        let want = SendCompletion {
            wr_id: 0,
            status: Success,
            opcode: op.wc_opcode(),
            byte_len: 8,
            with_imm: op.has_imm(),
        };
        assert_eq!(n.host.send_cq, [want], "{op:?}");
        let sends = matches!(op, SendOp::Send { .. } | SendOp::SendInv { .. });
        let counts: &[Counter] = if sends { &[Counter::Send] } else { &[] };
        assert_eq!(n.host.counts, counts, "{op:?}");
        assert!(!n.send.is_busy());
    }
    // Of what made no sense there is a name only.
    let mut n = node();
    n.host.sq.push_back(PostedSend {
        wqe: Err((7, WcStatus::LocQpOp)),
        buf: vec![],
    });
    let _ = poll(&mut n, T0);
    let want = SendCompletion {
        wr_id: 7,
        status: WcStatus::LocQpOp,
        opcode: WcOpcode::Send,
        byte_len: 0,
        with_imm: false,
    };
    assert_eq!(n.host.send_cq, [want]);
}

#[test]
fn flushing_keeps_to_its_budget_and_tells_all() {
    let mut n = node();
    for _ in 0..4 {
        post_with(&mut n, send(), 4, |w| w.flags.signaled = false);
    }
    n.host.room = Some(1);
    assert_eq!(psns(&mut n, T0), [0]);
    n.host.sq.push_back(PostedSend {
        wqe: Err((4, WcStatus::LocQpOp)),
        buf: vec![],
    });
    n.send.set_error();
    for (budget, flushed, progress) in [
        (0, 0, Progress::More),
        (1, 1, Progress::More),
        (2, 3, Progress::More),
        (2, 5, Progress::More),
        (1, 5, Progress::Idle),
    ] {
        assert_eq!(n.send.poll(T0, &mut n.host, budget), progress);
        assert_eq!(done(&n).len(), flushed, "{budget}");
    }
    let want: Vec<_> = (0..5).map(|k| (k, WcStatus::WrFlush)).collect();
    assert_eq!(done(&n), want);
    assert_eq!(n.host.events, []);
}

#[test]
fn events_are_counted() {
    let mut n = node();
    let counted = |n: &mut Node| std::mem::take(&mut n.host.counts);
    for _ in 0..4 {
        post(&mut n, send(), 4);
    }
    let _ = poll(&mut n, T0);
    // A NAK counts even if it is no news; sending again does when it is done.
    let _ = seq(&mut n, T0, 0);
    let _ = seq(&mut n, T0, 0);
    assert_eq!(
        counted(&mut n),
        [
            Counter::SequenceNakReceived,
            Counter::Retry,
            Counter::SequenceNakReceived
        ]
    );
    let _ = poll(&mut n, T0);
    let mut now = T0;
    for _ in 0..2 {
        let _ = rnr(&mut n, now, 0);
        assert_eq!(counted(&mut n), [Counter::RnrReceived]);
        // Once more, for the same packet, is no news.
        let _ = rnr(&mut n, now, 0);
        assert_eq!(counted(&mut n), []);
        now = n.send.next_deadline().expect("a wait");
        let _ = poll(&mut n, now);
    }
    let _ = rnr(&mut n, now, 1);
    assert_eq!(counted(&mut n), [Counter::Send, Counter::RnrReceived]);
    now = n.send.next_deadline().expect("a wait");
    let _ = poll(&mut n, now);
    let _ = rnr(&mut n, now, 1);
    now = n.send.next_deadline().expect("a wait");
    let _ = poll(&mut n, now);
    let _ = counted(&mut n);
    let _ = rnr(&mut n, now, 1);
    assert_eq!(
        counted(&mut n),
        [Counter::RnrReceived, Counter::RnrRetryExceeded]
    );
    assert_eq!(n.send.next_deadline(), None);

    let mut n = node();
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    for k in 0..4 {
        let now = n.send.next_deadline().expect("a deadline");
        n.send.on_timer(now, &mut n.host);
        let want = if k < 3 {
            Counter::Retry
        } else {
            Counter::RetryExceeded
        };
        assert_eq!(counted(&mut n), [want]);
        let _ = poll(&mut n, now);
    }
    let _ = give(&mut n, T0, Opcode::Cnp, 0, Ext::Cnp, &[]);
    assert_eq!(counted(&mut n), [Counter::NoticeReceived]);
    n.send.on_mark(T0, &mut n.host);
    assert_eq!(counted(&mut n), [Counter::Marked]);
}

#[test]
fn responses_in_other_states_are_dropped() {
    let state = Disposition::Dropped(DropCause::State);
    let opcode = Disposition::Dropped(DropCause::Opcode);
    let mut n = node();
    n.send.set_error();
    assert_eq!(ack(&mut n, T0, 0), state);
    n.send.reset();
    assert_eq!(ack(&mut n, T0, 0), state);
    let mut n = node_of(QpType::Uc, 0);
    assert_eq!(ack(&mut n, T0, 0), opcode);
    let notice = give(&mut n, T0, Opcode::Cnp, 0, Ext::Cnp, &[]);
    assert_eq!(notice, opcode);
    assert_eq!(n.host.counts, []);
    assert_eq!(n.send.window(), 128);
    // Nor does it speak.
    let mut n = node();
    n.modify(QpState::Reset).expect("reset");
    n.send.on_mark(T0, &mut n.host);
    n.recv.on_mark(T0, &mut n.host);
    assert_eq!(poll(&mut n, T0), []);
    assert_eq!(n.host.counts, [Counter::Marked; 2]);
}

#[test]
fn a_drain_requests_only_missing_acknowledgements() {
    // All was asked for.
    let mut n = node();
    post(&mut n, send(), 3 * MTU);
    assert_eq!(asks(&mut n, T0), [false, false, true]);
    n.modify(QpState::Sqd).expect("a drain");
    assert_eq!(psns(&mut n, T0), []);
    // Of these nothing was.
    let mut n = node();
    post(&mut n, send(), 3 * MTU);
    n.host.room = Some(2);
    assert_eq!(asks(&mut n, T0), [false, false]);
    n.host.room = None;
    n.modify(QpState::Sqd).expect("a drain");
    assert_eq!(psns(&mut n, T0), [0, 1, 2]);
    let _ = ack(&mut n, T0, 2);
    assert_eq!(n.host.events, [QpEvent::SqDrained]);
    assert!(!n.send.is_draining());
}

#[test]
fn a_read_that_just_fits_needs_no_answer_before_it() {
    for (length, asks) in [((1 << 31) - MTU, false), ((1 << 31) - MTU + 1, true)] {
        let mut n = node();
        post(&mut n, send(), 4);
        post(&mut n, read(), 0);
        n.host.sq[1].wqe.as_mut().expect("good").length = length;
        let out = poll(&mut n, T0);
        assert_eq!((out[0].ack_req, out.len()), (asks, 2 - usize::from(asks)));
    }
}

#[test]
fn a_timeout_that_is_set_while_a_transfer_waits_holds_for_what_is_sent_again() {
    let mut n = with_attr(node(), |attr| attr.timeout = None);
    post(&mut n, send(), 3 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 3);
    assert_eq!(seq(&mut n, T0, 1), Disposition::Done);
    assert_eq!(n.send.next_deadline(), None);
    let mut n = with_attr(n, |attr| attr.timeout = Some(ms(1)));
    assert_eq!(psns(&mut n, ms(5)), [1]);
    assert_eq!(n.send.next_deadline(), Some(ms(6)));
}
