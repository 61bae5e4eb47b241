// SPDX-License-Identifier: GPL-2.0

//! What the send side makes of marks and notices of congestion, rule by rule.

use crate::common::*;
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
