// SPDX-License-Identifier: GPL-2.0

//! The receive side, rule by rule.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
const ACK: AethSyndrome = AethSyndrome::ACK;
use WcStatus::Success;

fn nak_of(code: NakCode) -> AethSyndrome {
    AethSyndrome::Nak(code)
}

fn reth(va: u64, key: Key, length: u32) -> Reth {
    Reth {
        va,
        rkey: key.0,
        length,
    }
}

fn send_only(n: &mut Node, psn: i32, payload: &[u8]) -> Disposition {
    give(n, T0, Opcode::RcSendOnly, psn, Ext::None, payload)
}

fn ask_read(n: &mut Node, psn: i32, va: u64, length: u32) -> Disposition {
    let ext = Ext::Reth(reth(va, KEY, length));
    give(n, T0, Opcode::RcReadRequest, psn, ext, &[])
}

fn ask_add(n: &mut Node, psn: i32, va: u64) -> Disposition {
    let eth = AtomicEth {
        va,
        rkey: KEY.0,
        swap_or_add: 5,
        compare: 0,
    };
    give(n, T0, Opcode::RcFetchAdd, psn, Ext::AtomicEth(eth), &[])
}

/// The request is refused, and the queue pair ends.
fn refused(n: &mut Node, psn: i32, code: NakCode) {
    let out = poll(n, T0);
    assert_eq!(syndromes(&out), [(psn, nak_of(code))]);
    assert_eq!(n.state, QpState::Err);
    let late = send_only(n, psn, &[]);
    assert_eq!(late, Disposition::Dropped(DropCause::State));
}

#[test]
fn a_run_is_acknowledged_once() {
    let mut n = node();
    for k in 0..4 {
        post_recv(&mut n, k, 10);
        assert_eq!(
            send_only(&mut n, k as i32, &[k as u8; 3]),
            Disposition::Done
        );
    }
    assert_eq!(syndromes(&poll(&mut n, T0)), [(3, ACK)]);
    assert_eq!(
        received(&n),
        [(0, Success), (1, Success), (2, Success), (3, Success)]
    );
    assert_eq!(n.host.recv_cq[3].1[..4], [3, 3, 3, 0]);
    assert_eq!(poll(&mut n, T0), []);
    assert_eq!(n.recv.msn().get(), 4);
}

#[test]
fn no_acknowledgement_unless_requested() {
    let mut n = node();
    post_recv(&mut n, 0, 10);
    n.host.payload.clear();
    let packet = RxPacket {
        opcode: Opcode::RcSendOnly,
        psn: START,
        ack_req: false,
        solicited: true,
        ext: Ext::None,
        len: 0,
        mtu: None,
    };
    let _ = n.recv.on_request(&packet, &mut n.host);
    assert_eq!(poll(&mut n, T0), []);
    assert!(n.host.recv_cq[0].0.solicited);
}

#[test]
fn a_gap_is_told_once() {
    let mut n = node();
    for k in 0..3 {
        post_recv(&mut n, k, 10);
    }
    assert_eq!(send_only(&mut n, 1, &[]), Disposition::Early);
    assert_eq!(
        syndromes(&poll(&mut n, T0)),
        [(0, nak_of(NakCode::PsnSequence))]
    );
    assert_eq!(send_only(&mut n, 3, &[]), Disposition::Early);
    assert_eq!(poll(&mut n, T0), []);
    assert!(!n.recv.is_due(START + 1));
    assert_eq!(send_only(&mut n, 0, &[]), Disposition::Done);
    assert!(n.recv.is_due(START + 1));
    assert_eq!(send_only(&mut n, 1, &[]), Disposition::Done);
    assert!(!n.recv.is_due(START + 3));
    // The peer asks what else is missing, and hears it at once, and once.
    let next = [(2, nak_of(NakCode::PsnSequence))];
    assert_eq!(syndromes(&poll(&mut n, T0)), next);
    assert_eq!(send_only(&mut n, 3, &[]), Disposition::Early);
    assert_eq!(poll(&mut n, T0), []);
    assert!(!n.host.counts.contains(&Counter::DuplicateRequest));
}

/// A packet that nobody asks an acknowledgement for.
fn silent(n: &mut Node, psn: u32) -> Disposition {
    n.host.payload.clear();
    let packet = RxPacket {
        opcode: Opcode::RcSendOnly,
        psn: START + psn,
        ack_req: false,
        solicited: false,
        ext: Ext::None,
        len: 0,
        mtu: None,
    };
    n.recv.on_request(&packet, &mut n.host)
}

#[test]
fn a_swap_is_no_gap() {
    let mut n = node();
    for k in 0..9 {
        post_recv(&mut n, k, 10);
    }
    // Two that came early are patience, the third is a gap.
    for psn in [2, 3] {
        assert_eq!(silent(&mut n, psn), Disposition::Early);
        assert_eq!(poll(&mut n, T0), []);
    }
    for psn in [0, 1, 2, 3] {
        assert_eq!(silent(&mut n, psn), Disposition::Done);
        assert_eq!(poll(&mut n, T0), []);
    }
    for psn in [5, 6, 7] {
        assert_eq!(silent(&mut n, psn), Disposition::Early);
    }
    let gap = [(4, nak_of(NakCode::PsnSequence))];
    assert_eq!(syndromes(&poll(&mut n, T0)), gap);
    // It came by itself, and then for the second time: that was too soon.
    let _ = silent(&mut n, 4);
    let _ = silent(&mut n, 4);
    let _ = poll(&mut n, T0);
    for psn in [6, 7, 8, 9, 10] {
        let _ = silent(&mut n, psn);
        assert_eq!(poll(&mut n, T0), []);
    }
    let _ = silent(&mut n, 11);
    let gap = [(5, nak_of(NakCode::PsnSequence))];
    assert_eq!(syndromes(&poll(&mut n, T0)), gap);
}

#[test]
fn packets_far_ahead_are_not_kept() {
    let mut n = node();
    let reach = early::REACH as i32;
    let lost = Disposition::Dropped(DropCause::OutOfSequence);
    assert_eq!(send_only(&mut n, reach - 1, &[]), Disposition::Early);
    assert_eq!(send_only(&mut n, reach, &[]), lost);
    assert_eq!(send_only(&mut n, (1 << 23) - 1, &[]), lost);
    n.modify(QpState::Err).expect("an error");
    // Nobody wants them any more.
    assert!(n.recv.is_due(START + 5));
}

#[test]
fn a_gap_that_closed_before_it_was_told_is_acknowledged() {
    let mut n = node();
    for k in 0..3 {
        post_recv(&mut n, k, 10);
    }
    n.host.room = Some(0);
    let _ = send_only(&mut n, 1, &[]);
    assert_eq!(poll(&mut n, T0), []);
    let _ = send_only(&mut n, 0, &[]);
    let _ = send_only(&mut n, 1, &[]);
    n.host.room = None;
    assert_eq!(syndromes(&poll(&mut n, T0)), [(1, ACK)]);

    // If it closed in part, the rest is told.
    n.host.room = Some(0);
    let _ = send_only(&mut n, 4, &[]);
    let _ = send_only(&mut n, 2, &[]);
    n.host.room = None;
    assert_eq!(
        syndromes(&poll(&mut n, T0)),
        [(3, nak_of(NakCode::PsnSequence))]
    );
}

#[test]
fn not_ready_leaves_no_trace() {
    let mut n = node();
    assert_eq!(send_only(&mut n, 0, &[1; 5]), Disposition::Done);
    // What follows it is dropped without another NAK.
    let _ = send_only(&mut n, 1, &[2; 5]);
    let timer = RnrTimer::new(5);
    assert_eq!(
        syndromes(&poll(&mut n, T0)),
        [(0, AethSyndrome::Rnr(timer))]
    );
    post_recv(&mut n, 0, 5);
    assert_eq!(send_only(&mut n, 0, &[1; 5]), Disposition::Done);
    assert_eq!(syndromes(&poll(&mut n, T0)), [(0, ACK)]);
    assert_eq!(n.host.recv_cq[0].1, [1; 5]);
}

#[test]
fn write_with_immediate_needs_a_receive_at_its_end() {
    let mut n = node();
    let body = [9; MTU as usize];
    let first = Ext::Reth(reth(BASE, KEY, MTU + 1));
    let imm = Ext::Imm(ImmDt([4, 3, 2, 1]));
    let _ = give(&mut n, T0, Opcode::RcWriteFirst, 0, first, &body);
    let _ = give(&mut n, T0, Opcode::RcWriteLastImm, 1, imm, &[8]);
    let timer = RnrTimer::new(5);
    assert_eq!(
        syndromes(&poll(&mut n, T0)),
        [(1, AethSyndrome::Rnr(timer))]
    );
    assert_eq!(
        n.host.regions[0].bytes[MTU as usize], 0,
        "not written before"
    );
    post_recv(&mut n, 3, 0);
    let _ = give(&mut n, T0, Opcode::RcWriteLastImm, 1, imm, &[8]);
    assert_eq!(syndromes(&poll(&mut n, T0)), [(1, ACK)]);
    let (c, _) = &n.host.recv_cq[0];
    assert_eq!((c.opcode, c.byte_len), (WcOpcode::RecvRdmaWithImm, MTU + 1));
    assert_eq!(c.imm, Some([4, 3, 2, 1]));
    assert_eq!(n.host.regions[0].bytes[MTU as usize], 8);
}

#[test]
fn repeated_sends_are_acknowledged_and_not_delivered() {
    let mut n = node();
    post_recv(&mut n, 0, 5);
    post_recv(&mut n, 1, 5);
    let _ = send_only(&mut n, 0, &[1; 5]);
    assert_eq!(poll(&mut n, T0).len(), 1);
    let again = send_only(&mut n, 0, &[1; 5]);
    assert_eq!(again, Disposition::Dropped(DropCause::Duplicate));
    assert_eq!(syndromes(&poll(&mut n, T0)), [(0, ACK)]);
    assert_eq!(received(&n), [(0, Success)]);
}

#[test]
fn a_repeated_atomic_returns_what_it_found() {
    let mut n = node();
    n.host.regions[0].bytes[..8].copy_from_slice(&7u64.to_ne_bytes());
    let _ = ask_add(&mut n, 0, BASE);
    let _ = ask_add(&mut n, 1, BASE);
    let first = poll(&mut n, T0);
    let _ = ask_add(&mut n, 0, BASE);
    let again = poll(&mut n, T0);
    assert_eq!(again, first[..1]);
    match again[0].ext {
        Ext::AethAtomicAck(aeth, found) => {
            assert_eq!((found.original, aeth.msn.get()), (7, 1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(n.host.atomics_run, 2);
    // Only as many are kept as may be outstanding.
    let _ = ask_add(&mut n, 2, BASE);
    assert_eq!(poll(&mut n, T0).len(), 1);
    let _ = ask_add(&mut n, 0, BASE);
    assert_eq!(poll(&mut n, T0), []);
    assert_eq!(n.host.atomics_run, 3);
}

#[test]
fn a_read_is_answered_in_parts_and_may_be_repeated_in_part() {
    let mut n = node();
    let whole = 3 * MTU + 2;
    let _ = ask_read(&mut n, 0, BASE, whole);
    let out = poll(&mut n, T0);
    let want = [
        (Opcode::RcReadRespFirst, 0),
        (Opcode::RcReadRespMiddle, 1),
        (Opcode::RcReadRespMiddle, 2),
        (Opcode::RcReadRespLast, 3),
    ];
    assert_eq!(brief(&out), want);
    assert_eq!(out[3].payload, [0, 1]);
    assert_eq!(n.recv.psn(), START + 4);
    // From the third packet on.
    let step = u64::from(MTU);
    let _ = ask_read(&mut n, 2, BASE + 2 * step, MTU + 2);
    let want = [(Opcode::RcReadRespMiddle, 2), (Opcode::RcReadRespLast, 3)];
    assert_eq!(brief(&poll(&mut n, T0)), want);
    // Beyond its end, before its start, with another key, with more PSNs: no.
    for (psn, va, len) in [
        (2, BASE + 2 * step, MTU + 3),
        (1, BASE - 1, 5),
        (3, BASE, MTU + 1),
        (1, u64::MAX, 5),
    ] {
        let _ = ask_read(&mut n, psn, va, len);
        assert_eq!(poll(&mut n, T0), []);
    }
    let other = Ext::Reth(reth(BASE, Key(0x101), whole));
    let _ = give(&mut n, T0, Opcode::RcReadRequest, 0, other, &[]);
    assert_eq!(poll(&mut n, T0), []);
    assert_eq!(n.state, QpState::Rts);
}

#[test]
fn responses_come_before_later_acknowledgements() {
    let mut n = node();
    post_recv(&mut n, 0, 5);
    n.host.room = Some(1);
    let _ = ask_read(&mut n, 0, BASE, 2 * MTU);
    let _ = send_only(&mut n, 2, &[1; 5]);
    let _ = ask_add(&mut n, 3, BASE);
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcReadRespFirst, 0)]);
    assert_eq!(received(&n), [(0, Success)], "executed all the same");
    n.host.room = None;
    // The atomic's response acknowledges the send before it.
    let want = [(Opcode::RcReadRespLast, 1), (Opcode::RcAtomicAck, 3)];
    assert_eq!(brief(&poll(&mut n, T0)), want);
}

#[test]
fn memory_that_goes_away_ends_a_read() {
    let mut n = node();
    n.host.room = Some(1);
    let _ = ask_read(&mut n, 0, BASE, 3 * MTU);
    assert_eq!(poll(&mut n, T0).len(), 1);
    n.host.regions[0].valid = false;
    n.host.room = None;
    assert_eq!(
        syndromes(&poll(&mut n, T0)),
        [(1, nak_of(NakCode::RemoteAccess))]
    );
    assert_eq!(n.host.events[0], QpEvent::AccessError);
    assert_eq!(n.state, QpState::Err);
}

#[test]
fn responses_due_before_an_error_are_sent() {
    let mut n = node();
    n.host.room = Some(0);
    let _ = ask_read(&mut n, 0, BASE, 2 * MTU);
    let bad = Ext::Reth(reth(BASE, Key(0x777), 4));
    let _ = give(&mut n, T0, Opcode::RcWriteOnly, 2, bad, &[0; 4]);
    assert_eq!(poll(&mut n, T0), []);
    assert_eq!(n.state, QpState::Rts, "not before the NAK is out");
    n.host.room = None;
    let want = [
        (Opcode::RcReadRespFirst, 0),
        (Opcode::RcReadRespLast, 1),
        (Opcode::RcAck, 2),
    ];
    assert_eq!(brief(&poll(&mut n, T0)), want);
    assert_eq!(n.state, QpState::Err);
}

#[test]
fn a_peer_may_not_ask_too_much_at_once() {
    let mut n = node();
    n.host.room = Some(0);
    for psn in 0..2 {
        assert_eq!(ask_read(&mut n, psn, BASE, 4), Disposition::Done);
    }
    let _ = ask_read(&mut n, 2, BASE, 4);
    n.host.room = None;
    assert_eq!(
        syndromes(&poll(&mut n, T0)),
        [(2, nak_of(NakCode::InvalidRequest))]
    );

    let mut n = node_of(QpType::Rc, 0);
    let _ = ask_read(&mut n, 0, BASE, 4);
    refused(&mut n, 0, NakCode::InvalidRequest);
}

#[test]
fn a_repeat_does_not_take_a_newer_requests_place() {
    let mut n = node();
    for psn in 0..2 {
        let _ = ask_add(&mut n, psn, BASE);
    }
    assert_eq!(poll(&mut n, T0).len(), 2);
    n.host.room = Some(0);
    let _ = ask_add(&mut n, 0, BASE);
    assert_eq!(ask_add(&mut n, 2, BASE), Disposition::Done);
    n.host.room = None;
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcAtomicAck, 2)]);
}

#[test]
fn empty_reads_and_writes_name_nothing() {
    let mut n = node();
    let nothing = Ext::Reth(reth(12, Key(34), 0));
    let _ = give(&mut n, T0, Opcode::RcWriteOnly, 0, nothing, &[]);
    let _ = give(&mut n, T0, Opcode::RcReadRequest, 1, nothing, &[]);
    assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcReadRespOnly, 1)]);
}

#[test]
fn lengths_must_be_what_they_should() {
    let whole = MTU as usize;
    let zeros = vec![0; 2 * whole];
    let write = |length| Ext::Reth(reth(BASE, KEY, length));
    let cases: &[(Opcode, Ext, usize)] = &[
        (Opcode::RcSendOnly, Ext::None, whole + 1),
        (Opcode::RcSendFirst, Ext::None, whole - 1),
        (Opcode::RcSendFirst, Ext::None, whole + 1),
        (Opcode::RcWriteOnly, write(5), 4),
        (Opcode::RcWriteOnly, write(4), 5),
        (Opcode::RcWriteOnly, write(MTU + 1), whole),
        (Opcode::RcWriteFirst, write(MTU), whole),
        (Opcode::RcWriteFirst, write((1 << 31) + 1), whole),
        (Opcode::RcReadRequest, write((1 << 31) + 1), 0),
        (Opcode::RcAtomicWrite, write(4), 8),
    ];
    for &(opcode, ext, len) in cases {
        let mut n = node();
        post_recv(&mut n, 0, 1000);
        let _ = give(&mut n, T0, opcode, 0, ext, &zeros[..len]);
        refused(&mut n, 0, NakCode::InvalidRequest);
    }
    // Later packets of a message.
    let cases: &[(Opcode, usize)] = &[
        (Opcode::RcWriteLast, whole),
        (Opcode::RcWriteLast, 0),
        (Opcode::RcWriteMiddle, whole),
        (Opcode::RcSendLast, 3),
        (Opcode::RcWriteOnly, 3),
    ];
    for &(opcode, len) in cases {
        let mut n = node();
        let _ = give(
            &mut n,
            T0,
            Opcode::RcWriteFirst,
            0,
            write(MTU + 3),
            &zeros[..whole],
        );
        let ext = if opcode == Opcode::RcWriteOnly {
            write(3)
        } else {
            Ext::None
        };
        let _ = give(&mut n, T0, opcode, 1, ext, &zeros[..len]);
        refused(&mut n, 1, NakCode::InvalidRequest);
        assert_eq!(n.host.events[0], QpEvent::RequestError);
    }
}

#[test]
fn a_message_beyond_the_buffers_ends_it() {
    let mut n = node();
    post_recv(&mut n, 0, MTU as usize + 1);
    post_recv(&mut n, 1, 1);
    let zeros = [0; MTU as usize];
    let _ = give(&mut n, T0, Opcode::RcSendFirst, 0, Ext::None, &zeros);
    let _ = give(&mut n, T0, Opcode::RcSendLast, 1, Ext::None, &[1, 2]);
    refused(&mut n, 1, NakCode::InvalidRequest);
    assert_eq!(
        received(&n),
        [(0, WcStatus::LocLen), (1, WcStatus::WrFlush)]
    );
    assert_eq!(n.host.events, [QpEvent::RecvFailed, QpEvent::LastRecv]);
    // A receive queue has no doorbell: polling finds what comes late.
    post_recv(&mut n, 2, 1);
    n.poll(T0, 9);
    assert_eq!(received(&n)[2], (2, WcStatus::WrFlush));
    assert_eq!(n.host.events.len(), 2);
}

#[test]
fn rights_are_those_of_queue_pair_and_key() {
    let write = Ext::Reth(reth(BASE, KEY, 4));
    let mut n = node();
    let mut attr = *n.recv.attr();
    attr.access = AccessFlags::REMOTE_READ;
    n.recv.set_attr(attr);
    let _ = give(&mut n, T0, Opcode::RcWriteOnly, 0, write, &[0; 4]);
    refused(&mut n, 0, NakCode::InvalidRequest);

    let mut n = node();
    n.host.regions[0].access = AccessFlags::REMOTE_READ;
    let _ = give(&mut n, T0, Opcode::RcWriteOnly, 0, write, &[0; 4]);
    refused(&mut n, 0, NakCode::RemoteAccess);
    assert_eq!(n.host.events[0], QpEvent::AccessError);

    // With a receive request to blame, there is no event.
    let mut n = node();
    n.host.regions[0].valid = false;
    post_recv(&mut n, 0, 0);
    let imm = Ext::RethImm(reth(BASE, KEY, 4), ImmDt([0; 4]));
    let _ = give(&mut n, T0, Opcode::RcWriteOnlyImm, 0, imm, &[0; 4]);
    refused(&mut n, 0, NakCode::RemoteAccess);
    assert_eq!(received(&n), [(0, WcStatus::LocAccess)]);
    assert_eq!(n.host.events, [QpEvent::RecvFailed, QpEvent::LastRecv]);

    let mut n = node();
    let _ = ask_add(&mut n, 0, BASE + 4);
    refused(&mut n, 0, NakCode::InvalidRequest);
}

#[test]
fn flushes_and_atomic_writes_are_answered_by_an_empty_response() {
    let mut n = node();
    let to = Ext::Reth(reth(BASE + 8, KEY, 8));
    let _ = give(&mut n, T0, Opcode::RcAtomicWrite, 0, to, &[6; 8]);
    let feth = Feth {
        placement: Feth::PERSISTENT,
        selectivity: Feth::REGION,
    };
    let flush = Ext::FethReth(feth, reth(0, KEY, 0));
    let _ = give(&mut n, T0, Opcode::RcFlush, 1, flush, &[]);
    let want = [(Opcode::RcReadRespOnly, 0), (Opcode::RcReadRespOnly, 1)];
    assert_eq!(brief(&poll(&mut n, T0)), want);
    assert_eq!(n.host.regions[0].bytes[8..16], [6; 8]);
    // Repeated, they are answered and not done again.
    n.host.regions[0].bytes[8] = 1;
    let _ = give(&mut n, T0, Opcode::RcAtomicWrite, 0, to, &[6; 8]);
    assert_eq!(poll(&mut n, T0).len(), 1);
    assert_eq!(n.host.regions[0].bytes[8], 1);
    for (placement, selectivity) in [(0, 0), (4, 0), (1, 2)] {
        let mut n = node();
        let feth = Feth {
            placement,
            selectivity,
        };
        let flush = Ext::FethReth(feth, reth(BASE, KEY, 8));
        let _ = give(&mut n, T0, Opcode::RcFlush, 0, flush, &[]);
        refused(&mut n, 0, NakCode::InvalidRequest);
    }
}

#[test]
fn each_kind_of_flush_has_its_right() {
    let (global, persistent) = (Feth::GLOBAL, Feth::PERSISTENT);
    let (may_global, may_persist) = (AccessFlags::FLUSH_GLOBAL, AccessFlags::FLUSH_PERSISTENT);
    for (placement, access, allowed) in [
        (global, may_global, true),
        (global, may_persist, false),
        (persistent, may_global, false),
        (persistent, may_persist, true),
        (global | persistent, may_global, false),
        (global | persistent, may_global.with(may_persist), true),
    ] {
        let mut n = node();
        let mut attr = *n.recv.attr();
        attr.access = access;
        n.recv.set_attr(attr);
        let feth = Feth {
            placement,
            selectivity: Feth::RANGE,
        };
        let flush = Ext::FethReth(feth, reth(BASE, KEY, 8));
        let _ = give(&mut n, T0, Opcode::RcFlush, 0, flush, &[]);
        if allowed {
            assert_eq!(brief(&poll(&mut n, T0)), [(Opcode::RcReadRespOnly, 0)]);
        } else {
            refused(&mut n, 0, NakCode::InvalidRequest);
        }
    }
}

#[test]
fn invalidation_comes_with_its_send() {
    let mut n = node();
    post_recv(&mut n, 0, 4);
    post_recv(&mut n, 1, 4);
    let _ = give(
        &mut n,
        T0,
        Opcode::RcSendOnlyInv,
        0,
        Ext::Ieth(Ieth { rkey: 5 }),
        &[],
    );
    assert_eq!(n.host.invalidated, [Key(5)]);
    assert_eq!(n.host.recv_cq[0].0.invalidated, Some(Key(5)));
    let _ = give(
        &mut n,
        T0,
        Opcode::RcSendOnlyInv,
        1,
        Ext::Ieth(Ieth { rkey: 0 }),
        &[],
    );
    refused(&mut n, 1, NakCode::RemoteAccess);
    assert_eq!(received(&n)[1], (1, WcStatus::RemInvReq));
}

#[test]
fn a_depth_that_is_no_power_of_two_serves_who_rounds_it_up() {
    for (depth, asked) in [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 4),
        (5, 8),
        (65, 128),
        (128, 128),
    ] {
        let mut n = node_of(QpType::Rc, rounded_depth(depth).into());
        for psn in 0..asked {
            assert_eq!(ask_read(&mut n, psn, BASE, 1), Disposition::Done);
        }
        // All of them are answered, none is refused.
        let out = poll(&mut n, T0);
        let answers = brief(&out)
            .iter()
            .filter(|(op, _)| *op == Opcode::RcReadRespOnly)
            .count();
        assert_eq!((answers, out.len()), (asked as usize, asked as usize));
        assert_eq!(n.state, QpState::Rts);
    }
    assert_eq!(rounded_depth(u8::MAX), u8::MAX);
}

#[test]
fn a_broken_uc_message_gives_its_receive_to_the_next() {
    let mut n = node_of(QpType::Uc, 0);
    post_recv(&mut n, 0, 2 * MTU as usize);
    let body = [1; MTU as usize];
    let _ = give(&mut n, T0, Opcode::UcSendFirst, 0, Ext::None, &body);
    let gone = give(&mut n, T0, Opcode::UcSendLast, 2, Ext::None, &[1]);
    assert_eq!(gone, Disposition::Dropped(DropCause::Disorder));
    let _ = give(&mut n, T0, Opcode::UcSendOnly, 9, Ext::None, &[2]);
    assert_eq!(received(&n), [(0, Success)]);
    assert_eq!(
        (n.host.recv_cq[0].0.byte_len, n.host.recv_cq[0].1[0]),
        (1, 2)
    );
    let none = give(&mut n, T0, Opcode::UcSendOnly, 15, Ext::None, &[2]);
    assert_eq!(none, Disposition::Dropped(DropCause::NoRecv));
    // What was not executed is what would come next, wherever it was.
    assert_eq!(n.recv.psn(), START + 15);
    let bad = Ext::Reth(reth(BASE, Key(0x777), 1));
    let none = give(&mut n, T0, Opcode::UcWriteOnly, 16, bad, &[2]);
    assert_eq!(none, Disposition::Dropped(DropCause::Access));
    assert_eq!(poll(&mut n, T0), []);
    assert_eq!(n.state, QpState::Rts);
}

#[test]
fn a_uc_message_after_a_loss_is_whole() {
    let mut n = node_of(QpType::Uc, 0);
    post_recv(&mut n, 0, 2 * MTU as usize);
    let body = [1; MTU as usize];
    let first = give(&mut n, T0, Opcode::UcSendFirst, 5, Ext::None, &body);
    assert_eq!(first, Disposition::Done);
    let last = give(&mut n, T0, Opcode::UcSendLast, 6, Ext::None, &[1]);
    assert_eq!(last, Disposition::Done);
    assert_eq!(received(&n), [(0, Success)]);
    assert_eq!(n.host.recv_cq[0].0.byte_len, MTU + 1);
}

#[test]
fn datagrams_need_key_and_room() {
    let mut n = node_of(QpType::Ud, 0);
    post_recv(&mut n, 0, 43);
    let deth = |qkey| Ext::Deth(Deth { qkey, src_qpn: 3 });
    let mut datagram =
        |qkey, payload: &[u8]| give(&mut n, T0, Opcode::UdSendOnly, 5, deth(qkey), payload);
    assert_eq!(datagram(78, &[1]), Disposition::Dropped(DropCause::Qkey));
    assert_eq!(
        datagram(77, &[1; 4]),
        Disposition::Dropped(DropCause::Length)
    );
    assert_eq!(datagram(77, &[1; 3]), Disposition::Done);
    assert_eq!(
        datagram(77, &[1; 3]),
        Disposition::Dropped(DropCause::NoRecv)
    );
    let (c, buf) = &n.host.recv_cq[0];
    assert_eq!(
        (c.byte_len, c.src_qpn, buf[39], buf[40]),
        (43, Some(Qpn(3)), 0xee, 1)
    );
}

#[test]
fn a_bad_receive_request_ends_a_datagram_queue() {
    for (kind, opcode, ext) in [
        (QpType::Uc, Opcode::UcSendOnly, Ext::None),
        (
            QpType::Ud,
            Opcode::UdSendOnly,
            Ext::Deth(Deth {
                qkey: 77,
                src_qpn: 3,
            }),
        ),
    ] {
        let mut n = node_of(kind, 0);
        post_recv(&mut n, 0, 100);
        n.host.rq[0].good = false;
        let _ = give(&mut n, T0, opcode, 0, ext, &[1]);
        assert_eq!(poll(&mut n, T0), []);
        assert_eq!(received(&n), [(0, WcStatus::LocQpOp)]);
        assert_eq!(n.state, QpState::Err);
    }
}

#[test]
fn a_closed_side_hears_nothing() {
    let mut n = node();
    n.modify(QpState::Reset).expect("reset");
    let deaf = Disposition::Dropped(DropCause::State);
    assert_eq!(send_only(&mut n, 0, &[]), deaf);
    n.modify(QpState::Init).expect("init");
    assert_eq!(send_only(&mut n, 0, &[]), deaf);
    assert_eq!(poll(&mut n, T0), []);
}

#[test]
fn of_equal_psns_the_newer_request_is_repeated() {
    let mut n = node();
    n.host.regions[0].bytes[..8].fill(0);
    let _ = ask_add(&mut n, 0, BASE);
    assert_eq!(poll(&mut n, T0).len(), 1);
    // As after a whole circle of sends.
    n.recv.set_psn(START);
    let _ = ask_add(&mut n, 0, BASE);
    let newer = poll(&mut n, T0);
    let _ = ask_add(&mut n, 0, BASE);
    assert_eq!(poll(&mut n, T0), newer);
    assert_eq!(n.host.atomics_run, 2);
}

#[test]
fn marks_are_told_once_in_a_while() {
    let mut n = node();
    let mut told = 0;
    for k in 0..10u64 {
        n.recv.on_mark(Nanos(k * 20_000), &mut n.host);
        let out = poll(&mut n, T0);
        told += out.len();
        for p in out {
            assert_eq!((p.opcode, p.psn + 1), (Opcode::Cnp, 3));
            assert!(!p.ack_req && !p.solicited && p.payload.is_empty());
        }
    }
    // At 0, 60, 120 and 180 us.
    assert_eq!(told, 4);
    let counted = |what| n.host.counts.iter().filter(|c| **c == what).count();
    assert_eq!(counted(Counter::Marked), 10);
    assert_eq!(counted(Counter::NoticeSent), 4);
    // Without room on the wire there is none, and none later.
    n.host.room = Some(0);
    n.recv.on_mark(Nanos(1_000_000), &mut n.host);
    assert_eq!(poll(&mut n, T0), []);
    n.host.room = None;
    assert_eq!(poll(&mut n, T0), []);
}
