// SPDX-License-Identifier: GPL-2.0

//! The send side of datagrams.

use crate::common::*;
use rxe_sim::proto::*;
use rxe_sim::wire::*;

const T0: Nanos = Nanos(0);
use WcStatus::Success;

#[test]
fn a_datagram_beyond_the_mtu_is_not_sent_and_succeeds() {
    let mut n = node_of(QpType::Ud, 0);
    let to = |w: &mut SendWqe| {
        w.ud = Some(UdDest {
            qpn: Qpn(9),
            qkey: 5,
        })
    };
    post_with(&mut n, send(), MTU + 1, to);
    post_with(&mut n, SendOp::Send { imm: Some([1; 4]) }, MTU, to);
    post(&mut n, send(), 1);
    let out = poll(&mut n, T0);
    assert_eq!(brief(&out), [(Opcode::UdSendOnlyImm, 1)]);
    let deth = Deth {
        qkey: 5,
        src_qpn: 7,
    };
    assert_eq!(out[0].ext, Ext::DethImm(deth, ImmDt([1; 4])));
    // The last one has no destination.
    assert_eq!(
        done(&n),
        [(0, Success), (1, Success), (2, WcStatus::LocQpOp)]
    );
}

#[test]
fn a_datagram_that_waits_is_the_next_to_go() {
    let mut n = node_of(QpType::Ud, 0);
    for id in 0..4 {
        post_with(&mut n, send(), 8, |w| {
            w.ud = Some(UdDest {
                qpn: Qpn(9),
                qkey: id,
            })
        });
    }
    n.host.room = Some(2);
    let mut out = Vec::new();
    assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Blocked);
    out.extend(seen(&mut n));
    assert_eq!(done(&n), [(0, Success), (1, Success)]);
    // It does not fit yet, and nothing passes it.
    n.host.room = Some(0);
    assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Blocked);
    assert_eq!(done(&n).len(), 2);
    n.host.room = None;
    assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Idle);
    out.extend(seen(&mut n));
    let all = [(0, Success), (1, Success), (2, Success), (3, Success)];
    assert_eq!(done(&n), all);
    let order: Vec<_> = out.iter().map(|p| (p.psn, p.ext)).collect();
    let want = [(0, 0), (1, 1), (2, 2), (3, 3)].map(|(psn, qkey)| {
        let deth = Deth { qkey, src_qpn: 7 };
        (psn, Ext::Deth(deth))
    });
    assert_eq!(order, want);
}

#[test]
fn a_failed_datagram_queue_can_be_enabled_again() {
    let mut n = node_of(QpType::Ud, 0);
    post(&mut n, send(), 1);
    let _ = n.send.poll(T0, &mut n.host, 9);
    assert_eq!(done(&n), [(0, WcStatus::LocQpOp)]);
    n.state = QpState::Rts;
    n.modify(QpState::Sqe).expect("rts to sqe");
    n.modify(QpState::Rts).expect("sqe to rts");
    post_with(&mut n, send(), 1, |w| {
        w.ud = Some(UdDest {
            qpn: Qpn(9),
            qkey: 5,
        })
    });
    assert_eq!(n.send.poll(T0, &mut n.host, 9), Progress::Idle);
    assert_eq!(seen(&mut n).len(), 1);
}
