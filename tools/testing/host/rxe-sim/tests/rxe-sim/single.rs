// SPDX-License-Identifier: GPL-2.0

//! The oldest packet sent again by itself: when that is tried, how often, and what its answers
//! teach.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;

const T0: Nanos = Nanos(0);
const MS: u64 = 1_000_000;

fn ms(n: u64) -> Nanos {
    Nanos(n * MS)
}

/// A node whose timeout is so long that probes come long before.
fn patient() -> Node {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = Some(ms(1000));
    n.send.set_attr(attr);
    n
}

/// One that knows that a round trip takes 4 ms; its next PSN is number 1.
fn informed() -> Node {
    let mut n = patient();
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, T0), [0]);
    let _ = ack(&mut n, ms(4), 0);
    n
}

fn psns(n: &mut Node, now: Nanos) -> Vec<i32> {
    poll(n, now).iter().map(|p| p.psn).collect()
}

/// Nobody answers until the next deadline; what is sent then, and when.
fn silence(n: &mut Node) -> (Vec<i32>, Nanos) {
    let now = n.send.next_deadline().expect("a deadline");
    n.send.on_timer(now, &mut n.host);
    (psns(n, now), now)
}

#[test]
fn the_answer_to_a_packet_sent_again_is_better_than_no_idea() {
    let mut n = patient();
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, T0), [0]);
    // An eighth of the timeout, as long as nothing is known.
    assert_eq!(n.send.next_deadline(), Some(ms(125)));
    let _ = nak(&mut n, ms(1), 0, rxe_sim::wire::NakCode::PsnSequence);
    assert_eq!(psns(&mut n, ms(1)), [0]);
    let _ = ack(&mut n, ms(5), 0);
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, ms(6)), [1]);
    // Three times the 4 ms.
    assert_eq!(n.send.next_deadline(), Some(ms(6 + 12)));
}

#[test]
fn gaps_are_filled_one_by_one_twice_and_then_all_is_sent_again() {
    let mut n = informed();
    post(&mut n, send(), 10 * MTU);
    assert_eq!(psns(&mut n, ms(5)).len(), 10);
    // Each time the answer tells that the next but one is missing too.
    for oldest in [1, 3] {
        let (sent, now) = silence(&mut n);
        assert_eq!(sent, [oldest]);
        let now = Nanos(now.0 + 4 * MS);
        let _ = ack(&mut n, now, oldest + 1);
        assert_eq!(psns(&mut n, now), [oldest + 2]);
    }
    let (sent, now) = silence(&mut n);
    assert_eq!(sent, [5]);
    let now = Nanos(now.0 + 4 * MS);
    let _ = ack(&mut n, now, 6);
    assert_eq!(psns(&mut n, now), [7, 8, 9, 10]);
    // After that, gaps are counted afresh.
    let (sent, now) = silence(&mut n);
    assert_eq!(sent, [7]);
    let now = Nanos(now.0 + 4 * MS);
    let _ = ack(&mut n, now, 8);
    assert_eq!(psns(&mut n, now), [9]);
}

#[test]
fn a_peer_that_keeps_nothing_is_tried_again_after_eight_times() {
    let mut n = node();
    let nak = |n: &mut Node, psn| {
        let _ = nak(n, Nanos(1000), psn, rxe_sim::wire::NakCode::PsnSequence);
        psns(n, Nanos(1000))
    };
    post(&mut n, send(), 40 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 40);
    for psn in [1, 3] {
        assert_eq!(nak(&mut n, psn), [psn]);
        // It has that, and nothing behind it.
        let _ = ack(&mut n, Nanos(2000), psn);
        let rest: Vec<i32> = (psn + 1..40).collect();
        assert_eq!(psns(&mut n, Nanos(2000)), rest);
    }
    for psn in 5..13 {
        assert_eq!(nak(&mut n, psn), (psn..40).collect::<Vec<_>>());
    }
    assert_eq!(nak(&mut n, 13), [13]);
}

#[test]
fn a_second_answer_tells_the_round_trip_and_waiting_begins_anew() {
    let mut n = patient();
    post(&mut n, send(), 3 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 3);
    assert_eq!(silence(&mut n), (vec![0], ms(125)));
    // Two had only been late.
    let _ = ack(&mut n, ms(130), 1);
    assert_eq!(psns(&mut n, ms(130)), []);
    let twice = ack(&mut n, ms(140), 1);
    assert_eq!(twice, Disposition::Dropped(DropCause::Duplicate));
    // 15 ms, and four times its half.
    assert_eq!(n.send.next_deadline(), Some(ms(140 + 45)));
}

#[test]
fn a_timeout_is_a_probe_too() {
    // Nothing is known, and the timeout is shorter than any wait for a probe.
    let mut n = node();
    post(&mut n, send(), 3 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 3);
    assert_eq!(silence(&mut n), (vec![0], ms(1)));
    let _ = ack(&mut n, Nanos(1_100_000), 1);
    let _ = ack(&mut n, ms(3), 1);
    // A round trip of 2 ms, by the second answer: four timeouts are the most.
    assert_eq!(n.send.next_deadline(), Some(ms(3 + 4)));
}

#[test]
fn round_trips_are_smoothed() {
    let mut n = informed();
    // The answer to every eighth PSN is timed: number 2 is 0 of 2^24.
    for (psn, at, trip) in [(1, 10, 1), (2, 20, 12)] {
        post(&mut n, send(), 4);
        assert_eq!(psns(&mut n, ms(at)), [psn]);
        let _ = ack(&mut n, ms(at + trip), psn);
    }
    post(&mut n, send(), 4);
    assert_eq!(psns(&mut n, ms(40)), [3]);
    // RFC 6298: of 4 and 12 ms, 7/8 and 1/8; the deviation is 3/4 of 2 and 1/4 of 8.
    assert_eq!(n.send.next_deadline(), Some(ms(40 + 5 + 14)));
}

#[test]
fn a_second_answer_to_something_older_tells_nothing() {
    let mut n = informed();
    post(&mut n, send(), 3 * MTU);
    assert_eq!(psns(&mut n, ms(5)).len(), 3);
    assert_eq!(silence(&mut n), (vec![1], ms(17)));
    let wait = n.send.next_deadline();
    for psn in [0, -1] {
        let _ = ack(&mut n, ms(20), psn);
        assert_eq!(n.send.next_deadline(), wait);
    }
    // Nor does any, when what was sent after the probe is answered.
    post(&mut n, send(), MTU);
    assert_eq!(psns(&mut n, ms(21)), [4]);
    let _ = ack(&mut n, ms(22), 4);
    post(&mut n, send(), MTU);
    assert_eq!(psns(&mut n, ms(23)), [5]);
    let wait = n.send.next_deadline();
    let _ = ack(&mut n, ms(24), 4);
    assert_eq!(n.send.next_deadline(), wait);
}

#[test]
fn a_peer_that_keeps_something_is_trusted_again() {
    let mut n = node();
    let seq = |n: &mut Node, psn| {
        let _ = nak(n, Nanos(1000), psn, rxe_sim::wire::NakCode::PsnSequence);
        psns(n, Nanos(1000))
    };
    let rest = |from: i32| (from..40).collect::<Vec<_>>();
    post(&mut n, send(), 40 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 40);
    assert_eq!(seq(&mut n, 1), [1]);
    let _ = ack(&mut n, Nanos(2000), 1);
    assert_eq!(psns(&mut n, Nanos(2000)), rest(2));
    // Once it kept what came behind.
    assert_eq!(seq(&mut n, 3), [3]);
    let _ = ack(&mut n, Nanos(2000), 10);
    assert_eq!(psns(&mut n, Nanos(2000)), []);
    // So it takes two more times.
    for psn in [12, 14] {
        assert_eq!(seq(&mut n, psn), [psn]);
        let _ = ack(&mut n, Nanos(2000), psn);
        assert_eq!(psns(&mut n, Nanos(2000)), rest(psn + 1));
    }
    assert_eq!(seq(&mut n, 16), rest(16));
}

#[test]
fn consecutive_losses_mean_a_peer_without_early_packets() {
    let mut n = node();
    post(&mut n, send(), 10 * MTU);
    assert_eq!(psns(&mut n, T0).len(), 10);
    // Each time it has what was sent again, and says that the next one is missing.
    for (psn, again) in [(1, vec![1]), (2, vec![2]), (3, (3..10).collect())] {
        let _ = nak(
            &mut n,
            Nanos(1000),
            psn,
            rxe_sim::wire::NakCode::PsnSequence,
        );
        assert_eq!(psns(&mut n, Nanos(1000)), again);
    }
}

#[test]
fn responses_one_by_one_say_nothing_of_what_is_kept() {
    use rxe_sim::wire::{AethSyndrome, Ext, Opcode};
    let mut n = node();
    let body = [7; MTU as usize];
    post(&mut n, read(), 12 * MTU);
    assert_eq!(psns(&mut n, T0), [0]);
    let middle = |n: &mut Node, psn| give(n, T0, Opcode::RcReadRespMiddle, psn, Ext::None, &body);
    // Of three gaps, each is asked for by itself.
    for gap in [0, 4, 8] {
        for psn in [1, 2, 3] {
            assert_eq!(middle(&mut n, gap + psn), Disposition::Early);
            let _ = n.host.early[0].insert(START + (gap + psn) as u32, vec![]);
        }
        let out = poll(&mut n, T0);
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].psn, gap);
        let Ext::Reth(reth) = out[0].ext else {
            panic!("{out:?}")
        };
        assert_eq!(reth.length, MTU, "only what is missing");
        while n.host.early[0].pop().is_some() {}
        for psn in gap..gap + 4 {
            let last = (psn == 11).then_some(Opcode::RcReadRespLast);
            let opcode = last.unwrap_or(Opcode::RcReadRespMiddle);
            let ext = if psn == 11 {
                aeth(AethSyndrome::ACK)
            } else {
                Ext::None
            };
            let done = give(&mut n, T0, opcode, psn, ext, &body);
            assert_eq!(done, Disposition::Done);
        }
        assert_eq!(psns(&mut n, T0), []);
    }
    assert_eq!(done(&n), [(0, WcStatus::Success)]);
}
