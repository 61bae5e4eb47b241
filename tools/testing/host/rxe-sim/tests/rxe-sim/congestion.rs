// SPDX-License-Identifier: GPL-2.0

//! What the send side makes of marks and notices of congestion, rule by rule.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);

#[test]
fn a_notice_makes_the_window_smaller() {
    let mut n = node();
    post(&mut n, send(), 300 * MTU);
    assert_eq!(poll(&mut n, T0).len(), 128);
    let heard = give(&mut n, Nanos(1000), Opcode::Cnp, 77, Ext::Cnp, &[]);
    assert_eq!(heard, Disposition::Done);
    assert_eq!(n.send.window(), 64);
    // Another one in the same round trip is no news.
    let _ = give(&mut n, Nanos(2000), Opcode::Cnp, 0, Ext::Cnp, &[]);
    assert_eq!(n.send.window(), 64);
    // Nothing more is sent until so much is outstanding.
    let _ = ack(&mut n, Nanos(3000), 9);
    assert_eq!(poll(&mut n, T0), []);
    let _ = ack(&mut n, Nanos(4000), 99);
    assert!(!poll(&mut n, T0).is_empty());
    assert!(n.host.counts.contains(&Counter::NoticeReceived));
    // It is no answer.
    assert_eq!(done(&n), []);
}

#[test]
fn a_marked_response_is_told_and_heeded() {
    let mut n = node();
    post(&mut n, read(), MTU);
    let _ = poll(&mut n, T0);
    n.send.on_mark(Nanos(1000), &mut n.host);
    assert_eq!(n.send.window(), 64);
    let out = poll(&mut n, Nanos(1000));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].opcode, Opcode::Cnp);
    assert_eq!(n.host.counts, [Counter::Marked, Counter::NoticeSent]);
}

#[test]
fn a_loss_does_not_widen_a_window_that_marks_made_small() {
    let mut n = node();
    for k in 0..100 {
        n.send.on_congestion(Nanos(k * 100_000));
    }
    let small = n.send.window();
    assert!(small < 10, "{small}");
    post(&mut n, send(), 4 * MTU);
    let at = Nanos(1_000_000_000);
    let _ = poll(&mut n, at);
    let _ = nak(&mut n, at, 0, NakCode::PsnSequence);
    assert!(n.send.window() <= small);
}

#[test]
fn a_cut_is_a_share_that_grows_with_marks_and_falls_without() {
    let mut n = node();
    assert_eq!(n.send.window(), 128);
    // The share is of 1024. A mark adds a sixteenth of all after taking one of it, and cuts
    // half the share; each 50 us without one takes a sixteenth. By hand:
    for (at, window) in [
        (1_000, 64),   // 1024: 64 of 128
        (50_999, 64),  // the effect of that one is not seen yet
        (151_000, 36), // three periods, two of them quiet: 960, 900, and 908: 28 of 64
        (200_999, 36),
        (201_000, 20),    // 916: 16 of 36
        (1_201_000, 17),  // twenty periods, nineteen quiet, then 320: 3 of 20
        (51_201_000, 16), // a long time: 15, then 79: one at least
    ] {
        n.send.on_congestion(Nanos(at));
        assert_eq!(n.send.window(), window, "{at}");
    }
    for k in 0..200 {
        n.send.on_congestion(Nanos(60_000_000 + k * 50_000));
    }
    assert_eq!(n.send.window(), 2);
}

#[test]
fn one_loss_in_a_round_trip_halves_the_window_down_to_its_least() {
    let mut n = node();
    post(&mut n, send(), 300 * MTU);
    let mut now = 1_000_000_000;
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let _ = poll(&mut n, Nanos(now));
        // Silence: the timeout counts it as lost.
        now += 100_000_000;
        n.send.on_timer(Nanos(now), &mut n.host);
        sizes.push(n.send.window());
    }
    assert_eq!(sizes[..3], [64, 32, 32]);
}

#[test]
fn notices_have_a_distance() {
    let mut n = node();
    let mut sent = |at| {
        n.send.on_mark(Nanos(at), &mut n.host);
        poll(&mut n, Nanos(at)).len()
    };
    assert_eq!(
        [0, 1, 49_999, 50_000, 99_999, 100_000].map(&mut sent),
        [1, 0, 0, 1, 0, 1]
    );
}

#[test]
fn fresh_attributes() {
    let attr = SendAttr::new(QpType::Rc, Qpn(7));
    assert_eq!(
        (attr.kind, attr.qpn, attr.dest),
        (QpType::Rc, Qpn(7), Qpn(0))
    );
    assert_eq!(
        (attr.mtu, attr.timeout, attr.max_rd_atomic),
        (1024, None, 0)
    );
    assert_eq!(attr.retry, RetryLimit::Limited(0));
    assert_eq!(attr.rnr_retry, RetryLimit::Limited(0));
    assert_eq!(attr.window, 128);
    let attr = RecvAttr::new(QpType::Ud);
    assert_eq!((attr.kind, attr.dest, attr.mtu), (QpType::Ud, Qpn(0), 1024));
    assert_eq!((attr.access, attr.qkey), (AccessFlags::NONE, 0));
    assert_eq!(attr.rnr_timer, RnrTimer::new(0));
    // An MTU of nothing is one of a byte.
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.mtu = 0;
    attr.window = 0;
    n.send.set_attr(attr);
    assert_eq!((n.send.attr().mtu, n.send.attr().window), (1, 1));
}

#[test]
fn a_timeout_is_twice_the_longest_round_trip_within_bounds() {
    // The shortest wait is the timeout that was set, the longest four times that.
    for (trip, wait) in [(100_000, 1_000_000), (300_000, 1_800_000)] {
        let mut n = node();
        post(&mut n, send(), 4);
        let _ = poll(&mut n, Nanos(0));
        let _ = ack(&mut n, Nanos(trip), 0);
        post(&mut n, send(), 4);
        let _ = poll(&mut n, Nanos(10_000_000));
        let deadline = n.send.next_deadline();
        assert_eq!(deadline, Some(Nanos(10_000_000 + wait)), "{trip}");
    }
}

/// Sends what the window lets, has all of it answered after so long, and answers the window.
fn round(n: &mut Node, now: &mut u64, trip: u64) -> u32 {
    assert!(!poll(n, Nanos(*now)).is_empty());
    *now += trip;
    let last = n.send.psn().distance(START) - 1;
    let _ = ack(n, Nanos(*now), last);
    n.send.window()
}

#[test]
fn the_window_follows_the_round_trips() {
    const TRIP: u64 = 1_000_000;
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = None;
    attr.window = 8;
    n.send.set_attr(attr);
    n.modify(QpState::Reset).expect("reset");
    // So that the last packet of a window of eights is one whose answer is timed.
    n.ready(1, 1);
    post(&mut n, send(), 1000 * MTU);
    let mut now = TRIP;
    // It doubles once a round trip is known, as long as nothing was lost.
    for window in [8, 16, 32, 64] {
        assert_eq!(round(&mut n, &mut now, TRIP), window);
    }
    // A loss takes half of it, and from there on a round trip brings eight.
    assert_eq!(poll(&mut n, Nanos(now)).len(), 64);
    let oldest = n.send.psn().distance(START) - 64;
    let _ = nak(&mut n, Nanos(now), oldest, NakCode::PsnSequence);
    assert_eq!(n.send.window(), 32);
    for window in [40, 48, 56, 64, 72] {
        assert_eq!(round(&mut n, &mut now, TRIP), window);
    }
    // More than four times the shortest: a sixteenth less; between twice and that: as it is.
    // What came last counts from the next answer on.
    // Just four times is not more, and just twice is as good as once.
    for (trip, window) in [
        (5, 80),
        (5, 75),
        (3, 71),
        (3, 71),
        (4, 71),
        (4, 71),
        (2, 71),
        (2, 79),
    ] {
        assert_eq!(round(&mut n, &mut now, trip * TRIP), window);
    }
}

#[test]
fn a_share_is_of_1024_parts() {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.window = 4096;
    n.send.set_attr(attr);
    // As with small windows, but nothing is lost in rounding: 1024, and then 908.
    for (at, window) in [(1_000, 2048), (151_000, 2048 - 908)] {
        n.send.on_congestion(Nanos(at));
        assert_eq!(n.send.window(), window, "{at}");
    }
}

/// A node that knows that a round trip takes 4 ms, and lost a packet just now: its number.
fn after_a_loss() -> (Node, i32) {
    const MS: u64 = 1_000_000;
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = Some(Nanos(1000 * MS));
    n.send.set_attr(attr);
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    let _ = ack(&mut n, Nanos(4 * MS), 0);
    post(&mut n, send(), 8 * MTU);
    assert_eq!(poll(&mut n, Nanos(5 * MS)).len(), 8);
    let _ = nak(&mut n, Nanos(10 * MS), 1, NakCode::PsnSequence);
    assert_eq!(poll(&mut n, Nanos(10 * MS)).len(), 1);
    assert_eq!(n.send.window(), 64);
    (n, 1)
}

#[test]
fn late_packets_do_not_count_as_lost() {
    // An answer sooner than any round trip is not that to the packet sent again.
    for (after, window) in [(1, 128), (3_999_999, 128), (4_000_000, 64), (9_000_000, 64)] {
        let (mut n, psn) = after_a_loss();
        let _ = ack(&mut n, Nanos(10_000_000 + after), psn + 7);
        assert_eq!(n.send.window(), window, "{after}");
    }
    // What turned out to be lost is not taken back by a later one that was not.
    let (mut n, psn) = after_a_loss();
    let _ = ack(&mut n, Nanos(15_000_000), psn + 3);
    let _ = nak(&mut n, Nanos(20_000_000), psn + 5, NakCode::PsnSequence);
    assert_eq!(n.send.window(), 32);
    assert_eq!(poll(&mut n, Nanos(20_000_000)).len(), 1);
    let _ = ack(&mut n, Nanos(20_000_001), psn + 7);
    assert_eq!(n.send.window(), 64);
    // Of two that were only late, the first takes back both.
    let (mut n, psn) = after_a_loss();
    let _ = nak(&mut n, Nanos(20_000_000), psn, NakCode::PsnSequence);
    let _ = ack(&mut n, Nanos(10_000_001), psn + 7);
    assert_eq!(n.send.window(), 128);
}

#[test]
fn losses_and_marks_of_one_round_trip_count_once() {
    // The smoothed round trip is 4 ms, so nothing is news for so long.
    for (at, window) in [(10_000_001, 64), (13_999_999, 64), (14_000_000, 32)] {
        let (mut n, _) = after_a_loss();
        n.send.on_congestion(Nanos(at));
        assert_eq!(n.send.window(), window, "{at}");
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    const TRIP: u64 = 1_000_000;
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = None;
    attr.window = 8;
    n.send.set_attr(attr);
    n.modify(QpState::Reset).expect("reset");
    n.ready(1, 1);
    post(&mut n, send(), 25 * MTU);
    let mut now = TRIP;
    // Twice its end was reached, and once a round trip was known.
    for window in [8, 16, 16] {
        assert_eq!(round(&mut n, &mut now, TRIP), window);
    }
    for _ in 0..20 {
        post(&mut n, send(), 15 * MTU);
        assert_eq!(round(&mut n, &mut now, TRIP), 16);
    }
    // As much as it allows, and one more to be sent: then it does.
    post(&mut n, send(), 17 * MTU);
    assert_eq!(round(&mut n, &mut now, TRIP), 32);
}

#[test]
fn after_marks_a_window_grows_by_two_in_a_round_trip() {
    const TRIP: u64 = 1_000_000;
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = None;
    attr.window = 64;
    n.send.set_attr(attr);
    n.send.on_congestion(T0);
    assert_eq!(n.send.window(), 32);
    post(&mut n, send(), 1000 * MTU);
    let mut now = TRIP;
    for window in [34, 36, 38, 40] {
        assert_eq!(round(&mut n, &mut now, TRIP), window);
    }
}
