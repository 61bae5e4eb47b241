// SPDX-License-Identifier: GPL-2.0

//! Attributes of the queue pair.

use super::bed::*;
use rdma_cm_engine::proto::conn::Alternate;
use rdma_cm_engine::proto::conn::Call;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::InitiatorAttr;
use rdma_cm_engine::proto::conn::Path;
use rdma_cm_engine::proto::conn::RtrAttr;
use rdma_cm_engine::proto::conn::RtsAttr;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::ids::Psn;
use rdma_cm_engine::proto::wire::Transport;

#[test]
fn states() {
    use StateName::*;
    for state in StateName::ALL {
        let conn = at(state);
        let known = matches!(
            state,
            ReqRcvd | MraReqSent | RepRcvd | MraRepSent | RepSent | MraRepRcvd | Established
        );
        let init = known || matches!(state, ReqSent | MraReqRcvd);
        assert_eq!(conn.init_attr().is_ok(), init, "{state:?}");
        assert_eq!(conn.rtr_attr().is_ok(), known, "{state:?}");
        assert_eq!(conn.rts_attr().is_ok(), known, "{state:?}");
    }
}

#[test]
fn active_side() {
    let conn = at(StateName::ReqSent);
    let init = conn.init_attr().unwrap();
    assert_eq!((init.path, init.can_respond), (&PRIMARY, true));

    let conn = active(Transport::Rc);
    // With the acknowledgement delay of the peer, 18.
    let (primary, alternate) = (
        Path {
            timeout: 19,
            ..PRIMARY
        },
        Path {
            timeout: 19,
            ..ALTERNATE
        },
    );
    assert_eq!(
        conn.rtr_attr().unwrap(),
        RtrAttr {
            path: &primary,
            mtu: 5,
            dest_qpn: PEER_QPN,
            rq_psn: OWN_PSN,
            max_dest_rd_atomic: Some(1),
            alternate: Some(Alternate { path: &alternate }),
        }
    );
    assert_eq!(
        conn.rts_attr().unwrap(),
        RtsAttr::First {
            sq_psn: PEER_PSN,
            initiator: Some(InitiatorAttr {
                retry_cnt: 6,
                rnr_retry: 5,
                max_rd_atomic: 2,
            }),
            timeout: Some(19),
            rearm: true,
        }
    );
}

#[test]
fn passive_side() {
    let mut conn = passive(Transport::Rc);
    let rtr = conn.rtr_attr().unwrap();
    assert_eq!((rtr.dest_qpn, rtr.rq_psn), (PEER_QPN, Psn::default()));
    assert_eq!((rtr.max_dest_rd_atomic, rtr.path), (Some(3), &PRIMARY));
    assert!(conn.init_attr().unwrap().can_respond);

    let mut c = rep_call();
    c.responder_resources = 0;
    assert_eq!(call(&mut conn, Call::Rep(c)).0, Ok(()));
    assert!(!conn.init_attr().unwrap().can_respond);
    let rtr = conn.rtr_attr().unwrap();
    assert_eq!((rtr.rq_psn, rtr.max_dest_rd_atomic), (OWN_PSN, Some(0)));
    assert_eq!(
        conn.rts_attr().unwrap(),
        RtsAttr::First {
            sq_psn: PEER_PSN,
            // Retries are those of the REQ.
            initiator: Some(InitiatorAttr {
                retry_cnt: 6,
                rnr_retry: 7,
                max_rd_atomic: 1,
            }),
            timeout: Some(17),
            rearm: true,
        }
    );
}

#[test]
fn transports() {
    for (transport, is_active, responder, initiator, timeout) in [
        (Transport::Rc, true, true, true, true),
        (Transport::Rc, false, true, true, true),
        (Transport::Uc, true, false, false, false),
        (Transport::Uc, false, false, false, false),
        (Transport::Xrc, true, false, true, true),
        (Transport::Xrc, false, true, false, true),
        (Transport::Other(2, 0), false, false, false, false),
    ] {
        let conn = if is_active {
            active(transport)
        } else {
            passive(transport)
        };
        let rtr = conn.rtr_attr().unwrap();
        assert_eq!(rtr.max_dest_rd_atomic.is_some(), responder, "{transport:?}");
        let RtsAttr::First {
            initiator: i,
            timeout: t,
            ..
        } = conn.rts_attr().unwrap()
        else {
            panic!()
        };
        assert_eq!((i.is_some(), t.is_some()), (initiator, timeout));
    }
}

#[test]
fn alternate_paths() {
    let mut conn = at(StateName::Established);
    let _ = receive(&mut conn, lap());
    let RtsAttr::Alternate(Some(alternate)) = conn.rts_attr().unwrap() else {
        panic!()
    };
    assert_eq!(alternate.path, &LAP_PATHS.alternate);

    // One without a LID is none.
    let mut conn = Conn::new(LOCAL);
    let mut c = req_call(Transport::Rc);
    c.alternate = Some(Path {
        has_lid: false,
        ..ALTERNATE
    });
    let _ = call(&mut conn, Call::Req(c));
    let _ = receive(&mut conn, rep());
    assert_eq!(conn.rtr_attr().unwrap().alternate, None);
    assert!(matches!(
        conn.rts_attr().unwrap(),
        RtsAttr::First { rearm: false, .. }
    ));
}
