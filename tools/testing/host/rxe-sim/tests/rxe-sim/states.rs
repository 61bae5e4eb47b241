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
    // enum ib_wc_status, enum ib_wc_opcode, enum ib_qp_state, enum ib_access_flags.
    use WcStatus::*;
    let statuses = [
        (Success, 0),
        (LocLen, 1),
        (LocQpOp, 2),
        (LocProt, 4),
        (WrFlush, 5),
        (MwBind, 6),
        (BadResp, 7),
        (LocAccess, 8),
        (RemInvReq, 9),
        (RemAccess, 10),
        (RemOp, 11),
        (RetryExc, 12),
        (RnrRetryExc, 13),
    ];
    assert!(statuses.iter().all(|(status, code)| status.code() == *code));
    assert_eq!(WcOpcode::RegMr.code(), 10);
    assert_eq!(WcOpcode::Recv.code(), 128);
    assert_eq!(WcOpcode::RecvRdmaWithImm.code(), 129);
    assert_eq!(QpState::Err.code(), 6);
    let flags = [
        (AccessFlags::NONE, 0),
        (AccessFlags::REMOTE_WRITE, 2),
        (AccessFlags::REMOTE_READ, 4),
        (AccessFlags::REMOTE_ATOMIC, 8),
        (AccessFlags::FLUSH_GLOBAL, 0x100),
        (AccessFlags::FLUSH_PERSISTENT, 0x200),
    ];
    assert!(flags.iter().all(|(flags, bits)| flags.0 == *bits));
    assert_eq!(types::MAX_MESSAGE, 1 << 31);
    assert_eq!(types::GSI_QKEY, 0x8001_0000);
}

#[test]
fn rights_are_sets() {
    for (a, b) in (0..16).flat_map(|a| (0..16).map(move |b| (a, b))) {
        let (set, other) = (AccessFlags(a), AccessFlags(b));
        assert_eq!(
            set.contains(other),
            (0..4).all(|k| b >> k & 1 <= a >> k & 1)
        );
        let both = set.with(other);
        assert!(both.contains(set) && both.contains(other));
        assert_eq!(both.0 & !(a | b), 0);
    }
}

#[test]
fn times_end_at_the_end() {
    assert_eq!(Nanos(3).after(Nanos(4)), Nanos(7));
    assert_eq!(Nanos(u64::MAX).after(Nanos(1)), Nanos(u64::MAX));
}

#[test]
fn limits_of_retries() {
    for n in 0..=255 {
        let low = RetryLimit::Limited(n & 7);
        assert_eq!(RetryLimit::from_retry_cnt(n), low);
        let want = if n & 7 == 7 { RetryLimit::Endless } else { low };
        assert_eq!(RetryLimit::from_rnr_retry(n), want);
    }
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi] {
        let datagram = kind == QpType::Ud || kind == QpType::Gsi;
        assert_eq!(kind.is_datagram(), datagram);
    }
}
