// SPDX-License-Identifier: GPL-2.0

//! How requests are cut into packets: every kind of message at every length that makes a
//! difference, sent once and sent again from any place.

use crate::common::*;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
const IMM: [u8; 4] = [1, 2, 3, 4];
const LENGTHS: [u32; 9] = [
    0,
    1,
    MTU - 1,
    MTU,
    MTU + 1,
    2 * MTU - 1,
    2 * MTU,
    2 * MTU + 1,
    4 * MTU,
];

/// The opcodes of a message: first, middle, last, only.
type Row = [Opcode; 4];

fn row(kind: QpType, op: &SendOp) -> Row {
    match (kind, op) {
        (QpType::Rc, SendOp::Send { imm: None }) => [
            Opcode::RcSendFirst,
            Opcode::RcSendMiddle,
            Opcode::RcSendLast,
            Opcode::RcSendOnly,
        ],
        (QpType::Rc, SendOp::Send { imm: Some(_) }) => [
            Opcode::RcSendFirst,
            Opcode::RcSendMiddle,
            Opcode::RcSendLastImm,
            Opcode::RcSendOnlyImm,
        ],
        (QpType::Rc, SendOp::SendInv { .. }) => [
            Opcode::RcSendFirst,
            Opcode::RcSendMiddle,
            Opcode::RcSendLastInv,
            Opcode::RcSendOnlyInv,
        ],
        (QpType::Rc, SendOp::Write { imm: None, .. }) => [
            Opcode::RcWriteFirst,
            Opcode::RcWriteMiddle,
            Opcode::RcWriteLast,
            Opcode::RcWriteOnly,
        ],
        (QpType::Rc, SendOp::Write { imm: Some(_), .. }) => [
            Opcode::RcWriteFirst,
            Opcode::RcWriteMiddle,
            Opcode::RcWriteLastImm,
            Opcode::RcWriteOnlyImm,
        ],
        (QpType::Uc, SendOp::Send { imm: None }) => [
            Opcode::UcSendFirst,
            Opcode::UcSendMiddle,
            Opcode::UcSendLast,
            Opcode::UcSendOnly,
        ],
        (QpType::Uc, SendOp::Send { imm: Some(_) }) => [
            Opcode::UcSendFirst,
            Opcode::UcSendMiddle,
            Opcode::UcSendLastImm,
            Opcode::UcSendOnlyImm,
        ],
        (QpType::Uc, SendOp::Write { imm: None, .. }) => [
            Opcode::UcWriteFirst,
            Opcode::UcWriteMiddle,
            Opcode::UcWriteLast,
            Opcode::UcWriteOnly,
        ],
        (QpType::Uc, SendOp::Write { imm: Some(_), .. }) => [
            Opcode::UcWriteFirst,
            Opcode::UcWriteMiddle,
            Opcode::UcWriteLastImm,
            Opcode::UcWriteOnlyImm,
        ],
        _ => unreachable!(),
    }
}

/// What a message is made of. Who asks for an acknowledgement is another matter.
fn model(kind: QpType, op: SendOp, length: u32, solicited: bool) -> Vec<Seen> {
    let [first, middle, last, only] = row(kind, &op);
    let count = length.div_ceil(MTU).max(1);
    let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
    let mut parts: Vec<&[u8]> = bytes.chunks(MTU as usize).collect();
    parts.resize(count as usize, &[]);
    (0..count)
        .zip(parts)
        .map(|(k, part)| {
            let (start, end) = (k == 0, k == count - 1);
            let opcode = match (start, end) {
                (true, true) => only,
                (true, false) => first,
                (false, true) => last,
                (false, false) => middle,
            };
            let reth = Reth {
                va: BASE,
                rkey: KEY.0,
                length,
            };
            let ext = match op {
                SendOp::Send { imm: Some(imm) } if end => Ext::Imm(ImmDt(imm)),
                SendOp::SendInv { key } if end => Ext::Ieth(Ieth { rkey: key.0 }),
                SendOp::Write { imm: Some(imm), .. } if start && end => {
                    Ext::RethImm(reth, ImmDt(imm))
                }
                SendOp::Write { .. } if start => Ext::Reth(reth),
                SendOp::Write { imm: Some(imm), .. } if end => Ext::Imm(ImmDt(imm)),
                _ => Ext::None,
            };
            // Only what ends in a completion can wake somebody.
            let completes = !matches!(op, SendOp::Write { imm: None, .. });
            Seen {
                opcode,
                psn: k as i32,
                ack_req: false,
                solicited: solicited && end && completes,
                ext,
                payload: part.to_vec(),
            }
        })
        .collect()
}

fn messages() -> [SendOp; 5] {
    let (va, key, imm) = (BASE, KEY, Some(IMM));
    [
        send(),
        SendOp::Send { imm },
        SendOp::Write { va, key, imm: None },
        SendOp::Write { va, key, imm },
        SendOp::SendInv { key },
    ]
}

fn cut(n: &mut Node, now: Nanos) -> Vec<Seen> {
    let mut seen = poll(n, now);
    for packet in &mut seen {
        packet.ack_req = false;
    }
    seen
}

#[test]
fn every_message_is_cut_by_the_table() {
    for kind in [QpType::Rc, QpType::Uc] {
        for op in messages() {
            if kind == QpType::Uc && matches!(op, SendOp::SendInv { .. }) {
                continue;
            }
            for length in LENGTHS {
                for solicited in [false, true] {
                    let mut n = node_of(kind, 2);
                    post_with(&mut n, op, length, |w| w.flags.solicited = solicited);
                    let want = model(kind, op, length, solicited);
                    let out = poll(&mut n, T0);
                    // The last packet asks, of a reliable connection.
                    let asks: Vec<_> = out.iter().map(|p| p.ack_req).collect();
                    let (last, before) = asks.split_last().expect("packets");
                    assert_eq!(*last, kind == QpType::Rc);
                    assert!(before.iter().all(|ask| !ask));
                    let mut out = out;
                    out.last_mut().expect("packets").ack_req = false;
                    assert_eq!(out, want, "{kind:?} {op:?} {length}");
                }
            }
        }
    }
}

#[test]
fn retransmissions_equal_the_original() {
    for op in messages() {
        for length in LENGTHS {
            let want = model(QpType::Rc, op, length, false);
            for from in 0..want.len() {
                let mut n = node();
                post(&mut n, op, length);
                assert_eq!(cut(&mut n, T0), want);
                // All from there on, after a wait.
                assert_eq!(rnr(&mut n, T0, from as i32), Disposition::Done);
                let then = n.send.next_deadline().expect("a wait");
                assert_eq!(cut(&mut n, then), want[from..], "{op:?} {length}");
                // That packet alone.
                assert_eq!(
                    nak(&mut n, then, from as i32, NakCode::PsnSequence),
                    Disposition::Done
                );
                assert_eq!(cut(&mut n, then), want[from..=from], "{op:?} {length}");
                let last = want.len() as i32 - 1;
                assert_eq!(ack(&mut n, then, last), Disposition::Done);
                assert_eq!(done(&n), [(0, WcStatus::Success)]);
                let next = START + want.len() as u32;
                assert_eq!(n.send.psn(), next);
            }
        }
    }
}

/// A request, its length, and its packet: opcode, headers, payload, how many PSNs it takes.
type Single = (SendOp, u32, Opcode, Ext, &'static [u8], u32);

#[test]
fn reads_and_atomics_are_one_request_packet() {
    let (va, key) = (BASE + 8, KEY);
    let reth = |length| Reth {
        va,
        rkey: key.0,
        length,
    };
    let atomic = |swap_or_add, compare| {
        Ext::AtomicEth(AtomicEth {
            va,
            rkey: key.0,
            swap_or_add,
            compare,
        })
    };
    let flush = |kind, level| SendOp::Flush {
        va,
        key,
        length: 77,
        kind,
        level,
    };
    let feth = |placement, selectivity| {
        let feth = Feth {
            placement,
            selectivity,
        };
        Ext::FethReth(feth, reth(77))
    };
    let cases: [Single; 9] = [
        (
            SendOp::Read { va, key },
            0,
            Opcode::RcReadRequest,
            Ext::Reth(reth(0)),
            &[],
            1,
        ),
        (
            SendOp::Read { va, key },
            MTU,
            Opcode::RcReadRequest,
            Ext::Reth(reth(MTU)),
            &[],
            1,
        ),
        (
            SendOp::Read { va, key },
            MTU + 1,
            Opcode::RcReadRequest,
            Ext::Reth(reth(MTU + 1)),
            &[],
            2,
        ),
        (
            SendOp::CompareSwap {
                va,
                key,
                compare: 3,
                swap: 5,
            },
            8,
            Opcode::RcCompareSwap,
            atomic(5, 3),
            &[],
            1,
        ),
        (
            SendOp::FetchAdd { va, key, add: 9 },
            8,
            Opcode::RcFetchAdd,
            atomic(9, 0),
            &[],
            1,
        ),
        (
            SendOp::AtomicWrite {
                va,
                key,
                value: [8, 7, 6, 5, 4, 3, 2, 1],
            },
            8,
            Opcode::RcAtomicWrite,
            Ext::Reth(reth(8)),
            &[8, 7, 6, 5, 4, 3, 2, 1],
            1,
        ),
        (flush(1, 0), 0, Opcode::RcFlush, feth(1, 0), &[], 1),
        (flush(2, 1), 0, Opcode::RcFlush, feth(2, 1), &[], 1),
        (flush(3, 1), 3 * MTU, Opcode::RcFlush, feth(3, 1), &[], 1),
    ];
    for (op, length, opcode, ext, payload, psns) in cases {
        let mut n = node();
        post_with(&mut n, op, length, |w| w.flags.solicited = true);
        let want = Seen {
            opcode,
            psn: 0,
            ack_req: true,
            // Nobody completes anything there.
            solicited: false,
            ext,
            payload: payload.to_vec(),
        };
        assert_eq!(poll(&mut n, T0), [want], "{op:?}");
        assert_eq!(n.send.psn(), START + psns);
    }
}

#[test]
fn a_read_asks_from_any_place_for_the_rest() {
    for length in LENGTHS {
        let count = length.div_ceil(MTU).max(1);
        for had in 0..count {
            let mut n = node();
            post(&mut n, read(), length);
            assert_eq!(poll(&mut n, T0).len(), 1);
            for psn in 0..had {
                let opcode = if psn == 0 {
                    Opcode::RcReadRespFirst
                } else {
                    Opcode::RcReadRespMiddle
                };
                let ext = if psn == 0 {
                    aeth(AethSyndrome::ACK)
                } else {
                    Ext::None
                };
                let got = give(&mut n, T0, opcode, psn as i32, ext, &[7; MTU as usize]);
                assert_eq!(got, Disposition::Done);
            }
            let now = n.send.next_deadline().expect("a deadline");
            n.send.on_timer(now, &mut n.host);
            let out = poll(&mut n, now);
            assert_eq!(brief(&out), [(Opcode::RcReadRequest, had as i32)]);
            let rest = Reth {
                va: BASE + u64::from(had * MTU),
                rkey: KEY.0,
                length: length - had * MTU,
            };
            assert_eq!(out[0].ext, Ext::Reth(rest));
            assert_eq!(n.send.psn(), START + count);
        }
    }
}
