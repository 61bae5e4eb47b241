// SPDX-License-Identifier: GPL-2.0

//! The send side, rule by rule.

use crate::common::*;
use rxe_sim::host::PostedSend;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
use WcStatus::Success;

#[test]
fn one_request_asks_for_its_acknowledgement() {
    let mut n = node();
    post(&mut n, send(), 10);
    let out = poll(&mut n, T0);
    assert_eq!(brief(&out), [(Opcode::RcSendOnly, 0)]);
    assert!(out[0].ack_req);
    assert_eq!(n.send.next_deadline(), Some(TIMEOUT));
    assert_eq!(done(&n), []);
    assert_eq!(ack(&mut n, T0, 0), Disposition::Done);
    assert_eq!(done(&n), [(0, Success)]);
    assert_eq!(n.send.next_deadline(), None);
}

#[test]
fn a_batch_asks_once() {
    let mut n = node();
    for _ in 0..5 {
        post(&mut n, send(), 10);
    }
    let asks: Vec<_> = poll(&mut n, T0).iter().map(|p| p.ack_req).collect();
    assert_eq!(asks, [false, false, false, false, true]);
    let _ = ack(&mut n, T0, 4);
    assert_eq!(done(&n).len(), 5);
}

#[test]
fn sends_are_counted_and_nothing_else() {
    let mut n = node();
    let write = SendOp::Write {
        va: BASE,
        key: KEY,
        imm: None,
    };
    for op in [send(), write, SendOp::SendInv { key: KEY }] {
        post(&mut n, op, 10);
    }
    assert_eq!(poll(&mut n, T0).len(), 3);
    let _ = ack(&mut n, T0, 2);
    assert_eq!(n.host.counts, [Counter::Send; 2]);
}

#[test]
fn the_end_of_a_budget_asks() {
    let mut n = node();
    post(&mut n, send(), 8 * MTU);
    assert_eq!(n.send.poll(T0, &mut n.host, 3), Progress::More);
    let asks: Vec<_> = seen(&mut n).iter().map(|p| p.ack_req).collect();
    assert_eq!(asks, [false, false, true]);
}

#[test]
fn half_a_window_asks_and_a_full_one_stops() {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.window = 8;
    n.send.set_attr(attr);
    post(&mut n, send(), 20 * MTU);
    let asks: Vec<_> = poll(&mut n, T0).iter().map(|p| p.ack_req).collect();
    assert_eq!(asks, [false, false, false, true, false, false, false, true]);
    let _ = ack(&mut n, T0, 3);
    assert_eq!(poll(&mut n, T0).len(), 4);
}

#[test]
fn solicited_asks_and_marks_the_last_packet_of_sends_only() {
    let mut n = node();
    let wake = |w: &mut SendWqe| w.flags.solicited = true;
    post_with(&mut n, send(), MTU + 1, wake);
    post_with(
        &mut n,
        SendOp::Write {
            va: BASE,
            key: KEY,
            imm: None,
        },
        4,
        wake,
    );
    post_with(
        &mut n,
        SendOp::Write {
            va: BASE,
            key: KEY,
            imm: Some([1; 4]),
        },
        4,
        wake,
    );
    post(&mut n, send(), 4);
    let out = poll(&mut n, T0);
    let marks: Vec<_> = out.iter().map(|p| (p.solicited, p.ack_req)).collect();
    let (no, yes) = ((false, false), (true, true));
    assert_eq!(marks, [no, yes, no, yes, (false, true)]);
}

#[test]
fn a_message_is_cut_at_the_mtu() {
    let mut n = node();
    let inv = SendOp::SendInv { key: Key(5) };
    post(&mut n, inv, 2 * MTU + 1);
    post(
        &mut n,
        SendOp::Write {
            va: BASE,
            key: KEY,
            imm: Some([1, 2, 3, 4]),
        },
        2 * MTU,
    );
    let out = poll(&mut n, T0);
    let want = [
        (Opcode::RcSendFirst, 0),
        (Opcode::RcSendMiddle, 1),
        (Opcode::RcSendLastInv, 2),
        (Opcode::RcWriteFirst, 3),
        (Opcode::RcWriteLastImm, 4),
    ];
    assert_eq!(brief(&out), want);
    assert_eq!(
        out[1].payload,
        (0..256u32).map(|i| i as u8).collect::<Vec<_>>()
    );
    assert_eq!(out[2].payload, [0]);
    let reth = Reth {
        va: BASE,
        rkey: KEY.0,
        length: 2 * MTU,
    };
    assert_eq!(out[3].ext, Ext::Reth(reth));
    assert_eq!(out[4].ext, Ext::Imm(ImmDt([1, 2, 3, 4])));
}

#[test]
fn silence_is_asked_so_often_and_then_fails_the_oldest() {
    let mut n = node();
    for _ in 0..3 {
        post_with(&mut n, send(), 4, |w| w.flags.signaled = false);
    }
    let mut now = T0;
    assert_eq!(poll(&mut n, now).len(), 3);
    for _ in 0..3 {
        now = n.send.next_deadline().expect("a deadline");
        n.send.on_timer(Nanos(now.0 - 1), &mut n.host);
        assert_eq!(poll(&mut n, now).len(), 0, "too early");
        n.send.on_timer(now, &mut n.host);
        let out = poll(&mut n, now);
        assert_eq!(out.iter().map(|p| p.psn).collect::<Vec<_>>(), [0]);
        assert!(out[0].ack_req);
    }
    now = n.send.next_deadline().expect("a deadline");
    n.send.on_timer(now, &mut n.host);
    assert_eq!(poll(&mut n, now), []);
    let retries = n.host.counts.iter().filter(|c| **c == Counter::Retry);
    assert_eq!(retries.count(), 3);
    let flush = WcStatus::WrFlush;
    // The error and what follows it is told, signalled or not.
    assert_eq!(done(&n), [(0, WcStatus::RetryExc), (1, flush), (2, flush)]);
    assert_eq!(n.state, QpState::Err);
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, now), []);
    assert_eq!(done(&n)[3], (3, flush));
    assert_eq!(n.send.next_deadline(), None);
}

#[test]
fn progress_renews_patience() {
    let mut n = node();
    let mut now = T0;
    for k in 0..20 {
        post(&mut n, send(), 4);
        assert_eq!(poll(&mut n, now).len(), 1);
        for _ in 0..3 {
            now = n.send.next_deadline().expect("a deadline");
            n.send.on_timer(now, &mut n.host);
            assert_eq!(poll(&mut n, now).len(), 1);
        }
        // The answer is not soon, so nobody learns to ask early.
        let _ = ack(&mut n, now, k);
    }
    assert!(done(&n).iter().all(|d| d.1 == Success));
}

#[test]
fn without_a_timeout_there_is_no_timer() {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = None;
    n.send.set_attr(attr);
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, T0).len(), 1);
    assert_eq!(n.send.next_deadline(), None);
}

#[test]
fn not_ready_waits_and_then_sends_from_there() {
    let mut n = node();
    for _ in 0..3 {
        post(&mut n, send(), 4);
    }
    assert_eq!(poll(&mut n, T0).len(), 3);
    // It stands for an acknowledgement of what came before.
    assert_eq!(rnr(&mut n, T0, 1), Disposition::Done);
    assert_eq!(done(&n), [(0, Success)]);
    let wait = Nanos(RnrTimer::new(14).nanos());
    assert_eq!(wait, Nanos(1_280_000));
    assert_eq!(n.send.next_deadline(), Some(wait));
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, Nanos(wait.0 - 1)), []);
    // Told again, nothing new.
    assert_eq!(
        rnr(&mut n, T0, 1),
        Disposition::Dropped(DropCause::Duplicate)
    );
    n.send.on_timer(wait, &mut n.host);
    let out = poll(&mut n, wait);
    assert_eq!(out.iter().map(|p| p.psn).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(rnr(&mut n, wait, 1), Disposition::Done);
    let then = wait.after(wait);
    assert_eq!(poll(&mut n, then).len(), 3);
    // Twice is all that was allowed.
    assert_eq!(rnr(&mut n, then, 1), Disposition::Done);
    assert_eq!(done(&n)[1], (1, WcStatus::RnrRetryExc));
}

#[test]
fn not_ready_may_be_endless() {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.rnr_retry = RetryLimit::from_rnr_retry(7);
    n.send.set_attr(attr);
    post(&mut n, send(), 4);
    let mut now = T0;
    for _ in 0..100 {
        assert_eq!(poll(&mut n, now).len(), 1);
        assert_eq!(rnr(&mut n, now, 0), Disposition::Done);
        now = n.send.next_deadline().expect("a wait");
    }
    assert_eq!(done(&n), []);
}

#[test]
fn a_sequence_nak_is_heard_once() {
    let mut n = node();
    post(&mut n, send(), 4 * MTU);
    assert_eq!(poll(&mut n, T0).len(), 4);
    assert_eq!(nak(&mut n, T0, 2, NakCode::PsnSequence), Disposition::Done);
    let out = poll(&mut n, T0);
    assert_eq!(brief(&out), [(Opcode::RcSendMiddle, 2)]);
    assert!(out[0].ack_req);
    let again = nak(&mut n, T0, 2, NakCode::PsnSequence);
    assert_eq!(again, Disposition::Dropped(DropCause::Duplicate));
    assert_eq!(poll(&mut n, T0), []);
    // Progress makes another one news.
    let _ = nak(&mut n, T0, 3, NakCode::PsnSequence);
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcSendLast, 3)]);
}

#[test]
fn a_late_acknowledgement_spares_the_rest() {
    let mut n = node();
    for _ in 0..4 {
        post(&mut n, send(), 4);
    }
    assert_eq!(poll(&mut n, T0).len(), 4);
    n.send.on_timer(TIMEOUT, &mut n.host);
    // Before anything was sent again, the answer comes.
    let _ = ack(&mut n, TIMEOUT, 2);
    assert_eq!(done(&n).len(), 3);
    assert_eq!(poll(&mut n, TIMEOUT), []);
    assert!(n.send.next_deadline().is_some_and(|at| at > TIMEOUT));
}

/// Sends `count` packets and has the second be missing; it is sent again.
fn one_missing(n: &mut Node, count: u32, at: Nanos) {
    post(n, send(), count * MTU);
    assert_eq!(poll(n, T0).len() as u32, count);
    let _ = nak(n, at, 1, NakCode::PsnSequence);
    let again: Vec<_> = poll(n, at).iter().map(|p| p.psn).collect();
    assert_eq!(again, [1]);
}

#[test]
fn a_peer_that_keeps_the_rest_gets_it_once() {
    let mut n = node();
    one_missing(&mut n, 6, Nanos(1000));
    // It had the others up to number 3.
    let _ = nak(&mut n, Nanos(3000), 4, NakCode::PsnSequence);
    let again: Vec<_> = poll(&mut n, T0).iter().map(|p| p.psn).collect();
    assert_eq!(again, [4]);
    let _ = ack(&mut n, Nanos(5000), 5);
    assert_eq!(done(&n), [(0, Success)]);
}

#[test]
fn a_peer_that_keeps_nothing_gets_the_rest_again() {
    let mut n = node();
    one_missing(&mut n, 6, Nanos(1000));
    // It takes what was missing, and has nothing else.
    let _ = ack(&mut n, Nanos(3000), 1);
    let again: Vec<_> = poll(&mut n, T0).iter().map(|p| p.psn).collect();
    assert_eq!(again, [2, 3, 4, 5]);
    let _ = nak(&mut n, Nanos(5000), 3, NakCode::PsnSequence);
    assert_eq!(poll(&mut n, T0).len(), 1);
    let _ = ack(&mut n, Nanos(7000), 3);
    assert_eq!(poll(&mut n, T0).len(), 2);
    // Now that is known, and all comes again at once.
    let _ = nak(&mut n, Nanos(9000), 4, NakCode::PsnSequence);
    let again: Vec<_> = poll(&mut n, T0).iter().map(|p| p.psn).collect();
    assert_eq!(again, [4, 5]);
}

#[test]
fn silence_is_broken_when_round_trips_are_known() {
    let mut n = node();
    let mut attr = *n.send.attr();
    attr.timeout = Some(Nanos(1_000_000_000));
    n.send.set_attr(attr);
    post(&mut n, send(), 4);
    let _ = poll(&mut n, T0);
    let _ = ack(&mut n, Nanos(4_000_000), 0);
    post(&mut n, send(), 3 * MTU);
    let mut now = Nanos(5_000_000);
    assert_eq!(poll(&mut n, now).len(), 3);
    // Three smoothed round trips here, and longer each time.
    let mut span = 12_000_000;
    for _ in 0..4 {
        let at = n.send.next_deadline().expect("a deadline");
        assert_eq!(at.0 - now.0, span);
        now = at;
        n.send.on_timer(now, &mut n.host);
        let out = poll(&mut n, now);
        assert_eq!(brief(&out), [(Opcode::RcSendFirst, 1)]);
        assert!(out[0].ack_req);
        span *= 2;
    }
    // Asking is no retry.
    assert!(!n.host.counts.contains(&Counter::Retry));
}

#[test]
fn strange_acknowledgements_are_ignored() {
    let mut n = node();
    let unsolicited = Disposition::Dropped(DropCause::Unsolicited);
    let duplicate = Disposition::Dropped(DropCause::Duplicate);
    assert_eq!(ack(&mut n, T0, 0), unsolicited);
    post(&mut n, send(), 4);
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, T0).len(), 2);
    assert_eq!(ack(&mut n, T0, 2), unsolicited);
    assert_eq!(ack(&mut n, T0, 1 << 23), duplicate);
    assert_eq!(ack(&mut n, T0, -1), duplicate);
    let _ = ack(&mut n, T0, 0);
    assert_eq!(ack(&mut n, T0, 0), duplicate);
    assert_eq!(nak(&mut n, T0, 0, NakCode::InvalidRequest), duplicate);
    assert_eq!(done(&n), [(0, Success)]);
    let odd = give(&mut n, T0, Opcode::UcSendOnly, 1, Ext::None, &[]);
    assert_eq!(odd, Disposition::Dropped(DropCause::Opcode));
}

#[test]
fn a_read_is_resumed_where_it_broke() {
    let mut n = node();
    post(&mut n, read(), 4 * MTU + 3);
    post(&mut n, send(), 4);
    let out = poll(&mut n, T0);
    // The read takes a PSN for each response.
    assert_eq!(
        brief(&out),
        [(Opcode::RcReadRequest, 0), (Opcode::RcSendOnly, 5)]
    );
    let body = vec![7; MTU as usize];
    let _ = give(
        &mut n,
        T0,
        Opcode::RcReadRespFirst,
        0,
        aeth(AethSyndrome::ACK),
        &body,
    );
    let _ = give(&mut n, T0, Opcode::RcReadRespMiddle, 1, Ext::None, &body);
    // Number 2 is lost: 3 may mean that, and the acknowledgement of what is behind the
    // read does.
    let early = give(&mut n, T0, Opcode::RcReadRespMiddle, 3, Ext::None, &body);
    assert_eq!(early, Disposition::Early);
    assert_eq!(poll(&mut n, T0), []);
    let _ = ack(&mut n, T0, 5);
    let out = poll(&mut n, T0);
    assert_eq!(brief(&out), [(Opcode::RcReadRequest, 2)]);
    let rest = Reth {
        va: BASE + 2 * u64::from(MTU),
        rkey: KEY.0,
        length: 2 * MTU + 3,
    };
    assert_eq!(out[0].ext, Ext::Reth(rest));
    // Once more, it is no news.
    let _ = ack(&mut n, T0, 5);
    assert_eq!(poll(&mut n, T0), []);
    let _ = give(
        &mut n,
        T0,
        Opcode::RcReadRespFirst,
        2,
        aeth(AethSyndrome::ACK),
        &body,
    );
    let _ = give(&mut n, T0, Opcode::RcReadRespMiddle, 3, Ext::None, &body);
    assert_eq!(done(&n), []);
    let _ = give(
        &mut n,
        T0,
        Opcode::RcReadRespLast,
        4,
        aeth(AethSyndrome::ACK),
        &[7; 3],
    );
    let _ = ack(&mut n, T0, 5);
    assert_eq!(done(&n), [(0, Success), (1, Success)]);
    assert_eq!(n.host.sent[0].buf, vec![7; 4 * MTU as usize + 3]);
}

#[test]
fn only_missing_parts_of_a_read_are_requested() {
    let mut n = node();
    post(&mut n, read(), 6 * MTU);
    let _ = poll(&mut n, T0);
    let body = vec![7; MTU as usize];
    let middle = Opcode::RcReadRespMiddle;
    // Numbers 0 and 1 are lost. The host keeps what comes.
    for psn in [2, 3, 4] {
        let done = give(&mut n, T0, middle, psn, Ext::None, &body);
        assert_eq!(done, Disposition::Early);
        let kept = n.host.early[0].insert(START + psn as u32, vec![]);
        assert_eq!(kept, Ok(()));
    }
    let out = poll(&mut n, T0);
    assert_eq!(brief(&out), [(Opcode::RcReadRequest, 0)]);
    let missing = Reth {
        va: BASE,
        rkey: KEY.0,
        length: 2 * MTU,
    };
    assert_eq!(out[0].ext, Ext::Reth(missing));
    // The last of these says so, in the middle of the read.
    let ack = aeth(AethSyndrome::ACK);
    let _ = give(&mut n, T0, Opcode::RcReadRespFirst, 0, ack, &body);
    let _ = give(&mut n, T0, Opcode::RcReadRespLast, 1, ack, &body);
    for psn in [2, 3, 4] {
        assert!(n.send.is_due(START + psn as u32));
        let _ = n.host.early[0].pop();
        let _ = give(&mut n, T0, middle, psn, Ext::None, &body);
    }
    assert_eq!(done(&n), []);
    let _ = give(&mut n, T0, Opcode::RcReadRespLast, 5, ack, &body);
    assert_eq!(done(&n), [(0, Success)]);
    assert_eq!(n.host.sent[0].buf, vec![7; 6 * MTU as usize]);
}

#[test]
fn a_response_must_fit_the_request() {
    let body = [0; MTU as usize + 1];
    let cases: [(SendOp, u32, Opcode, Ext, usize); 6] = [
        // Too short, too long, last too early, not last at the end.
        (
            read(),
            2 * MTU,
            Opcode::RcReadRespFirst,
            aeth(AethSyndrome::ACK),
            9,
        ),
        (
            read(),
            5,
            Opcode::RcReadRespOnly,
            aeth(AethSyndrome::ACK),
            6,
        ),
        (
            read(),
            2 * MTU,
            Opcode::RcReadRespOnly,
            aeth(AethSyndrome::ACK),
            256,
        ),
        (
            read(),
            256,
            Opcode::RcReadRespFirst,
            aeth(AethSyndrome::ACK),
            256,
        ),
        // Another kind of response.
        (add(), 8, Opcode::RcReadRespOnly, aeth(AethSyndrome::ACK), 0),
        (
            send(),
            8,
            Opcode::RcReadRespOnly,
            aeth(AethSyndrome::ACK),
            0,
        ),
    ];
    for (op, length, opcode, ext, len) in cases {
        let mut n = node();
        post(&mut n, op, length);
        assert_eq!(poll(&mut n, T0).len(), 1);
        let _ = give(&mut n, T0, opcode, 0, ext, &body[..len]);
        assert_eq!(
            done(&n),
            [(0, WcStatus::BadResp)],
            "{op:?} {opcode:?} {len}"
        );
    }
}

#[test]
fn reads_and_atomics_are_limited_and_fenced() {
    let mut n = node();
    for _ in 0..3 {
        post(&mut n, add(), 8);
    }
    post_with(&mut n, send(), 4, |w| w.flags.fence = true);
    assert_eq!(poll(&mut n, T0).len(), 2, "two may be outstanding");
    let found = |value| {
        let aeth = Aeth {
            syndrome: AethSyndrome::ACK,
            msn: Msn::new(0),
        };
        Ext::AethAtomicAck(aeth, AtomicAckEth { original: value })
    };
    let _ = give(&mut n, T0, Opcode::RcAtomicAck, 0, found(41), &[]);
    assert_eq!(n.host.sent[0].buf, 41u64.to_ne_bytes());
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcFetchAdd, 2)]);
    let _ = give(&mut n, T0, Opcode::RcAtomicAck, 1, found(0), &[]);
    assert_eq!(poll(&mut n, T0), [], "the fence waits for all");
    let _ = give(&mut n, T0, Opcode::RcAtomicAck, 2, found(0), &[]);
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcSendOnly, 3)]);
}

#[test]
fn an_acknowledgement_is_no_answer_to_an_atomic() {
    let mut n = node();
    post(&mut n, add(), 8);
    assert_eq!(poll(&mut n, T0).len(), 1);
    let _ = ack(&mut n, T0, 0);
    assert_eq!(done(&n), []);
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcFetchAdd, 0)]);
}

#[test]
fn local_operations_keep_their_place() {
    let mut n = node();
    post(&mut n, send(), 4);
    post(&mut n, SendOp::RegMr, 0);
    post(&mut n, send(), 4);
    post(&mut n, SendOp::LocalInv { key: Key(3) }, 0);
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, T0).len(), 2);
    assert_eq!(n.host.locals_run, [SendOp::RegMr]);
    assert_eq!(done(&n), []);
    let _ = ack(&mut n, T0, 1);
    assert_eq!(done(&n).len(), 3);
    assert_eq!(poll(&mut n, T0).len(), 1);
    assert_eq!(n.host.locals_run.len(), 2);
    let _ = ack(&mut n, T0, 2);
    assert_eq!(done(&n).len(), 5);
}

#[test]
fn a_bad_request_fails_in_its_place() {
    let mut n = node();
    post(&mut n, send(), 4);
    let bad = PostedSend {
        wqe: Err((1, WcStatus::LocQpOp)),
        buf: vec![],
    };
    n.host.sq.push_back(bad);
    post(&mut n, send(), 4);
    let out = poll(&mut n, T0);
    assert_eq!(out.len(), 1);
    assert!(out[0].ack_req, "nothing after it will ask");
    assert_eq!(done(&n), []);
    let _ = ack(&mut n, T0, 0);
    assert_eq!(poll(&mut n, T0), []);
    let want = [(0, Success), (1, WcStatus::LocQpOp), (2, WcStatus::WrFlush)];
    assert_eq!(done(&n), want);
}

#[test]
fn unreadable_buffers_do_not_strand_what_came_before() {
    let mut n = node();
    post(&mut n, send(), 4);
    post(&mut n, send(), 4);
    n.host.sq[1].buf.clear();
    let out = poll(&mut n, T0);
    // First without, then with a request for an acknowledgement.
    assert_eq!(
        out.iter().map(|p| (p.psn, p.ack_req)).collect::<Vec<_>>(),
        [(0, false), (0, true)]
    );
    let _ = ack(&mut n, T0, 0);
    assert_eq!(done(&n), [(0, Success), (1, WcStatus::LocProt)]);
}

#[test]
fn refusals_become_statuses() {
    let cases = [
        (NakCode::InvalidRequest, WcStatus::RemInvReq),
        (NakCode::RemoteAccess, WcStatus::RemAccess),
        (NakCode::RemoteOperation, WcStatus::RemOp),
    ];
    for (code, status) in cases {
        let mut n = node();
        post(&mut n, send(), 4);
        post(&mut n, send(), 4);
        assert_eq!(poll(&mut n, T0).len(), 2);
        let _ = nak(&mut n, T0, 1, code);
        assert_eq!(done(&n), [(0, Success), (1, status)]);
        assert_eq!(n.host.events, [QpEvent::SendFailed]);
    }
}

#[test]
fn unsignalled_requests_complete_in_silence() {
    let mut n = node();
    post_with(&mut n, send(), 4, |w| w.flags.signaled = false);
    post(&mut n, send(), 4);
    assert_eq!(poll(&mut n, T0).len(), 2);
    let _ = ack(&mut n, T0, 1);
    assert_eq!(done(&n), [(1, Success)]);
    assert_eq!(n.host.sent.len(), 2);
}

#[test]
fn a_drain_finishes_what_is_started() {
    let mut n = node();
    post(&mut n, send(), 3 * MTU);
    post(&mut n, send(), 4);
    n.host.room = Some(1);
    assert_eq!(poll(&mut n, T0).len(), 1);
    n.modify(QpState::Sqd).expect("rts to sqd");
    assert!(n.send.is_draining());
    assert!(n.modify(QpState::Rts).is_err(), "not before it is drained");
    n.host.room = None;
    let psns: Vec<_> = poll(&mut n, T0).iter().map(|p| p.psn).collect();
    assert!(psns.ends_with(&[1, 2]));
    assert_eq!(n.host.events, []);
    let _ = ack(&mut n, T0, 2);
    assert_eq!(n.host.events, [QpEvent::SqDrained]);
    assert_eq!(poll(&mut n, T0), []);
    n.modify(QpState::Rts).expect("sqd to rts");
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcSendOnly, 3)]);
}

#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut n = node();
    n.modify(QpState::Sqd).expect("rts to sqd");
    assert_eq!(n.host.events, [QpEvent::SqDrained]);
    assert!(!n.send.is_draining());
}

#[test]
fn a_full_wire_changes_nothing() {
    let mut n = node();
    post(&mut n, read(), 2 * MTU);
    post(&mut n, send(), 4);
    n.host.room = Some(0);
    assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Blocked);
    assert_eq!(n.send.psn(), START);
    assert_eq!(n.send.next_deadline(), None);
    n.host.room = None;
    let out = poll(&mut n, T0);
    assert_eq!(
        brief(&out),
        [(Opcode::RcReadRequest, 0), (Opcode::RcSendOnly, 2)]
    );
}

#[test]
fn unreliable_requests_are_done_when_gone() {
    let mut n = node_of(QpType::Uc, 0);
    post(&mut n, send(), 2 * MTU);
    post(&mut n, read(), 4);
    let out = poll(&mut n, T0);
    assert_eq!(
        brief(&out),
        [(Opcode::UcSendFirst, 0), (Opcode::UcSendLast, 1)]
    );
    assert_eq!(done(&n), [(0, Success), (1, WcStatus::LocQpOp)]);
    assert_eq!(n.send.next_deadline(), None);
}

#[test]
fn the_longest_read_is_the_only_one_outstanding() {
    let mut n = node();
    post(&mut n, read(), 0);
    for _ in 0..2 {
        post(&mut n, send(), 4);
    }
    n.host.sq[0].wqe.as_mut().expect("good").length = 1 << 31;
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcReadRequest, 0)]);
    assert_eq!(n.send.psn(), START + (1 << 23));
}

#[test]
fn a_request_before_the_longest_read_requests_acknowledgement() {
    let mut n = node();
    post(&mut n, send(), 4);
    post(&mut n, read(), 0);
    n.host.sq[1].wqe.as_mut().expect("good").length = 1 << 31;
    let out = poll(&mut n, T0);
    assert_eq!(brief(&out), [(Opcode::RcSendOnly, 0)]);
    assert!(out[0].ack_req);
    let _ = ack(&mut n, T0, 0);
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcReadRequest, 1)]);
}
