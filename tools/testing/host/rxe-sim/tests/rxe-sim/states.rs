// SPDX-License-Identifier: GPL-2.0

//! The table of states, and the small numbers.

use rxe_sim::proto::qp::transition;
use rxe_sim::proto::qp::RecvChange;
use rxe_sim::proto::qp::SendChange;
use rxe_sim::proto::*;

#[test]
fn every_pair_of_states() {
    use QpState::*;
    let all = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
    let allowed = [
        (Reset, Init),
        (Init, Init),
        (Init, Rtr),
        (Rtr, Rts),
        (Rts, Rts),
        (Rts, Sqd),
        (Rts, Sqe),
        (Sqd, Sqd),
        (Sqd, Rts),
        (Sqd, Sqe),
        (Sqe, Rts),
    ];
    for old in all {
        assert_eq!(QpState::from_code(u32::from(old.code())), Some(old));
        for new in all {
            let change = transition(old, new, false);
            let ok = new == Reset || new == Err || allowed.contains(&(old, new));
            assert_eq!(change.is_ok(), ok, "{old:?} {new:?}");
            if let Ok(change) = change {
                let end = |s: SendChange, r: RecvChange| change.send == s && change.recv == r;
                assert_eq!(new == Reset, end(SendChange::Reset, RecvChange::Reset));
                assert_eq!(new == Err, end(SendChange::Flush, RecvChange::Flush));
                assert_eq!(change.send == SendChange::Enable, new == Rts && old != Rts);
                assert_eq!(change.recv == RecvChange::Enable, new == Rtr);
            }
        }
    }
    assert_eq!(QpState::from_code(7), None);
    // A drain must end before anything but an end.
    for new in all {
        assert_eq!(
            transition(Sqd, new, true).is_ok(),
            [Reset, Sqe, Err].contains(&new)
        );
    }
}

#[test]
fn numbers_that_users_see() {
    // enum ib_wc_status, enum ib_wc_opcode, enum ib_qp_state.
    assert_eq!(WcStatus::WrFlush.code(), 5);
    assert_eq!(WcStatus::RnrRetryExc.code(), 13);
    assert_eq!(WcOpcode::RegMr.code(), 10);
    assert_eq!(WcOpcode::RecvRdmaWithImm.code(), 129);
    assert_eq!(QpState::Err.code(), 6);
}

#[test]
fn limits_of_retries() {
    assert_eq!(RetryLimit::from_retry_cnt(7), RetryLimit::Limited(7));
    assert_eq!(RetryLimit::from_rnr_retry(7), RetryLimit::Endless);
    assert_eq!(RetryLimit::from_rnr_retry(6), RetryLimit::Limited(6));
}
