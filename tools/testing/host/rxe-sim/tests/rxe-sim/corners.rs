// SPDX-License-Identifier: GPL-2.0

//! What is forgotten when a queue pair changes its mind: a refusal that was not sent yet, a
//! packet sent again before all was, the store of answers. And the numbers that tune.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::cork::Cork;
use rxe_sim::proto::delayed_ack::DelayedAck;
use rxe_sim::proto::early::REACH;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
const MS: u64 = 1_000_000;
const ACK: AethSyndrome = AethSyndrome::ACK;

fn psns(n: &mut Node, now: Nanos) -> Vec<i32> {
    poll(n, now).iter().map(|p| p.psn).collect()
}

fn only(n: &mut Node, psn: i32) -> Disposition {
    give(n, T0, Opcode::RcSendOnly, psn, Ext::None, &[1])
}

#[test]
fn not_being_ready_is_not_told_when_it_is_over() {
    // The refusal waits for room on the wire; meanwhile there is a receive request.
    for came_between in [false, true] {
        let mut n = node();
        n.host.room = Some(0);
        assert_eq!(only(&mut n, 0), Disposition::Done);
        assert_eq!(poll(&mut n, T0), []);
        if came_between {
            let _ = only(&mut n, 1);
        }
        post_recv(&mut n, 0, 9);
        assert_eq!(only(&mut n, 0), Disposition::Done);
        assert_eq!(received(&n).len(), 1);
        n.host.room = None;
        let want = if came_between {
            (1, AethSyndrome::Nak(NakCode::PsnSequence))
        } else {
            (0, ACK)
        };
        assert_eq!(syndromes(&poll(&mut n, T0)), [want]);
    }
}

#[test]
fn another_store_of_answers_is_empty_and_all_of_it_is_used() {
    let atomic = Ext::AtomicEth(AtomicEth {
        va: BASE,
        rkey: KEY.0,
        swap_or_add: 1,
        compare: 0,
    });
    for (before, after) in [(3, 1), (1, 3), (2, 2), (3, 0)] {
        for asked in 0..5 {
            let mut n = node_of(QpType::Rc, before);
            for psn in 0..asked {
                let _ = give(&mut n, T0, Opcode::RcFetchAdd, psn, atomic, &[]);
                assert_eq!(poll(&mut n, T0).len(), 1);
            }
            // One more that has no time to be answered.
            n.host.room = Some(0);
            let _ = give(&mut n, T0, Opcode::RcFetchAdd, asked, atomic, &[]);
            assert!(n.recv.owes());
            drop(n.recv.set_resources(vec![Resource::EMPTY; after]));
            assert!(!n.recv.owes());
            n.host.room = None;
            assert_eq!(poll(&mut n, T0), []);
            // Nothing from before is repeated.
            for psn in 0..=asked {
                let _ = give(&mut n, T0, Opcode::RcFetchAdd, psn, atomic, &[]);
                assert_eq!(poll(&mut n, T0), []);
            }
            // As many as there is room for may be under way at a time.
            n.host.room = Some(0);
            for k in 0..after as i32 {
                let psn = asked + 1 + k;
                let _ = give(&mut n, T0, Opcode::RcFetchAdd, psn, atomic, &[]);
                assert_eq!(n.recv.psn().distance(START), psn + 1, "{before} {after}");
            }
            let run = n.host.atomics_run;
            let beyond = asked + 1 + after as i32;
            let _ = give(&mut n, T0, Opcode::RcFetchAdd, beyond, atomic, &[]);
            assert_eq!(n.host.atomics_run, run);
            n.host.room = None;
            let out = poll(&mut n, T0);
            let first: Vec<_> = out.iter().map(|p| p.psn).collect();
            let want: Vec<_> = (asked + 1..=beyond).collect();
            assert_eq!(first, want);
        }
    }
}

#[test]
fn a_reset_uses_the_only_place_again() {
    let mut n = node_of(QpType::Rc, 1);
    for _ in 0..3 {
        let reth = Reth {
            va: BASE,
            rkey: KEY.0,
            length: 4,
        };
        let ext = Ext::Reth(reth);
        let done = give(&mut n, T0, Opcode::RcReadRequest, 0, ext, &[]);
        assert_eq!(done, Disposition::Done);
        assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcReadRespOnly, 0)]);
        n.modify(QpState::Reset).expect("reset");
        n.ready(START.get(), START.get());
    }
}

/// A node that knows that a round trip takes 4 ms; its next PSN is number 1.
fn informed() -> Node {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = Some(Nanos(1000 * MS));
    n.send.set_attr(attr);
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    let _ = ack(&mut n, Nanos(4 * MS), 0);
    n
}

#[test]
fn silence_after_all_was_sent_again_is_no_doubt() {
    let mut n = informed();
    post(&mut n, send(), 10 * MTU);
    assert_eq!(psns(&mut n, Nanos(5 * MS)).len(), 10);
    let _ = nak(&mut n, Nanos(9 * MS), 2, NakCode::PsnSequence);
    assert_eq!(psns(&mut n, Nanos(9 * MS)), [2]);
    // The peer has that, and nothing behind it: the first doubt. All is sent again.
    let now = Nanos(14 * MS);
    let _ = ack(&mut n, now, 2);
    assert_eq!(psns(&mut n, now), (3..=10).collect::<Vec<_>>());
    // That all of it is lost tells nothing of what the peer keeps.
    let now = n.send.next_deadline().expect("a probe");
    n.send.on_timer(now, &mut n.host);
    assert_eq!(psns(&mut n, now), [3]);
}

#[test]
fn a_nak_of_the_very_next_packet_is_a_doubt_too() {
    let mut n = informed();
    post(&mut n, send(), 10 * MTU);
    assert_eq!(psns(&mut n, Nanos(5 * MS)).len(), 10);
    let mut now = Nanos(9 * MS);
    for psn in [2, 3] {
        let _ = nak(&mut n, now, psn, NakCode::PsnSequence);
        assert_eq!(psns(&mut n, now), [psn]);
        now = Nanos(now.0 + 5 * MS);
    }
    // Twice the peer had nothing behind it.
    let _ = nak(&mut n, now, 4, NakCode::PsnSequence);
    assert_eq!(psns(&mut n, now), (4..=10).collect::<Vec<_>>());
}

#[test]
fn local_retransmissions_are_not_attempts() {
    let mut n = node();
    let seq = |n: &mut Node, psn| {
        let _ = nak(n, Nanos(1000), psn, NakCode::PsnSequence);
        psns(n, Nanos(1000))
    };
    post(&mut n, send(), 40 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 40);
    for psn in [1, 3] {
        assert_eq!(seq(&mut n, psn), [psn]);
        let _ = ack(&mut n, Nanos(2000), psn);
        assert_eq!(psns(&mut n, Nanos(2000)).len() as i32, 39 - psn);
    }
    // Something early that nobody asks about: all that is sent are messages.
    let kept = n.host.early[0].insert(START + 39, vec![]);
    assert_eq!(kept, Ok(()));
    for psn in 5..13 {
        assert_eq!(seq(&mut n, psn).len() as i32, 40 - psn, "{psn}");
    }
    assert_eq!(seq(&mut n, 13), [13]);
}

#[test]
fn a_new_user_has_no_past() {
    // No run of requests came before, so what is later than the bound counts from zero.
    for (reply, prompt) in [(100_000, true), (100_001, false)] {
        let mut acks = DelayedAck::new();
        let mut now = 0;
        let _: bool = acks.answered(Nanos(now), Nanos(reply));
        let rest = (1..)
            .find(|_| {
                now += 10;
                acks.answered(Nanos(now), Nanos(now))
            })
            .expect("at some time");
        assert_eq!(rest, if prompt { 7 } else { 8 });
    }
    assert!(!DelayedAck::new().holds() && !Cork::new().holds());
    assert_eq!(DelayedAck::default(), DelayedAck::new());
    assert_eq!(Cork::default(), Cork::new());
}

/// How many prompt replies it takes until one is expected.
fn patience(acks: &mut DelayedAck, now: &mut u64) -> u32 {
    (1..)
        .find(|_| {
            *now += 10;
            acks.answered(Nanos(*now), Nanos(*now - 5))
        })
        .expect("at some time")
}

#[test]
fn a_failed_pattern_starts_from_zero() {
    let mut acks = DelayedAck::new();
    let mut now = 0;
    assert_eq!(patience(&mut acks, &mut now), DelayedAck::PATTERN);
    // A run without a reply. The clock is so young that the next reply is prompt all the same.
    acks.unanswered();
    assert_eq!(patience(&mut acks, &mut now), DelayedAck::PATTERN);
    // A reply in time that was heard of too late.
    let span = acks.hold();
    assert_eq!(acks.look(Nanos(now + span.0)), delayed_ack::Look::Late);
    acks.sent();
    assert_eq!(patience(&mut acks, &mut now), 2 * DelayedAck::PATTERN);
}

#[test]
fn numbers_that_tune() {
    // Other tests take these by name; what they are was measured.
    let acks = (DelayedAck::PATTERN, DelayedAck::MOST, DelayedAck::LONG);
    assert_eq!(acks, (8, 4096, 64));
    assert_eq!(DelayedAck::BOUND, Nanos(100_000));
    let spans = (Cork::CLOSE, Cork::HOLD, Cork::LEAST);
    assert_eq!(spans, (Nanos(5_000), Nanos(40_000), Nanos(5_000)));
    assert_eq!((Cork::FREE, Cork::COUNT, Cork::BYTES), (4, 16, 65_536));
    assert_eq!(REACH, 16_384);
    let windows = (send::DEFAULT_WINDOW, send::MAX_WINDOW, recv::GRH_LEN);
    assert_eq!(windows, (128, 4096, 40));
    for depth in 0..=255u8 {
        let want = (0..8).map(|k| 1u8 << k).find(|power| *power >= depth);
        let want = if depth == 0 { Some(0) } else { want };
        assert_eq!(rounded_depth(depth), want.unwrap_or(255));
    }
}

#[test]
fn payloads_and_destinations_say_what_they_are() {
    let (slot, offset, key, va) = (3, 5, Key(4), 6);
    for (payload, len) in [
        (Payload::None, 0),
        (Payload::Bytes([0; 8]), 8),
        (
            Payload::Slot {
                slot,
                offset,
                len: 7,
            },
            7,
        ),
        (Payload::Remote { key, va, len: 9 }, 9),
        (Payload::Remote { key, va, len: 1 }, 1),
        (Payload::Remote { key, va, len: 0 }, 0),
    ] {
        assert_eq!((payload.len(), payload.is_empty()), (len, len == 0));
    }
    for dest in [
        Dest::Peer(Qpn(9)),
        Dest::Datagram {
            slot: 3,
            qpn: Qpn(9),
        },
    ] {
        assert_eq!(dest.qpn(), Qpn(9));
    }
    for code in [7, 8, 255, 256, u32::MAX] {
        assert_eq!(QpState::from_code(code), None);
    }
}
