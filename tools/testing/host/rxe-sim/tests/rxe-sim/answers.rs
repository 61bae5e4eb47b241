// SPDX-License-Identifier: GPL-2.0

//! Which packets are answers, which early ones may be kept, when the send side is idle, and
//! what completions are called.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);

/// A response to the second of two reads, as it comes before that to the first.
fn early(n: &mut Node, opcode: Opcode, psn: u32, mtu: Option<u32>) -> Disposition {
    let packet = RxPacket {
        opcode,
        psn: START + psn,
        ack_req: false,
        solicited: false,
        ext: aeth(AethSyndrome::ACK),
        len: MTU,
        mtu,
    };
    n.host.payload = vec![0; MTU as usize];
    n.send.on_response(T0, &packet, &mut n.host)
}

#[test]
fn an_early_response_is_kept_only_if_its_bytes_are_in_it() {
    let dropped = Disposition::Dropped(DropCause::OutOfSequence);
    let fresh = || {
        let mut n = node();
        post(&mut n, read(), MTU);
        post(&mut n, read(), MTU);
        assert_eq!(poll(&mut n, T0).len(), 2);
        n
    };
    let only = Opcode::RcReadRespOnly;
    assert_eq!(early(&mut fresh(), only, 1, None), Disposition::Early);
    // A neighbour on this host lends its bytes for the call only.
    assert_eq!(early(&mut fresh(), only, 1, Some(MTU)), dropped);
    assert_eq!(early(&mut fresh(), Opcode::RcAck, 1, None), dropped);
}

#[test]
fn an_early_response_out_of_reach_is_not_kept() {
    // The first request wants its response, and the second one's PSN is so far behind it.
    for (packets, kept) in [((1 << 14) - 1, true), (1 << 14, false)] {
        let mut n = node();
        let mut attr = *n.send.attr();
        attr.window = 1 << 20;
        n.send.set_attr(attr);
        post(&mut n, read(), packets * MTU);
        post(&mut n, read(), MTU);
        assert_eq!(poll(&mut n, T0).len(), 2);
        let disposition = early(&mut n, Opcode::RcReadRespOnly, packets, None);
        assert_eq!(disposition == Disposition::Early, kept, "{packets}");
    }
}

#[test]
fn a_response_of_another_transport_is_none() {
    let wrong = Disposition::Dropped(DropCause::Opcode);
    for opcode in [Opcode::XrcAck, Opcode::XrcReadRespOnly] {
        let mut n = node();
        post(&mut n, send(), 4);
        assert_eq!(poll(&mut n, T0).len(), 1);
        let told = give(&mut n, T0, opcode, 0, aeth(AethSyndrome::ACK), &[]);
        assert_eq!(told, wrong);
        assert_eq!(done(&n), []);
        assert_eq!(ack(&mut n, T0, 0), Disposition::Done);
        assert_eq!(done(&n), [(0, WcStatus::Success)]);
    }
}

#[test]
fn the_send_side_is_idle_when_only_the_ring_may_have_work() {
    let mut n = node();
    assert!(n.send.is_idle());
    assert!(!n.send.is_busy());
    post(&mut n, send(), 3 * MTU);
    assert_eq!(n.send.poll(T0, &mut n.host, 2), Progress::More);
    assert!(!n.send.is_idle() && n.send.has_unsent() && n.send.is_busy());
    assert_eq!(poll(&mut n, T0).len(), 3);
    assert!(n.send.is_idle() && !n.send.has_unsent() && n.send.is_busy());
    assert_eq!(ack(&mut n, T0, 2), Disposition::Done);
    assert!(n.send.is_idle());
    // A notice that is due must go out, by a poll.
    n.send.on_mark(T0, &mut n.host);
    assert!(!n.send.is_idle());
    assert_eq!(poll(&mut n, T0)[0].opcode, Opcode::Cnp);
    assert!(n.send.is_idle());
    n.send.reset();
    assert!(!n.send.is_idle());
}

#[test]
fn completions_are_called_what_was_asked_for() {
    let (va, key) = (BASE, KEY);
    let imm = Some([0; 4]);
    let swap = SendOp::CompareSwap {
        va,
        key,
        compare: 0,
        swap: 0,
    };
    // enum ib_wc_opcode.
    for (op, name, code) in [
        (send(), WcOpcode::Send, 0),
        (SendOp::Send { imm }, WcOpcode::Send, 0),
        (SendOp::SendInv { key }, WcOpcode::Send, 0),
        (SendOp::Write { va, key, imm: None }, WcOpcode::RdmaWrite, 1),
        (SendOp::Write { va, key, imm }, WcOpcode::RdmaWrite, 1),
        (read(), WcOpcode::RdmaRead, 2),
        (swap, WcOpcode::CompSwap, 3),
        (add(), WcOpcode::FetchAdd, 4),
        (
            SendOp::AtomicWrite {
                va,
                key,
                value: [0; 8],
            },
            WcOpcode::AtomicWrite,
            9,
        ),
        (
            SendOp::Flush {
                va,
                key,
                length: 8,
                kind: 1,
                level: 0,
            },
            WcOpcode::Flush,
            8,
        ),
        (SendOp::BindMw, WcOpcode::BindMw, 5),
        (SendOp::LocalInv { key }, WcOpcode::LocalInv, 6),
        (SendOp::RegMr, WcOpcode::RegMr, 10),
    ] {
        assert_eq!(op.wc_opcode(), name, "{op:?}");
        assert_eq!(name.code(), code, "{op:?}");
        assert_eq!(
            op.is_local(),
            matches!(
                name,
                WcOpcode::BindMw | WcOpcode::LocalInv | WcOpcode::RegMr
            )
        );
        let has_imm = matches!(
            op,
            SendOp::Send { imm: Some(_) } | SendOp::Write { imm: Some(_), .. }
        );
        assert_eq!(op.has_imm(), has_imm, "{op:?}");
    }
}

#[test]
fn the_receive_side_has_work_until_all_is_answered() {
    let mut n = node();
    let request = Reth {
        va: BASE,
        rkey: KEY.0,
        length: 3 * MTU,
    };
    for round in 0..3 {
        let _ = give(
            &mut n,
            T0,
            Opcode::RcReadRequest,
            3 * round,
            Ext::Reth(request),
            &[],
        );
        assert_eq!(poll(&mut n, T0).len(), 3);
        assert_eq!(n.recv.poll(&mut n.host, 64), Progress::Idle);
        assert!(!n.recv.owes(), "{round}");
    }
}

#[test]
fn retransmissions_request_one_acknowledgement() {
    let mut n = node();
    for _ in 0..3 {
        post(&mut n, send(), 4);
    }
    assert_eq!(poll(&mut n, T0).len(), 3);
    let _ = rnr(&mut n, T0, 0);
    let late = Nanos(1_000_000_000);
    n.send.on_timer(late, &mut n.host);
    let again: Vec<_> = poll(&mut n, late)
        .iter()
        .map(|p| (p.psn, p.ack_req))
        .collect();
    assert_eq!(again, [(0, false), (1, false), (2, true)]);
}

#[test]
fn sending_one_packet_again_does_not_renew_patience() {
    let mut n = node();
    post(&mut n, send(), 6 * MTU);
    assert_eq!(poll(&mut n, T0).len(), 6);
    let _ = nak(&mut n, Nanos(1000), 1, NakCode::PsnSequence);
    assert_eq!(
        brief(&poll(&mut n, Nanos(5000))),
        [(Opcode::RcSendMiddle, 1)]
    );
    assert_eq!(n.send.next_deadline(), Some(Nanos(1_001_000)));
}

#[test]
fn a_gap_is_told_again_after_the_psn_was_set() {
    let mut n = node();
    let missing = |n: &mut Node, psn| {
        let _ = give(n, T0, Opcode::RcSendOnly, psn, Ext::None, &[]);
        syndromes(&poll(n, T0))
    };
    let nak = AethSyndrome::Nak(NakCode::PsnSequence);
    assert_eq!(missing(&mut n, 1), [(0, nak)]);
    assert_eq!(missing(&mut n, 2), []);
    n.recv.set_psn(START + 5);
    assert_eq!(missing(&mut n, 7), [(5, nak)]);
}

#[test]
fn the_receive_side_is_busy_while_a_message_fills_a_request() {
    let mut n = node();
    post_recv(&mut n, 1, 2 * MTU as usize);
    assert!(!n.recv.is_busy());
    let body = [7; MTU as usize];
    let _ = give(&mut n, T0, Opcode::RcSendFirst, 0, Ext::None, &body);
    assert!(n.recv.is_busy());
    let _ = give(&mut n, T0, Opcode::RcSendLast, 1, Ext::None, &body);
    assert!(!n.recv.is_busy());
    assert_eq!(received(&n), [(1, WcStatus::Success)]);
}

fn response(n: &mut Node, opcode: Opcode, psn: i32) -> Disposition {
    let body = [7; MTU as usize];
    let ext = if opcode == Opcode::RcReadRespMiddle {
        Ext::None
    } else {
        aeth(AethSyndrome::ACK)
    };
    give(n, T0, opcode, psn, ext, &body)
}

#[test]
fn a_premature_request_raises_the_threshold() {
    let mut n = node();
    post(&mut n, read(), 20 * MTU);
    assert_eq!(poll(&mut n, T0).len(), 1);
    let middle = Opcode::RcReadRespMiddle;
    // The third that comes before number 0 says that this is lost.
    for (psn, asked) in [(1, 0), (2, 0), (3, 1)] {
        assert_eq!(response(&mut n, middle, psn), Disposition::Early);
        assert_eq!(poll(&mut n, T0).len(), asked);
    }
    // It was only late: it comes by itself, and then because we asked.
    for psn in 0..4 {
        let opcode = if psn == 0 {
            Opcode::RcReadRespFirst
        } else {
            middle
        };
        assert_eq!(response(&mut n, opcode, psn), Disposition::Done);
    }
    let twice = response(&mut n, Opcode::RcReadRespFirst, 0);
    assert_eq!(twice, Disposition::Dropped(DropCause::Duplicate));
    assert_eq!(poll(&mut n, T0), []);
    // Now it takes six.
    for (psn, asked) in [(5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 1)] {
        assert_eq!(response(&mut n, middle, psn), Disposition::Early);
        assert_eq!(poll(&mut n, T0).len(), asked, "{psn}");
    }
}

#[test]
fn a_whole_read_ends_with_its_last_response() {
    let mut n = node();
    post(&mut n, read(), 2 * MTU);
    post(&mut n, read(), 2 * MTU);
    assert_eq!(poll(&mut n, T0).len(), 2);
    let _ = response(&mut n, Opcode::RcReadRespFirst, 0);
    let _ = response(&mut n, Opcode::RcReadRespLast, 1);
    assert_eq!(done(&n), [(0, WcStatus::Success)]);
    let _ = response(&mut n, Opcode::RcReadRespLast, 2);
    assert_eq!(done(&n)[1], (1, WcStatus::BadResp));
}
