// SPDX-License-Identifier: GPL-2.0

//! The receive side: what is refused whatever the request, what a poll does of what is owed,
//! when an acknowledgement may wait, and what is counted.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
const ACK: AethSyndrome = AethSyndrome::ACK;
const MISSING: AethSyndrome = AethSyndrome::Nak(NakCode::PsnSequence);
const INVALID: AethSyndrome = AethSyndrome::Nak(NakCode::InvalidRequest);
const NO_ACCESS: AethSyndrome = AethSyndrome::Nak(NakCode::RemoteAccess);

fn reth(length: u32) -> Reth {
    Reth {
        va: BASE,
        rkey: KEY.0,
        length,
    }
}

fn atomic() -> Ext {
    Ext::AtomicEth(AtomicEth {
        va: BASE,
        rkey: KEY.0,
        swap_or_add: 5,
        compare: 0,
    })
}

/// Requests that have a response of their own: opcode, headers, payload.
fn answered() -> [(Opcode, Ext, &'static [u8]); 5] {
    let feth = Feth {
        placement: Feth::GLOBAL,
        selectivity: Feth::RANGE,
    };
    [
        (Opcode::RcReadRequest, Ext::Reth(reth(4)), &[]),
        (Opcode::RcFetchAdd, atomic(), &[]),
        (Opcode::RcCompareSwap, atomic(), &[]),
        (Opcode::RcAtomicWrite, Ext::Reth(reth(8)), &[1; 8]),
        (Opcode::RcFlush, Ext::FethReth(feth, reth(8)), &[]),
    ]
}

fn only(n: &mut Node, psn: i32) -> Disposition {
    give(n, T0, Opcode::RcSendOnly, psn, Ext::None, &[1])
}

/// A message of one packet that asks for nothing.
fn quiet(n: &mut Node, opcode: Opcode, psn: u32, len: u32) -> Disposition {
    n.host.payload = vec![1; len as usize];
    let packet = RxPacket {
        opcode,
        psn: START + psn,
        ack_req: false,
        solicited: false,
        ext: Ext::None,
        len,
        mtu: None,
    };
    n.recv.on_request(&packet, &mut n.host)
}

/// A node with so many receive requests of 1000 bytes.
fn with_recvs(count: u64) -> Node {
    let mut n = node();
    for wr_id in 0..count {
        post_recv(&mut n, wr_id, 1000);
    }
    n
}

fn counted(n: &Node, what: Counter) -> usize {
    n.host.counts.iter().filter(|c| **c == what).count()
}

#[test]
fn an_answer_is_repeated_for_its_own_psn_and_kind() {
    for (opcode, ext, payload) in answered() {
        let mut n = with_recvs(2);
        assert_eq!(give(&mut n, T0, opcode, 0, ext, payload), Disposition::Done);
        let answer = poll(&mut n, T0);
        assert_eq!(answer.len(), 1);
        assert_eq!(n.recv.psn(), START + 1);
        let _ = only(&mut n, 1);
        let _ = only(&mut n, 2);
        assert_eq!(poll(&mut n, T0).len(), 1);
        let duplicate = Disposition::Dropped(DropCause::Duplicate);
        for (psn, want) in [(0, &answer[..]), (1, &[]), (2, &[]), (-1, &[])] {
            assert_eq!(give(&mut n, T0, opcode, psn, ext, payload), duplicate);
            assert_eq!(poll(&mut n, T0), want, "{opcode:?} at {psn}");
        }
        // Another kind of request at the same place is not the one that was answered.
        for (other, ext, payload) in answered() {
            let atomic = |opcode| matches!(opcode, Opcode::RcFetchAdd | Opcode::RcCompareSwap);
            let empty = |opcode| matches!(opcode, Opcode::RcAtomicWrite | Opcode::RcFlush);
            let same = opcode == other
                || (atomic(opcode) && atomic(other))
                || (empty(opcode) && empty(other));
            assert_eq!(give(&mut n, T0, other, 0, ext, payload), duplicate);
            let out = poll(&mut n, T0);
            assert_eq!(out.len(), usize::from(same), "{opcode:?} {other:?}");
        }
        assert_eq!(counted(&n, Counter::DuplicateRequest), 9);
    }
}

#[test]
fn fixed_payload_lengths_are_checked() {
    for (opcode, ext, payload) in answered() {
        for len in [0, 1, 4, 7, 9, 16] {
            if len == payload.len() {
                continue;
            }
            let mut n = node();
            let _ = give(&mut n, T0, opcode, 0, ext, &[0; 16][..len]);
            let out = poll(&mut n, T0);
            assert_eq!(syndromes(&out), [(0, INVALID)], "{opcode:?} {len}");
            assert_eq!(out.len(), 1);
            assert_eq!(n.state, QpState::Err);
            assert_eq!(n.host.atomics_run, 0);
        }
    }
}

#[test]
fn each_request_with_a_response_needs_a_resource() {
    for (first, ext, payload) in answered() {
        for (second, second_ext, second_payload) in answered() {
            let mut n = node_of(QpType::Rc, 1);
            n.host.room = Some(0);
            assert_eq!(give(&mut n, T0, first, 0, ext, payload), Disposition::Done);
            let run = n.host.atomics_run;
            let _ = give(&mut n, T0, second, 1, second_ext, second_payload);
            assert_eq!(n.host.atomics_run, run, "it is not carried out");
            n.host.room = None;
            let out = poll(&mut n, T0);
            assert_eq!((out.len(), out[0].psn), (2, 0));
            assert_eq!(syndromes(&out[1..]), [(1, INVALID)], "{first:?} {second:?}");
        }
    }
}

#[test]
fn a_message_has_its_longest_length_and_number_of_packets() {
    // (MTU of the packet, length, what is wrong): a gigabyte is nobody's, so what is not too
    // long lacks the right.
    for (mtu, length, syndrome) in [
        (1024, 1 << 31, NO_ACCESS),
        (1024, (1 << 31) + 1, INVALID),
        (1024, u32::MAX, INVALID),
        (256, 1 << 31, NO_ACCESS),
        (128, 1 << 30, NO_ACCESS),
        (128, (1 << 30) + 1, INVALID),
        (64, 1 << 30, INVALID),
    ] {
        let mut n = node();
        n.host.payload.clear();
        let packet = RxPacket {
            opcode: Opcode::RcReadRequest,
            psn: START,
            ack_req: true,
            solicited: false,
            ext: Ext::Reth(reth(length)),
            len: 0,
            mtu: Some(mtu),
        };
        let _ = n.recv.on_request(&packet, &mut n.host);
        assert_eq!(syndromes(&poll(&mut n, T0)), [(0, syndrome)], "{length}");
    }
    for (length, syndrome) in [(1 << 31, NO_ACCESS), ((1 << 31) + 1, INVALID)] {
        let mut n = node();
        let body = [0; MTU as usize];
        let ext = Ext::Reth(reth(length));
        let _ = give(&mut n, T0, Opcode::RcWriteFirst, 0, ext, &body);
        assert_eq!(syndromes(&poll(&mut n, T0)), [(0, syndrome)], "{length}");
    }
}

#[test]
fn it_owes_until_all_is_out() {
    let mut n = with_recvs(3);
    assert!(!n.recv.owes());
    let _ = only(&mut n, 0);
    assert!(n.recv.owes());
    let _ = poll(&mut n, T0);
    assert!(!n.recv.owes());
    // A response alone.
    n.host.room = Some(0);
    let _ = give(
        &mut n,
        T0,
        Opcode::RcReadRequest,
        1,
        Ext::Reth(reth(4)),
        &[],
    );
    assert!(n.recv.owes());
    assert_eq!(poll(&mut n, T0), []);
    assert!(n.recv.owes());
    n.host.room = None;
    assert_eq!(poll(&mut n, T0).len(), 1);
    assert!(!n.recv.owes());
    // A notice alone.
    n.recv.on_mark(T0, &mut n.host);
    assert!(n.recv.owes());
    let _ = poll(&mut n, T0);
    assert!(!n.recv.owes());
    // What asks for nothing.
    assert_eq!(quiet(&mut n, Opcode::RcSendOnly, 2, 1), Disposition::Done);
    assert!(!n.recv.owes());
}

#[test]
fn a_poll_does_no_more_than_it_may() {
    let mut n = with_recvs(1);
    let _ = give(
        &mut n,
        T0,
        Opcode::RcReadRequest,
        0,
        Ext::Reth(reth(5 * MTU)),
        &[],
    );
    let _ = only(&mut n, 5);
    for (budget, packets, progress) in [
        (0, 0, Progress::More),
        (2, 2, Progress::More),
        (1, 1, Progress::More),
        (2, 2, Progress::More),
        (0, 0, Progress::More),
        (1, 1, Progress::Idle),
        (0, 0, Progress::Idle),
    ] {
        assert_eq!(n.recv.poll(&mut n.host, budget), progress);
        assert_eq!(seen(&mut n).len(), packets);
    }
    // Flushing, too; that there is no other request must be seen as well.
    let mut n = with_recvs(5);
    n.recv.set_error();
    for (budget, flushed, progress) in [
        (0, 0, Progress::More),
        (2, 2, Progress::More),
        (1, 3, Progress::More),
        (2, 5, Progress::More),
        (1, 5, Progress::Idle),
    ] {
        assert_eq!(n.recv.poll(&mut n.host, budget), progress);
        assert_eq!(received(&n).len(), flushed);
    }
    assert_eq!(n.host.events, [QpEvent::LastRecv]);
    assert_eq!(n.recv.poll(&mut n.host, 9), Progress::Idle);
    assert_eq!(n.host.events, [QpEvent::LastRecv]);
}

#[test]
fn a_flushed_request_says_nothing_but_that() {
    let mut n = with_recvs(2);
    let _ = quiet(&mut n, Opcode::RcSendFirst, 0, MTU);
    n.host.rq[0].good = false;
    n.recv.set_error();
    assert!(n.recv.is_busy());
    assert_eq!(n.recv.poll(&mut n.host, 9), Progress::Idle);
    assert!(!n.recv.is_busy());
    let want = |wr_id| RecvCompletion {
        wr_id,
        status: WcStatus::WrFlush,
        opcode: WcOpcode::Recv,
        byte_len: 0,
        imm: None,
        invalidated: None,
        src_qpn: None,
        solicited: true,
    };
    let got: Vec<_> = n.host.recv_cq.iter().map(|c| c.0).collect();
    assert_eq!(got, [want(0), want(1)]);
}

/// The acknowledgement of number 0, and what else happens; whether it may wait.
fn may_wait(what: impl Fn(&mut Node)) -> bool {
    let mut n = with_recvs(9);
    assert!(!n.recv.ack_may_wait(), "there is none");
    let _ = only(&mut n, 0);
    what(&mut n);
    n.recv.ack_may_wait()
}

#[test]
fn only_an_acknowledgement_of_all_there_is_may_wait() {
    let none = Ext::None;
    let body = [0; MTU as usize];
    let read = Ext::Reth(reth(4));
    assert!(may_wait(|_| {}));
    assert!(may_wait(|n| {
        let _ = only(n, 1);
    }));
    assert!(may_wait(|n| {
        let _ = give(n, T0, Opcode::RcSendFirst, 1, none, &body);
        let _ = give(n, T0, Opcode::RcSendLast, 2, none, &[1]);
    }));
    assert!(!may_wait(|n| {
        let _ = give(n, T0, Opcode::RcSendFirst, 1, none, &body);
    }));
    assert!(!may_wait(|n| {
        let _ = poll(n, T0);
    }));
    // A response is to be sent first.
    assert!(!may_wait(|n| {
        n.host.room = Some(0);
        let _ = give(n, T0, Opcode::RcReadRequest, 1, read, &[]);
        let _ = only(n, 2);
    }));
    // Something came early; it is the peer who decides how long that lasts.
    assert!(!may_wait(|n| {
        assert_eq!(quiet(n, Opcode::RcSendOnly, 2, 1), Disposition::Early);
    }));
    // The peer was told that we are not ready, and asks again for what was before.
    assert!(!may_wait(|n| {
        n.host.rq.clear();
        let _ = only(n, 1);
        let _ = poll(n, T0);
        let _ = only(n, 0);
        assert!(n.recv.owes());
    }));
    assert!(!may_wait(|n| n.recv.on_mark(T0, &mut n.host)));
    // When that is over, others may wait again.
    assert!(may_wait(|n| {
        let _ = quiet(n, Opcode::RcSendOnly, 2, 1);
        let _ = only(n, 1);
        let _ = only(n, 2);
    }));
    assert!(may_wait(|n| {
        n.recv.set_psn(START + 9);
        let _ = only(n, 9);
    }));
}

#[test]
fn an_acknowledgement_that_waits_is_sent_once_or_stays() {
    let mut n = with_recvs(2);
    let mut sent = Vec::new();
    assert!(n.recv.send_ack_by(|_| unreachable!("there is none")));
    let _ = only(&mut n, 0);
    assert!(!n.recv.send_ack_by(|_| Err(TxError::Blocked)));
    assert!(n.recv.owes());
    assert!(n.recv.send_ack_by(|packet| {
        sent.push(*packet);
        Ok(())
    }));
    assert!(!n.recv.owes());
    assert!(n.recv.send_ack_by(|_| unreachable!("it is sent")));
    let aeth = Aeth {
        syndrome: ACK,
        msn: Msn::new(1),
    };
    assert_eq!((sent[0].opcode, sent[0].psn), (Opcode::RcAck, START));
    assert_eq!(sent[0].ext, Ext::Aeth(aeth));
    assert_eq!(sent[0].dest, Dest::Peer(Qpn(9)));
    assert_eq!((sent[0].payload, sent[0].mtu), (Payload::None, MTU));
}

#[test]
fn a_duplicate_does_not_hide_a_gap() {
    let mut n = with_recvs(3);
    let _ = only(&mut n, 0);
    assert_eq!(poll(&mut n, T0).len(), 1);
    n.host.room = Some(0);
    let _ = only(&mut n, 2);
    let _ = only(&mut n, 0);
    n.host.room = None;
    assert_eq!(syndromes(&poll(&mut n, T0)), [(1, MISSING)]);
}

#[test]
fn events_are_counted() {
    let mut n = with_recvs(3);
    let _ = only(&mut n, 0);
    let _ = only(&mut n, 0);
    assert_eq!(
        quiet(&mut n, Opcode::RcSendOnly, 0, 1),
        Disposition::Dropped(DropCause::Duplicate)
    );
    let _ = poll(&mut n, T0);
    assert_eq!(
        n.host.counts,
        [
            Counter::Recv,
            Counter::DuplicateRequest,
            Counter::DuplicateRequest
        ]
    );
    n.host.counts.clear();
    // A gap counts once, however many come after it.
    for psn in [2, 3, 4] {
        let _ = only(&mut n, psn);
        let _ = poll(&mut n, T0);
    }
    assert_eq!(n.host.counts, [Counter::OutOfSequenceRequest]);
    n.host.counts.clear();
    let _ = only(&mut n, 1);
    let _ = only(&mut n, 2);
    assert_eq!(n.host.counts, [Counter::Recv; 2]);
    n.host.counts.clear();
    // Not being ready counts each time that it is said.
    for _ in 0..2 {
        let _ = only(&mut n, 3);
        let _ = poll(&mut n, T0);
    }
    assert_eq!(n.host.counts, [Counter::RnrSent; 2]);
    n.host.counts.clear();
    // Writes, reads and what is only owed do not count.
    let mut n = with_recvs(1);
    let write = Ext::Reth(reth(4));
    let _ = give(&mut n, T0, Opcode::RcWriteOnly, 0, write, &[0; 4]);
    let _ = give(&mut n, T0, Opcode::RcReadRequest, 1, write, &[]);
    let _ = poll(&mut n, T0);
    assert_eq!(n.host.counts, []);
    let imm = Ext::RethImm(reth(4), ImmDt([0; 4]));
    let _ = give(&mut n, T0, Opcode::RcWriteOnlyImm, 2, imm, &[0; 4]);
    assert_eq!(n.host.counts, [Counter::Recv]);
}

#[test]
fn a_piece_of_a_neighbour_is_not_kept() {
    let mut n = node();
    for (mtu, done) in [
        (None, Disposition::Early),
        (Some(MTU), Disposition::Dropped(DropCause::OutOfSequence)),
    ] {
        let packet = RxPacket {
            opcode: Opcode::RcSendOnly,
            psn: START + 1,
            ack_req: false,
            solicited: false,
            ext: Ext::None,
            len: 0,
            mtu,
        };
        assert_eq!(n.recv.on_request(&packet, &mut n.host), done);
    }
}

#[test]
fn early_packets_of_an_old_psn_cycle_are_forgotten() {
    let mut n = with_recvs(1);
    let mut attr = *n.recv.attr();
    attr.mtu = 1;
    n.recv.set_attr(attr);
    n.host.regions[0].bytes = vec![0; 1 << 23];
    n.host.room = Some(0);
    // More than half the circle of PSNs goes by, in order.
    let mut psn = 0;
    for length in [1 << 23, 8] {
        let ext = Ext::Reth(reth(length));
        let done = give(&mut n, T0, Opcode::RcReadRequest, psn, ext, &[]);
        assert_eq!(done, Disposition::Done);
        psn += length as i32;
        drop(n.recv.set_resources(vec![Resource::EMPTY; 2]));
        assert!(!n.recv.owes());
    }
    let _ = only(&mut n, psn);
    assert!(n.recv.ack_may_wait());
}

#[test]
fn a_refusal_and_the_flush_behind_it_share_a_budget() {
    let mut n = with_recvs(3);
    let body = [0; MTU as usize];
    let _ = give(&mut n, T0, Opcode::RcSendMiddle, 0, Ext::None, &body);
    assert_eq!(n.recv.poll(&mut n.host, 2), Progress::More);
    assert_eq!(syndromes(&seen(&mut n)), [(0, INVALID)]);
    assert_eq!(received(&n).len(), 1);
    assert_eq!(n.host.events, [QpEvent::RequestError, QpEvent::RecvFailed]);
}

/// A packet is missing: how many come before the peer is told. Then it comes, and again if it
/// was only late.
fn gap(n: &mut Node, base: &mut u32, late: bool) -> u32 {
    let psn = *base;
    let told = (1..=400)
        .find(|k| {
            let early = quiet(n, Opcode::RcSendOnly, psn + k, 0);
            assert_eq!(early, Disposition::Early);
            !poll(n, T0).is_empty()
        })
        .expect("told at some time");
    for k in 0..=told {
        let _ = quiet(n, Opcode::RcSendOnly, psn + k, 0);
    }
    if late {
        let _ = quiet(n, Opcode::RcSendOnly, psn, 0);
    }
    let _ = poll(n, T0);
    *base = psn + told + 1;
    told
}

#[test]
fn premature_naks_raise_the_threshold_which_falls_again() {
    let mut n = with_recvs(10_000);
    let mut base = 0;
    let waits: Vec<_> = (0..9).map(|_| gap(&mut n, &mut base, true)).collect();
    assert_eq!(waits, [3, 6, 12, 24, 48, 96, 192, 256, 256]);
    // Whatever does not come twice while four others are told was lost.
    let waits: Vec<_> = (0..13).map(|_| gap(&mut n, &mut base, false)).collect();
    assert_eq!(
        waits,
        [256, 256, 256, 256, 256, 128, 64, 32, 16, 8, 4, 3, 3]
    );
    // One of four may still turn out to have been late.
    let _ = quiet(&mut n, Opcode::RcSendOnly, base - 8, 0);
    let _ = poll(&mut n, T0);
    assert_eq!(gap(&mut n, &mut base, false), 6);
}

#[test]
fn a_reset_forgets_what_came_early() {
    let mut n = node();
    let _ = quiet(&mut n, Opcode::RcSendOnly, 3, 1);
    for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
        n.modify(state).expect("in order");
    }
    // The PSN is what it was.
    post_recv(&mut n, 0, 9);
    let _ = only(&mut n, 0);
    assert!(n.recv.ack_may_wait());
    assert_eq!(syndromes(&poll(&mut n, T0)), [(0, ACK)]);
}

#[test]
fn answers_are_repeated_oldest_first_whatever_the_order_of_asking() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let places = 1 + rng.below(5);
        let asked = (places + rng.below(7)) as i32;
        let mut n = node_of(QpType::Rc, places as usize);
        for psn in 0..asked {
            let _ = give(&mut n, T0, Opcode::RcFetchAdd, psn, atomic(), &[]);
            assert_eq!(poll(&mut n, T0).len(), 1);
        }
        n.host.room = Some(0);
        let mut again = Vec::new();
        for _ in 0..rng.below(9) {
            let psn = rng.below(asked as u32) as i32;
            let _ = give(&mut n, T0, Opcode::RcFetchAdd, psn, atomic(), &[]);
            // As many are kept as there are places.
            if psn >= asked - places as i32 {
                again.push(psn);
            }
        }
        again.sort_unstable();
        again.dedup();
        assert_eq!(n.recv.owes(), !again.is_empty());
        n.host.room = None;
        let out: Vec<_> = poll(&mut n, T0).iter().map(|p| p.psn).collect();
        assert_eq!(out, again, "seed {seed}");
        assert!(!n.recv.owes());
        assert_eq!(n.host.atomics_run, asked as u32);
    }
}

#[test]
fn each_operation_has_its_right() {
    let (read, write) = (AccessFlags::REMOTE_READ, AccessFlags::REMOTE_WRITE);
    let (atomics, flush) = (AccessFlags::REMOTE_ATOMIC, AccessFlags::FLUSH_GLOBAL);
    let mut cases = answered().to_vec();
    cases.push((Opcode::RcWriteOnly, Ext::Reth(reth(4)), &[1; 4]));
    cases.push((Opcode::RcSendOnly, Ext::None, &[1; 4]));
    for (opcode, ext, payload) in cases {
        let needs = match opcode {
            Opcode::RcReadRequest => read,
            Opcode::RcFetchAdd | Opcode::RcCompareSwap => atomics,
            Opcode::RcAtomicWrite | Opcode::RcWriteOnly => write,
            Opcode::RcFlush => flush,
            _ => AccessFlags::NONE,
        };
        // All rights of which one is missing, or one alone.
        for one in [read, write, atomics, flush] {
            for access in [one, AccessFlags(!one.0)] {
                let mut n = with_recvs(1);
                let mut attr = *n.recv.attr();
                attr.access = access;
                n.recv.set_attr(attr);
                let _ = give(&mut n, T0, opcode, 0, ext, payload);
                let may = access.contains(needs);
                let refused = syndromes(&poll(&mut n, T0)) == [(0, INVALID)];
                assert_eq!(refused, !may, "{opcode:?} {access:?}");
            }
        }
    }
}
