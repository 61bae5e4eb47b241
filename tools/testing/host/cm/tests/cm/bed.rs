// SPDX-License-Identifier: GPL-2.0

//! One identifier in any state, and messages of its peer.

use rdma_cm_engine::proto::conn::Actions;
use rdma_cm_engine::proto::conn::Call;
use rdma_cm_engine::proto::conn::CallError;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::LapPaths;
use rdma_cm_engine::proto::conn::Path;
use rdma_cm_engine::proto::conn::RepCall;
use rdma_cm_engine::proto::conn::ReqCall;
use rdma_cm_engine::proto::conn::Route;
use rdma_cm_engine::proto::conn::SidrRepCall;
use rdma_cm_engine::proto::conn::SidrReqCall;
use rdma_cm_engine::proto::conn::Source;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::ids::CommId;
use rdma_cm_engine::proto::ids::Ece;
use rdma_cm_engine::proto::ids::Gid;
use rdma_cm_engine::proto::ids::Guid;
use rdma_cm_engine::proto::ids::Instant;
use rdma_cm_engine::proto::ids::Psn;
use rdma_cm_engine::proto::ids::Qpn;
use rdma_cm_engine::proto::ids::ServiceId;
use rdma_cm_engine::proto::tables::Claim;
use rdma_cm_engine::proto::tables::SidrKey;
use rdma_cm_engine::proto::wire::About;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Drep;
use rdma_cm_engine::proto::wire::Dreq;
use rdma_cm_engine::proto::wire::Lap;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Mra;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::Rej;
use rdma_cm_engine::proto::wire::Rep;
use rdma_cm_engine::proto::wire::Req;
use rdma_cm_engine::proto::wire::Rtu;
use rdma_cm_engine::proto::wire::SidrRep;
use rdma_cm_engine::proto::wire::SidrReq;
use rdma_cm_engine::proto::wire::Transport;
use rdma_cm_engine::proto::wire::WirePath;

pub(crate) const LOCAL: CommId = CommId(0x1111_1111);
pub(crate) const REMOTE: CommId = CommId(0x2222_2222);
pub(crate) const OWN_GUID: Guid = Guid(0xaaaa_0001);
pub(crate) const PEER_GUID: Guid = Guid(0xbbbb_0002);
pub(crate) const OWN_QPN: Qpn = Qpn::new(0x000333);
pub(crate) const PEER_QPN: Qpn = Qpn::new(0x000444);
pub(crate) const OWN_PSN: Psn = Psn::new(0x000555);
pub(crate) const PEER_PSN: Psn = Psn::new(0x000666);
pub(crate) const PEER_GID: Gid = Gid([2; 16]);
pub(crate) const ALT_GID: Gid = Gid([3; 16]);
pub(crate) const FOREIGN_GID: Gid = Gid([9; 16]);
pub(crate) const SERVICE: ServiceId = ServiceId(0x0106_0001);
pub(crate) const HI_TID: u32 = 0x77;
pub(crate) const PEER_TID: u64 = 0x88_2222_2222;
pub(crate) const NOW: Instant = Instant(1_000_000);

/// A route with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rt(pub(crate) u8);

impl Route for Rt {
    fn hi_tid(&self) -> u32 {
        HI_TID
    }
    fn node_guid(&self) -> Guid {
        OWN_GUID
    }
    fn ack_delay(&self) -> u8 {
        15
    }
}

pub(crate) type C = Conn<Rt>;

pub(crate) const PRIMARY: Path<Rt> = Path {
    route: Rt(1),
    peer: PEER_GID,
    timeout: 17,
    has_lid: true,
};
pub(crate) const ALTERNATE: Path<Rt> = Path {
    route: Rt(2),
    peer: ALT_GID,
    timeout: 18,
    has_lid: true,
};

/// From the peer's port.
pub(crate) const FROM_PEER: Source = Source {
    gid: Some(PEER_GID),
    slid: 0,
    sl: 0,
    dlid_path_bits: 0,
};

/// A REQ of either side.
pub(crate) fn req(transport: Transport) -> Req<'static> {
    Req {
        local_id: REMOTE,
        service_id: SERVICE,
        ca_guid: PEER_GUID,
        qkey: 0,
        qpn: PEER_QPN,
        responder_resources: 4,
        initiator_depth: 3,
        remote_response_timeout: 20,
        transport,
        flow_control: true,
        psn: PEER_PSN,
        local_response_timeout: 19,
        retry_count: 6,
        pkey: 0xffff,
        mtu: 5,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: true,
        primary: WirePath::default(),
        alternate: None,
        ece: Ece::default(),
        private: &[],
    }
}

pub(crate) fn req_call(transport: Transport) -> ReqCall<'static, Rt> {
    ReqCall {
        primary: PRIMARY,
        alternate: Some(ALTERNATE),
        life_time: 16,
        req: Req {
            qpn: OWN_QPN,
            psn: OWN_PSN,
            ..req(transport)
        },
    }
}

pub(crate) fn rep_call() -> RepCall<'static> {
    RepCall {
        qpn: OWN_QPN,
        psn: OWN_PSN,
        responder_resources: 2,
        initiator_depth: 1,
        rnr_retry_count: 5,
        ..RepCall::default()
    }
}

pub(crate) fn sidr_req_call() -> SidrReqCall<'static, Rt> {
    SidrReqCall {
        path: PRIMARY,
        service_id: SERVICE,
        pkey: 0xffff,
        timeout_ms: 1000,
        max_cm_retries: 3,
        private: &[],
    }
}

pub(crate) fn sidr_rep_call() -> SidrRepCall<'static> {
    SidrRepCall::default()
}

pub(crate) fn rep() -> Body<'static> {
    Body::Rep(Rep {
        local_id: REMOTE,
        remote_id: LOCAL,
        qkey: 0,
        qpn: PEER_QPN,
        eecn: Qpn::new(0x000445),
        psn: PEER_PSN,
        responder_resources: 2,
        initiator_depth: 1,
        target_ack_delay: 18,
        failover_accepted: 0,
        flow_control: false,
        rnr_retry_count: 5,
        srq: false,
        ca_guid: PEER_GUID,
        ece: Ece::default(),
        private: &[],
    })
}

pub(crate) fn rtu() -> Body<'static> {
    Body::Rtu(Rtu {
        local_id: REMOTE,
        remote_id: LOCAL,
        private: &[],
    })
}

pub(crate) fn mra(about: About) -> Body<'static> {
    Body::Mra(Mra {
        local_id: REMOTE,
        remote_id: LOCAL,
        about,
        service_timeout: 24,
        private: &[],
    })
}

pub(crate) fn rej(about: About, reason: Reason) -> Body<'static> {
    Body::Rej(Rej {
        local_id: REMOTE,
        remote_id: LOCAL,
        about,
        reason,
        ari: &[],
        private: &[],
        ari_guid: PEER_GUID,
    })
}

pub(crate) fn dreq() -> Body<'static> {
    Body::Dreq(Dreq {
        local_id: REMOTE,
        remote_id: LOCAL,
        remote_qpn: OWN_QPN,
        private: &[],
    })
}

pub(crate) fn drep() -> Body<'static> {
    Body::Drep(Drep {
        local_id: REMOTE,
        remote_id: LOCAL,
        private: &[],
    })
}

pub(crate) fn sidr_rep() -> Body<'static> {
    Body::SidrRep(SidrRep {
        request_id: LOCAL,
        status: 0,
        qpn: PEER_QPN,
        service_id: SERVICE,
        qkey: 1,
        ece: Ece::default(),
        info: &[],
        private: &[],
    })
}

pub(crate) fn lap() -> Body<'static> {
    Body::Lap(Lap {
        local_id: REMOTE,
        remote_id: LOCAL,
        remote_qpn: OWN_QPN,
        remote_response_timeout: 20,
        alternate: WirePath::default(),
        private: &[],
    })
}

pub(crate) const LAP_PATHS: LapPaths<Rt> = LapPaths {
    reply: Rt(3),
    alternate: Path {
        route: Rt(4),
        peer: ALT_GID,
        timeout: 19,
        has_lid: true,
    },
};

/// The identifier receives a message of its peer.
pub(crate) fn receive(conn: &mut C, body: Body<'_>) -> Actions<Rt> {
    receive_from(conn, body, FROM_PEER)
}

pub(crate) fn receive_from(conn: &mut C, body: Body<'_>, source: Source) -> Actions<Rt> {
    let message = Message {
        tid: PEER_TID,
        body,
    };
    conn.receive(&message, &source, Some(LAP_PATHS), NOW, |_| Claim::Granted)
}

/// The consumer calls, and its message is posted.
pub(crate) fn call(
    conn: &mut C,
    call: Call<'_, Rt>,
) -> (Result<(), CallError<&'static str>>, Actions<Rt>) {
    conn.call(&call, NOW, |_| Ok(()))
}

/// The consumer calls, and its message cannot be posted.
pub(crate) fn call_in_vain(
    conn: &mut C,
    call: Call<'_, Rt>,
) -> (Result<(), CallError<&'static str>>, Actions<Rt>) {
    conn.call(&call, NOW, |_| Err("not posted"))
}

fn done(conn: &mut C, c: Call<'_, Rt>) {
    assert_eq!(call(conn, c).0, Ok(()));
}

/// A passive identifier that has received a REQ.
pub(crate) fn passive(transport: Transport) -> C {
    Conn::from_req(LOCAL, PEER_TID, &req(transport), PRIMARY, Some(ALTERNATE))
}

/// An active identifier in state REP_RCVD.
pub(crate) fn active(transport: Transport) -> C {
    let mut conn = Conn::new(LOCAL);
    done(&mut conn, Call::Req(req_call(transport)));
    let _ = receive(&mut conn, rep());
    conn
}

/// An identifier in a state, by a short way.
pub(crate) fn at(state: StateName) -> C {
    let mut conn = Conn::new(LOCAL);
    match state {
        StateName::Idle => {}
        StateName::Listen => conn.listen(SERVICE).unwrap(),
        StateName::ReqSent => done(&mut conn, Call::Req(req_call(Transport::Rc))),
        StateName::MraReqRcvd => {
            conn = at(StateName::ReqSent);
            let _ = receive(&mut conn, mra(About::Req));
        }
        StateName::ReqRcvd => conn = passive(Transport::Rc),
        StateName::MraReqSent => {
            conn = at(StateName::ReqRcvd);
            done(&mut conn, Call::PrepareMra);
        }
        StateName::RepSent => {
            conn = at(StateName::ReqRcvd);
            done(&mut conn, Call::Rep(rep_call()));
        }
        StateName::MraRepRcvd => {
            conn = at(StateName::RepSent);
            let _ = receive(&mut conn, mra(About::Rep));
        }
        StateName::RepRcvd => conn = active(Transport::Rc),
        StateName::MraRepSent => {
            conn = at(StateName::RepRcvd);
            done(&mut conn, Call::PrepareMra);
        }
        StateName::Established => {
            conn = at(StateName::RepRcvd);
            done(&mut conn, Call::Rtu { private: &[] });
        }
        StateName::DreqSent => {
            conn = at(StateName::Established);
            done(&mut conn, Call::Dreq { private: &[] });
        }
        StateName::DreqRcvd => {
            conn = at(StateName::Established);
            let _ = receive(&mut conn, dreq());
        }
        StateName::Timewait => {
            conn = at(StateName::DreqRcvd);
            done(&mut conn, Call::Drep { private: &[] });
        }
        StateName::SidrReqSent => done(&mut conn, Call::SidrReq(sidr_req_call())),
        StateName::SidrReqRcvd => {
            let message = SidrReq {
                request_id: REMOTE,
                pkey: 0xffff,
                service_id: SERVICE,
                private: &[],
            };
            conn = Conn::from_sidr_req(LOCAL, PEER_TID, &message, sidr_key(), Rt(1));
        }
    }
    assert_eq!(conn.state(), state);
    conn
}

pub(crate) fn sidr_key() -> SidrKey {
    SidrKey {
        gid: Some(PEER_GID),
        slid: 0,
        id: REMOTE,
    }
}
