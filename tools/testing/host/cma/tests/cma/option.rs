// SPDX-License-Identifier: GPL-2.0

//! When options are accepted.

use crate::state::every_state;
use rdma_cma_engines::proto::addr::Family;
use rdma_cma_engines::proto::option::Node;
use rdma_cma_engines::proto::option::Options;
use rdma_cma_engines::proto::option::QpType;
use rdma_cma_engines::proto::Refusal;

#[test]
fn reuse() {
    for state in every_state() {
        let number = state.raw();
        let mut options = Options::default();
        let may_permit = number != 8;
        assert_eq!(options.set_reuse(state, 1).is_ok(), may_permit);
        assert_eq!(options.reuse, may_permit);
        assert_eq!(options.set_reuse(state, 0).is_ok(), number == 0);
        assert_eq!(options.reuse, may_permit && number != 0);
        // A byte of it is kept.
        assert_eq!(options.set_reuse(state, 256).is_ok(), may_permit);
        assert!(!(may_permit && options.reuse));
    }
}

#[test]
fn afonly() {
    for state in every_state() {
        let mut options = Options::default();
        let may = [0, 7].contains(&state.raw());
        for value in [1, 0, 256, -1] {
            assert_eq!(options.set_afonly(state, value).is_ok(), may);
            assert_eq!(options.afonly, may.then_some(value as u8 != 0));
        }
    }
    let mut options = Options::default();
    for v6_only in [false, true] {
        assert!(options.is_afonly(Family::V4, v6_only));
        assert_eq!(options.is_afonly(Family::V6, v6_only), v6_only);
        assert!(!options.is_afonly(Family::Ib, v6_only));
    }
    for afonly in [false, true] {
        options.afonly = Some(afonly);
        for family in [Family::V4, Family::V6, Family::Ib] {
            assert_eq!(options.is_afonly(family, true), afonly);
        }
    }
}

#[test]
fn by_queue_pair() {
    for raw in 0..12 {
        let mut options = Options::default();
        let qp = QpType::from_raw(raw);
        assert_eq!(
            options.set_ack_timeout(qp, 200).is_ok(),
            [2, 9].contains(&raw)
        );
        assert_eq!(
            options.set_min_rnr_timer(qp, 31).is_ok(),
            [2, 10].contains(&raw)
        );
        assert_eq!(options.set_min_rnr_timer(qp, 32), Err(Refusal::Invalid));
        assert_eq!(options.ack_timeout.is_some(), [2, 9].contains(&raw));
        assert_eq!(options.min_rnr_timer.is_some(), [2, 10].contains(&raw));
    }
}

#[test]
fn node_types() {
    for state in every_state() {
        for raw in 0..=255 {
            let mut options = Options::default();
            let known = [1, 4, 7].contains(&raw);
            let wanted = match (known, state.raw()) {
                (false, _) => Err(Refusal::Invalid),
                (true, 0) => Ok(()),
                (true, _) => Err(Refusal::Already),
            };
            assert_eq!(options.restrict(state, raw), wanted);
            if wanted.is_err() {
                assert_eq!(options.node, Node::Any);
            }
        }
    }
    assert!(Node::Any.allows(7));
    assert!(Node::IbCa.allows(1) && !Node::IbCa.allows(4));
    assert!(Node::Rnic.allows(4) && !Node::Rnic.allows(1));
}
