// SPDX-License-Identifier: GPL-2.0

//! `modify_qp`: numbers, a few rows by hand, and laws of the whole table. The
//! judge of all of it is the C core, in `tools/testing/kunit/core`.

use rdma_core_engines::proto::modify_qp::check;
use rdma_core_engines::proto::modify_qp::follows;
use rdma_core_engines::proto::modify_qp::judge;
use rdma_core_engines::proto::modify_qp::takes;
use rdma_core_engines::proto::modify_qp::Attrs;
use rdma_core_engines::proto::modify_qp::QpState;
use rdma_core_engines::proto::modify_qp::QpType;
use rdma_core_engines::proto::modify_qp::Refusal;

#[test]
fn numbers_are_the_headers() {
    for (i, state) in QpState::ALL.into_iter().enumerate() {
        assert_eq!(state.raw() as usize, i);
        assert_eq!(QpState::from_raw(state.raw()), Some(state));
    }
    assert_eq!(QpState::from_raw(7), None);
    for qp_type in QpType::ALL {
        assert_eq!(QpType::from_raw(qp_type.raw()), Some(qp_type));
    }
    for unnamed in [7, 11, 0xff, 0x1000, u32::MAX] {
        assert_eq!(QpType::from_raw(unnamed), None);
    }
    assert_eq!(Attrs::DEST_QPN.0, 1 << 20);
    assert_eq!(Attrs::RATE_LIMIT.0, 1 << 25);
}

#[test]
fn a_reliable_connection_is_set_up() {
    let init = Attrs(0x1 | 0x10 | 0x20 | 0x8);
    assert!(check(QpState::Reset, QpState::Init, QpType::Rc, init));
    assert_eq!(
        judge(
            QpState::Reset,
            QpState::Init,
            QpType::Rc,
            init.without(Attrs::PORT)
        ),
        Err(Refusal::Missing(Attrs::PORT))
    );
    assert_eq!(
        judge(
            QpState::Reset,
            QpState::Init,
            QpType::Rc,
            init.and(Attrs::QKEY)
        ),
        Err(Refusal::NotAllowed(Attrs::QKEY))
    );
    let rtr = takes(QpState::Init, QpState::Rtr, QpType::Rc);
    // AV, PATH_MTU, RQ_PSN, MIN_RNR_TIMER, MAX_DEST_RD_ATOMIC, DEST_QPN
    assert_eq!(rtr.required, Attrs(0x0012_9180));
    // ACCESS_FLAGS, PKEY_INDEX, ALT_PATH
    assert_eq!(rtr.optional, Attrs(0x4018));
}

#[test]
fn claims_and_unknown_bits() {
    assert_eq!(
        judge(
            QpState::Init,
            QpState::Rtr,
            QpType::Ud,
            Attrs::CUR_STATE.and(Attrs::STATE)
        ),
        Err(Refusal::Claim)
    );
    assert!(check(
        QpState::Sqe,
        QpState::Rts,
        QpType::Ud,
        Attrs::CUR_STATE
    ));
    assert!(!check(
        QpState::Sqe,
        QpState::Rts,
        QpType::Rc,
        Attrs::CUR_STATE
    ));
    assert_eq!(
        judge(QpState::Err, QpState::Rts, QpType::Rc, Attrs::STATE),
        Err(Refusal::NoSuchChange)
    );
    for bit in 26..32 {
        let odd = Attrs(1 << bit);
        assert_eq!(
            judge(QpState::Err, QpState::Reset, QpType::Rc, odd),
            Err(Refusal::NotAllowed(odd))
        );
    }
}

#[test]
fn laws_of_the_table() {
    let mut changes = 0;
    for qp_type in QpType::ALL {
        for from in QpState::ALL {
            for to in QpState::ALL {
                let takes = takes(from, to, qp_type);
                if !follows(from, to) {
                    assert_eq!(takes, Default::default(), "rules for no change");
                    continue;
                }
                changes += 1;
                assert_eq!(takes.required.0 & takes.optional.0, 0, "both needs at once");
                // The new state is never part of the rules, and always allowed.
                assert_eq!(takes.required.and(takes.optional).0 & 1, 0);
                assert!(check(from, to, qp_type, takes.required.and(Attrs::STATE)));
                // Reset and error need nothing and take nothing.
                if matches!(to, QpState::Reset | QpState::Err) {
                    assert_eq!(takes, Default::default());
                }
                // Each subset law by one bit: less than required, more than allowed.
                for bit in (0..32).map(|i| Attrs(1 << i)) {
                    let given = takes.required.without(bit);
                    assert_eq!(
                        check(from, to, qp_type, given),
                        given == takes.required,
                        "{qp_type:?} {from:?} {to:?} {bit:?}"
                    );
                }
            }
        }
    }
    assert_eq!(changes, 22 * QpType::ALL.len());
}

/// What each type takes for each change, required and optional, as the C core's
/// `qp_state_table` has it.
#[test]
fn the_whole_table() {
    use QpState::*;
    type Masks = (u32, u32);
    const NONE: Masks = (0, 0);
    // Of QP 0 and 1, UD, UC, RC, and the two ends of XRC.
    let table: [(QpState, QpState, [Masks; 6]); 9] = [
        (
            Reset,
            Init,
            [
                (0x50, 0),
                (0x70, 0),
                (0x38, 0),
                (0x38, 0),
                (0x38, 0),
                (0x38, 0),
            ],
        ),
        (
            Init,
            Init,
            [
                (0, 0x50),
                (0, 0x70),
                (0, 0x38),
                (0, 0x38),
                (0, 0x38),
                (0, 0x38),
            ],
        ),
        (
            Init,
            Rtr,
            [
                (0, 0x50),
                (0, 0x50),
                (0x10_1180, 0x4018),
                (0x12_9180, 0x4018),
                (0x10_1180, 0x4018),
                (0x12_9180, 0x4018),
            ],
        ),
        (
            Rtr,
            Rts,
            [
                (0x1_0000, 0x42),
                (0x1_0000, 0x42),
                (0x1_0000, 0x4_400a),
                (0x1_2e00, 0x4_c00a),
                (0x1_2e00, 0x4_400a),
                (0x1_0200, 0x4_c00a),
            ],
        ),
        (
            Rts,
            Rts,
            [
                (0, 0x42),
                (0, 0x42),
                (0, 0x4_400a),
                (0, 0x4_c00a),
                (0, 0x4_400a),
                (0, 0x4_c00a),
            ],
        ),
        (Rts, Sqd, [(0, 4); 6]),
        (
            Sqd,
            Rts,
            [
                (0, 0x42),
                (0, 0x42),
                (0, 0x4_400a),
                (0, 0x4_c00a),
                (0, 0x4_400a),
                (0, 0x4_c00a),
            ],
        ),
        (
            Sqd,
            Sqd,
            [
                (0, 0x50),
                (0, 0x50),
                (0, 0x4_4098),
                (0, 0x6_eeb8),
                (0, 0x4_6eb8),
                (0, 0x6_c2b8),
            ],
        ),
        (Sqe, Rts, [(0, 0x42), (0, 0x42), (0, 0xa), NONE, NONE, NONE]),
    ];
    for from in QpState::ALL {
        for to in QpState::ALL {
            let row = table.iter().find(|row| (row.0, row.1) == (from, to));
            for qp_type in QpType::ALL {
                let (required, optional) = match (row, qp_type) {
                    (Some(row), QpType::Smi | QpType::Gsi) => row.2[0],
                    (Some(row), QpType::Ud) => row.2[1],
                    (Some(row), QpType::Uc) => row.2[2],
                    (Some(row), QpType::Rc) => row.2[3],
                    (Some(row), QpType::XrcIni) => row.2[4],
                    (Some(row), QpType::XrcTgt) => row.2[5],
                    // A port, and nothing else.
                    (Some((Reset, Init, _)), QpType::RawPacket) => (0x20, 0),
                    (_, _) => NONE,
                };
                let takes = takes(from, to, qp_type);
                assert_eq!(
                    (takes.required.0, takes.optional.0),
                    (required, optional),
                    "{from:?} {to:?} {qp_type:?}"
                );
            }
        }
    }
}
