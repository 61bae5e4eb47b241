// SPDX-License-Identifier: GPL-2.0

//! The functions that consumers call (`include/rdma/ib_cm.h`).
//!
//! Context: process context, and they may sleep, except `ib_cm_notify`, which may be called in any.

mod qp;

use crate::cm;
use crate::conn::Conn;
use crate::edge::args::Ari;
use crate::edge::args::AriLength;
use crate::edge::args::Length;
use crate::edge::args::Mask;
use crate::edge::args::QpAttr;
use crate::edge::args::RepParam;
use crate::edge::args::ReqParam;
use crate::edge::args::SidrRepParam;
use crate::edge::args::SidrReqParam;
use crate::edge::args::Start;
use crate::edge::id::give;
use crate::edge::id::Context;
use crate::edge::id::Given;
use crate::edge::id::Handler;
use crate::edge::id::Id;
use crate::edge::path;
use crate::edge::trace;
use crate::edge::trace::OfId;
use crate::edge::trace::OfMessage;
use crate::index::Service;
use crate::port::Adapter;
use crate::proto::conn::Call;
use crate::proto::conn::Destroy;
use crate::proto::conn::Path as Along;
use crate::proto::conn::RepCall;
use crate::proto::conn::ReqCall;
use crate::proto::conn::SidrRepCall;
use crate::proto::conn::SidrReqCall;
use crate::proto::ids::CommId;
use crate::proto::ids::Ece;
use crate::proto::ids::Guid;
use crate::proto::ids::Psn;
use crate::proto::ids::Qpn;
use crate::proto::ids::ServiceId;
use crate::proto::path as paths;
use crate::proto::reject;
use crate::proto::tables;
use crate::proto::wire::private;
use crate::proto::wire::Reason;
use crate::proto::wire::Req;
use crate::proto::wire::Transport;
use crate::way::Ref;
use crate::way::Way;
use crate::Cm;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::verbs::GidAttr;
use rdma::edge::Passed;
use rdma::mad::Path;

fn create(
    device: Passed<bindings::ib_device>,
    handler: Handler,
    context: Context,
) -> Result<Arc<Conn>> {
    let cm = cm()?;
    let slot = cm.number()?;
    let conn = Conn::new(&cm, slot.id(), device, (handler, context.get()))?;
    slot.publish(conn.clone());
    Ok(conn)
}

fn pointer(result: Result<Arc<Conn>>) -> *mut bindings::ib_cm_id {
    match result {
        Ok(conn) => give(conn),
        Err(e) => e.to_ptr(),
    }
}

fn create_id(
    device: Passed<bindings::ib_device>,
    handler: Handler,
    context: Context,
) -> *mut bindings::ib_cm_id {
    pointer(create(device, handler, context))
}

fn destroy_id(id: Given) {
    id.0.destroy(Destroy::Consumer);
}

/// The service ID that a consumer listens on.
fn service(cm: &Cm, asked: u64) -> Result<ServiceId> {
    tables::service_to_listen(ServiceId(asked), || ServiceId(cm.assign_service())).ok_or(EINVAL)
}

/// Enters a listener into the table, or finds the one that is there.
fn enter(conn: &Arc<Conn>, id: ServiceId) -> Result<(), Arc<Conn>> {
    let key = Service {
        device: conn.device(),
        id: id.0,
    };
    conn.cm.services.add(&key, conn)
}

fn leave(conn: &Arc<Conn>, id: ServiceId) {
    let key = Service {
        device: conn.device(),
        id: id.0,
    };
    conn.cm.services.delete(&key, conn);
}

fn listen(id: Id<'_>, asked: u64) -> Result {
    let conn = id.share();
    conn.look(|state| state.engine.check_idle())
        .map_err(|_| EINVAL)?;
    let service = service(&conn.cm, u64::from_be(asked))?;
    if let Err(holder) = enter(&conn, service) {
        let no_memory = Arc::ptr_eq(&holder, &conn);
        return Err(if no_memory { ENOMEM } else { EBUSY });
    }
    let listens = conn.change(|state| state.engine.listen(service));
    if listens.is_err() {
        leave(&conn, service);
        return Err(EINVAL);
    }
    Ok(())
}

fn insert(device: Passed<bindings::ib_device>, handler: Handler, asked: u64) -> Result<Arc<Conn>> {
    let cm = cm()?;
    let service = service(&cm, u64::from_be(asked))?;
    let slot = cm.number()?;
    let conn = Conn::new(&cm, slot.id(), device, (handler, Context::NONE.get()))?;
    // Requests find a listener only when it is in the table, so it listens first.
    conn.change(|state| state.engine.listen(service))
        .map_err(|_| EINVAL)?;
    loop {
        let Err(holder) = enter(&conn, service) else {
            slot.publish(conn.clone());
            return Ok(conn);
        };
        if Arc::ptr_eq(&holder, &conn) {
            return Err(ENOMEM);
        }
        if !holder.id().may_share(handler) {
            return Err(EINVAL);
        }
        if holder.share() {
            return Ok(holder);
        }
        // It is being destroyed: it leaves the table soon.
        rdma::task::cond_resched();
    }
}

fn insert_listen(
    device: Passed<bindings::ib_device>,
    handler: Handler,
    asked: u64,
) -> *mut bindings::ib_cm_id {
    pointer(insert(device, handler, asked))
}

/// Finds the way along a path of the consumer.
fn along(conn: &Conn, path: &mut Path, gid: Option<&GidAttr>, data_lid: u16) -> Result<Along<Ref>> {
    let adapter = Adapter::of(conn.device()).ok_or(EINVAL)?;
    let device = adapter.device().ok_or(EINVAL)?;
    let number = match gid {
        Some(gid) if gid.belongs_to(device.view()) => gid.port_num(),
        Some(_) => return Err(EINVAL),
        None => path.port_of(&device).map_err(|_| EINVAL)?,
    };
    let port = adapter.port(number).ok_or(EINVAL)?.clone();
    Way::along(port, &device, path, gid, data_lid)
}

fn ece(vendor_id: u32, attr_mod: u32) -> Ece {
    Ece {
        vendor_id,
        attr_mod,
    }
}

/// Checks the length of private data before anything else is done.
fn check(data: &[u8], limit: usize) -> Result {
    if data.len() > limit {
        return Err(EINVAL);
    }
    Ok(())
}

fn send_req(id: Id<'_>, param: &ReqParam) -> Result {
    let conn = id.share();
    let mut primary = param.primary().ok_or(EINVAL)?;
    let transport = match param.qp_type() {
        bindings::ib_qp_type_IB_QPT_RC => Transport::Rc,
        bindings::ib_qp_type_IB_QPT_UC => Transport::Uc,
        bindings::ib_qp_type_IB_QPT_XRC_INI => Transport::Xrc,
        _ => return Err(EINVAL),
    };
    check(param.private(), private::REQ)?;
    let mut alternate = param.alternate();
    let first = path::from_c(&primary);
    let second = alternate.as_ref().map(path::from_c);
    if let Some(second) = &second {
        if second.pkey != first.pkey || second.mtu != first.mtu {
            return Err(EINVAL);
        }
    }
    conn.look(|state| state.engine.check_idle())
        .map_err(|_| EINVAL)?;
    let data_lid = param.outbound().as_ref().map_or(0, path::ib_dlid);
    let gid = param.gid();
    let way = along(&conn, &mut primary, gid.as_ref().map(|gid| gid.0), data_lid)?;
    let other = match &mut alternate {
        Some(path) => Some(along(&conn, path, None, 0)?),
        None => None,
    };
    let ack_delay = way.route.port.ack_delay;
    let inbound = param.inbound().as_ref().map(path::ib_dlid);
    let req = Req {
        local_id: CommId::NONE,
        service_id: ServiceId(u64::from_be(param.service_id())),
        ca_guid: Guid(0),
        qkey: 0,
        qpn: Qpn::new(param.qp_num()),
        responder_resources: param.responder_resources(),
        initiator_depth: param.initiator_depth(),
        remote_response_timeout: param.remote_cm_response_timeout(),
        transport,
        flow_control: param.flow_control() & 1 != 0,
        psn: Psn::new(param.starting_psn()),
        local_response_timeout: param.local_cm_response_timeout(),
        retry_count: param.retry_count(),
        pkey: first.pkey,
        mtu: first.mtu,
        rnr_retry_count: param.rnr_retry_count(),
        max_cm_retries: param.max_cm_retries(),
        srq: param.srq() & 1 != 0,
        primary: paths::to_wire(&first, ack_delay, inbound),
        alternate: second.map(|path| paths::to_wire(&path, ack_delay, None)),
        ece: ece(param.vendor_id(), param.attr_mod()),
        private: param.private(),
    };
    conn.set_way(&way.route, transport)?;
    conn.call(&Call::Req(ReqCall {
        primary: way,
        alternate: other,
        life_time: first.life_time,
        req,
    }))
}

fn send_rep(id: Id<'_>, param: &RepParam) -> Result {
    check(param.private(), private::REP)?;
    let conn = id.share();
    let result = conn.call(&Call::Rep(RepCall {
        qpn: Qpn::new(param.qp_num()),
        psn: Psn::new(param.starting_psn()),
        responder_resources: param.responder_resources(),
        initiator_depth: param.initiator_depth(),
        failover_accepted: param.failover_accepted(),
        flow_control: param.flow_control() & 1 != 0,
        rnr_retry_count: param.rnr_retry_count(),
        srq: param.srq() & 1 != 0,
        ece: ece(param.vendor_id(), param.attr_mod()),
        private: param.private(),
    }));
    if result.is_err() {
        let state = conn.id().state();
        trace::message(OfMessage::SendRepErr, conn.local_id().0, state);
    }
    result
}

fn send_rtu(id: Id<'_>, data: Start<'_>, length: Length) -> Result {
    let private = data.data(length);
    check(private, private::RTU)?;
    let conn = id.share();
    let result = conn.call(&Call::Rtu { private });
    if result.is_err() {
        trace::id(OfId::SendRtuErr, conn.id());
    }
    result
}

fn send_rej(
    id: Id<'_>,
    reason: u32,
    ari: Ari<'_>,
    ari_length: AriLength,
    data: Start<'_>,
    length: Length,
) -> Result {
    let (ari, private) = (ari.data(ari_length), data.data(length));
    check(ari, private::INFO)?;
    check(private, private::REJ)?;
    let conn = id.share();
    trace::send_rej(conn.id(), reason);
    let result = conn.call(&Call::Rej {
        // CAST: The field has 16 bits.
        reason: Reason(reason as u16),
        ari,
        private,
    });
    if result.is_err() {
        trace::id(OfId::SendUnknownRejErr, conn.id());
    }
    result
}

fn send_dreq(id: Id<'_>, data: Start<'_>, length: Length) -> Result {
    let private = data.data(length);
    check(private, private::DREQ)?;
    let conn = id.share();
    let result = conn.call(&Call::Dreq { private });
    if result.is_err() {
        trace::id(OfId::DreqSkipped, conn.id());
    }
    result
}

fn send_drep(id: Id<'_>, data: Start<'_>, length: Length) -> Result {
    let private = data.data(length);
    check(private, private::DREP)?;
    let conn = id.share();
    let result = conn.call(&Call::Drep { private });
    if result.is_err() {
        trace::id(OfId::SendDrepErr, conn.id());
    }
    result
}

fn prepare_mra(id: Id<'_>) -> Result {
    let conn = id.share();
    let result = conn.call(&Call::PrepareMra);
    if result.is_err() {
        trace::id(OfId::PrepareMraUnknownErr, conn.id());
    }
    result
}

fn notify(id: Id<'_>, event: u32) -> Result {
    let conn = id.share();
    match event {
        bindings::ib_event_type_IB_EVENT_COMM_EST => {
            let result = conn.notify(true);
            if result == Err(EINVAL) {
                trace::id(OfId::EstablishErr, conn.id());
            }
            result
        }
        bindings::ib_event_type_IB_EVENT_PATH_MIG => conn.notify(false),
        _ => Err(EINVAL),
    }
}

fn send_sidr_req(id: Id<'_>, param: &SidrReqParam) -> Result {
    let conn = id.share();
    let mut path = param.path().ok_or(EINVAL)?;
    check(param.private(), private::SIDR_REQ)?;
    conn.look(|state| state.engine.check_idle())
        .map_err(|_| EINVAL)?;
    let pkey = path::from_c(&path).pkey;
    let gid = param.gid();
    let way = along(&conn, &mut path, gid.as_ref().map(|gid| gid.0), 0)?;
    conn.set_way(&way.route, Transport::Rc)?;
    conn.call(&Call::SidrReq(SidrReqCall {
        path: way,
        service_id: ServiceId(u64::from_be(param.service_id())),
        pkey,
        timeout_ms: u32::try_from(param.timeout_ms()).unwrap_or(u32::MAX >> 1),
        max_cm_retries: param.max_cm_retries(),
        private: param.private(),
    }))
}

fn send_sidr_rep(id: Id<'_>, param: &SidrRepParam) -> Result {
    check(param.info(), private::INFO)?;
    check(param.private(), private::SIDR_REP)?;
    let conn = id.share();
    conn.call(&Call::SidrRep(SidrRepCall {
        qpn: Qpn::new(param.qp_num()),
        qkey: param.qkey(),
        // CAST: The field has 8 bits.
        status: param.status() as u8,
        ece: ece(param.vendor_id(), param.attr_mod()),
        info: param.info(),
        private: param.private(),
    }))
}

fn init_qp_attr(id: Id<'_>, attr: QpAttr<'_>, mask: Mask<'_>) -> Result {
    qp::attributes(&id.share(), &attr, mask)
}

fn reject_msg(reason: c_int) -> *const kernel::ffi::c_char {
    reject::text(reason).as_char_ptr()
}

rdma::export! {
    in rdma::bindings;

    /// Creates an ID.
    fn ib_create_cm_id(
        device: Passed<bindings::ib_device>, handler: Handler, context: Context,
    ) -> *mut bindings::ib_cm_id = create_id;
    /// Destroys an ID. Waits for its handler.
    fn ib_destroy_cm_id(id: Given) = destroy_id;
    /// Listens on a service.
    fn ib_cm_listen(id: Id<'_>, service_id: u64) -> Result = listen;
    /// Creates a listener, or shares the one that is there.
    fn ib_cm_insert_listen(
        device: Passed<bindings::ib_device>, handler: Handler, service_id: u64,
    ) -> *mut bindings::ib_cm_id = insert_listen;
    /// Sends a REQ.
    fn ib_send_cm_req(id: Id<'_>, param: &ReqParam) -> Result = send_req;
    /// Sends a REP.
    fn ib_send_cm_rep(id: Id<'_>, param: &RepParam) -> Result = send_rep;
    /// Sends an RTU.
    fn ib_send_cm_rtu(id: Id<'_>, data: Start<'_>, length: Length) -> Result = send_rtu;
    /// Sends a REJ.
    fn ib_send_cm_rej(
        id: Id<'_>, reason: u32, ari: Ari<'_>, ari_length: AriLength, data: Start<'_>, length: Length,
    ) -> Result = send_rej;
    /// Sends a DREQ.
    fn ib_send_cm_dreq(id: Id<'_>, data: Start<'_>, length: Length) -> Result = send_dreq;
    /// Sends a DREP.
    fn ib_send_cm_drep(id: Id<'_>, data: Start<'_>, length: Length) -> Result = send_drep;
    /// Has repeated messages answered with an MRA.
    fn ib_prepare_cm_mra(id: Id<'_>) -> Result = prepare_mra;
    /// Tells of an event of the queue pair.
    fn ib_cm_notify(id: Id<'_>, event: u32) -> Result = notify;
    /// Sends a SIDR_REQ.
    fn ib_send_cm_sidr_req(id: Id<'_>, param: &SidrReqParam) -> Result = send_sidr_req;
    /// Sends a SIDR_REP.
    fn ib_send_cm_sidr_rep(id: Id<'_>, param: &SidrRepParam) -> Result = send_sidr_rep;
    /// Returns attributes of the queue pair.
    fn ib_cm_init_qp_attr(id: Id<'_>, attr: QpAttr<'_>, mask: Mask<'_>) -> Result = init_qp_attr;
    /// Returns the text of a rejection's reason.
    fn ibcm_reject_msg(reason: c_int) -> *const kernel::ffi::c_char = reject_msg;
}
