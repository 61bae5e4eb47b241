// SPDX-License-Identifier: GPL-2.0

//! Connections: requests that the consumer sends, its answers to those of peers, and events of the
//! transports.

use crate::deliver;
use crate::deliver::Delivered;
use crate::edge::args::Conn;
use crate::edge::args::Data;
use crate::edge::errno;
use crate::edge::event::Event;
use crate::edge::ib;
use crate::edge::ib::Connect;
use crate::edge::ib::IbId;
use crate::edge::id::HandlerGuard;
use crate::edge::id::Id;
use crate::edge::iw;
use crate::edge::iw::IwId;
use crate::edge::qp;
use crate::edge::transport::Transport;
use crate::edge::transport::Used;
use crate::proto::event;
use crate::proto::event::IbPlan;
use crate::proto::event::IwEvent;
use crate::proto::event::Told;
use crate::proto::header;
use crate::proto::option::Node;
use crate::proto::option::QpType;
use crate::proto::service;
use crate::proto::state::Cause;
use crate::proto::state::State;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::DeviceRef;
use rdma::errno::enosys;

/// A refusal of the consumer (`IB_CM_REJ_CONSUMER_DEFINED`).
const CONSUMER: u8 = 28;

/// Connects. The caller holds the lock of callbacks.
pub(crate) fn connect(id: &Arc<Id>, conn: &Conn<'_>) -> Result {
    id.with(|inner| inner.life.connect()).map_err(errno)?;
    take_qp(id, conn);
    let result = try_connect(id, conn);
    if result.is_err() {
        id.with(|inner| inner.life.connect_failed());
        drop(id.take_transport());
    }
    result
}

/// The queue pair of a consumer that moves it itself.
fn take_qp(id: &Id, conn: &Conn<'_>) {
    if !id.has_qp() {
        id.words().set_qp_num(conn.qp_num());
        id.with(|inner| inner.srq = conn.srq() != 0);
    }
}

fn try_connect(id: &Arc<Id>, conn: &Conn<'_>) -> Result {
    let (device, _) = id.device().ok_or(EINVAL)?;
    let (caps, _) = id.port().ok_or(EINVAL)?;
    if caps.ib_cm() {
        connect_ib(id, &device, conn)
    } else if caps.iw_cm() {
        let iw = id.keep(IwId::connection(&device, id)?, Transport::Iw)?;
        qp::to_rtr(id, Some(conn.responder_resources()))?;
        iw.connect(id, conn)
    } else {
        Err(enosys())
    }
}

fn connect_ib(id: &Arc<Id>, device: &DeviceRef, conn: &Conn<'_>) -> Result {
    let (source, destination) = id.addrs();
    let data = conn.data();
    let len = header::len_with(source.family(), data.len()).ok_or(EINVAL)?;
    let mut buffer = [0; u8::MAX as usize];
    let buffer = buffer.get_mut(..len.into()).ok_or(EINVAL)?;
    header::write(buffer, &source, &destination, data.bytes());
    let datagrams = id.qp_type() == QpType::Ud;
    let ib = id.keep(IbId::create(device, id, datagrams)?, Transport::Ib)?;
    let service_id = service::id(id.words().port_space(), &destination);
    if datagrams {
        return ib.send_sidr_req(id, service_id, buffer);
    }
    ib.send_req(
        id,
        &Connect {
            service_id,
            data: buffer,
            responder_resources: conn.responder_resources(),
            initiator_depth: conn.initiator_depth(),
            flow_control: conn.flow_control(),
            retry_count: conn.retry_count(),
            rnr_retry_count: conn.rnr_retry_count(),
        },
    )
}

/// Accepts a request, or, without parameters, a reply. The caller holds the lock of callbacks.
pub(crate) fn accept(id: &Id, conn: Option<&Conn<'_>>) -> Result {
    id.with(|inner| inner.life.accept()).map_err(errno)?;
    if let Some(conn) = conn {
        take_qp(id, conn);
    }
    let result = try_accept(id, conn);
    if result.is_err() {
        let _already_in_error = qp::to_error(id);
        let _peer_finds_out = reject(id, Data::NONE, CONSUMER);
    }
    result
}

fn try_accept(id: &Id, conn: Option<&Conn<'_>>) -> Result {
    match (id.transport().ok_or(EINVAL)?, conn) {
        (Used::Ib(ib), conn) if id.qp_type() == QpType::Ud => {
            let (qkey, data) = conn.map_or((0, Data::NONE), |conn| (conn.qkey(), conn.data()));
            if qkey == 0 {
                qp::default_qkey(id)?;
            } else {
                qp::set_qkey(id, qkey)?;
            }
            ib.send_sidr_rep(id, true, data)
        }
        (Used::Ib(ib), Some(conn)) => {
            qp::to_rtr(id, Some(conn.responder_resources()))?;
            qp::to_rts(id, Some(conn.initiator_depth()))?;
            ib.send_rep(id, conn)
        }
        (Used::Ib(ib), None) => ready(id, &ib),
        (Used::Iw(iw), Some(conn)) => {
            qp::to_rtr(id, Some(conn.responder_resources()))?;
            iw.accept(id, conn)
        }
        (Used::Iw(_), None) => Err(EINVAL),
    }
}

/// The peer has accepted: makes the queue pair ready and tells the peer. If that fails, refuses.
fn ready(id: &Id, ib: &IbId) -> Result {
    let result = qp::to_rtr(id, None)
        .and_then(|()| qp::to_rts(id, None))
        .and_then(|()| ib.send_rtu(id));
    if result.is_err() {
        let _already_in_error = qp::to_error(id);
        let _peer_finds_out = ib.send_rej(id, CONSUMER, Data::NONE);
    }
    result
}

/// Refuses a request or a reply.
pub(crate) fn reject(id: &Id, data: Data<'_>, reason: u8) -> Result {
    match id.transport().ok_or(EINVAL)? {
        Used::Ib(ib) if id.qp_type() == QpType::Ud => ib.send_sidr_rep(id, false, data),
        Used::Ib(ib) => ib.send_rej(id, reason, data),
        Used::Iw(iw) => iw.reject(data),
    }
}

/// Disconnects.
pub(crate) fn disconnect(id: &Id) -> Result {
    match id.transport().ok_or(EINVAL)? {
        Used::Ib(ib) => {
            qp::to_error(id)?;
            ib.disconnect(id);
            Ok(())
        }
        Used::Iw(iw) => iw.disconnect(),
    }
}

/// Reports an event of the queue pair. Any context, so no reference to the device is taken, whose
/// drop may be the last.
pub(crate) fn notify(id: &Id, event: u32) -> Result {
    let is_ca = id.with(|inner| {
        let attached = inner.device.as_ref()?;
        Some(Node::IbCa.allows(attached.device.view().node_type()))
    });
    match (id.transport().ok_or(EINVAL)?, is_ca.ok_or(EINVAL)?) {
        (Used::Ib(ib), true) => ib.notify(event),
        (Used::Ib(_), false) | (Used::Iw(_), _) => Ok(()),
    }
}

/// Delivers an event of a transport. Returns what its handler returns.
fn tell(id: &Arc<Id>, guard: HandlerGuard<'_>, told: Told, event: &mut Event) -> c_int {
    let cause = Cause::Connection(told.happened, told.kind);
    match deliver::deliver(guard, cause, event, told.status) {
        Delivered::Kept(guard) => {
            drop(guard);
            0
        }
        Delivered::Ended(answer, end) => {
            deliver::give_up_transport(id);
            end.finish(id);
            answer
        }
    }
}

/// An event of `ib_cm`.
pub(crate) fn ib_event(id: &Arc<Id>, incoming: &ib::Incoming<'_>) -> c_int {
    let guard = id.lock();
    let happened = incoming.event();
    let wanted = if happened.is_late() {
        State::Disconnect
    } else {
        State::Connect
    };
    if id.look(|inner| inner.life.state()) != wanted {
        return 0;
    }
    let (told, mut event) = match event::of_ib(happened) {
        IbPlan::Tell(told) => (told, Event::new()),
        IbPlan::Reply => (reply(id), incoming.reply()),
        IbPlan::Rejected => {
            let _already_in_error = qp::to_error(id);
            let (event, reason) = incoming.refusal();
            (event::rejected(reason), event)
        }
        IbPlan::Ignore => return 0,
        IbPlan::Unexpected => {
            pr_err!("unexpected event of ib_cm\n");
            return 0;
        }
    };
    tell(id, guard, told, &mut event)
}

/// What the consumer is told when the peer accepts.
fn reply(id: &Id) -> Told {
    let Some(Used::Ib(ib)) = id.transport() else {
        return event::replied(None);
    };
    if id.qp_type() != QpType::Ud {
        ib.prepare_mra(id);
    }
    let ready = id
        .has_qp()
        .then(|| ready(id, &ib).map_err(|error| error.to_errno()));
    event::replied(ready)
}

/// An answer of `ib_cm` to a request for datagrams.
pub(crate) fn sidr_event(id: &Arc<Id>, sidr: &ib::Sidr<'_>) -> c_int {
    let guard = id.lock();
    if id.with(|inner| inner.life.state()) != State::Connect {
        return 0;
    }
    if !sidr.is_known() {
        pr_err!("unexpected event of ib_cm\n");
        return 0;
    }
    let told = match sidr.answer() {
        None => event::SIDR_TIMED_OUT,
        Some((status, qkey, _)) => {
            let taken = if status == 0 {
                qp::set_qkey(id, qkey).map_err(|error| error.to_errno())
            } else {
                Ok(())
            };
            event::of_sidr(status, taken)
        }
    };
    let established = told.kind == event::Kind::Established;
    let mut event = sidr.event(id, established);
    tell(id, guard, told, event.event())
}

/// An event of `iw_cm`.
pub(crate) fn iw_event(id: &Arc<Id>, incoming: &iw::Incoming<'_>) -> c_int {
    let guard = id.lock();
    if id.with(|inner| inner.life.state()) != State::Connect {
        return 0;
    }
    let (happened, status) = incoming.event();
    let Some(told) = event::of_iw(happened, status) else {
        return 0;
    };
    if happened == IwEvent::ConnectReply {
        let (local, remote) = incoming.addrs();
        if let (Some(local), Some(remote)) = (local, remote) {
            id.set_source(local);
            id.set_destination(remote);
        }
    }
    let values = told.kind == event::Kind::Established;
    let mut event = incoming.for_consumer(values);
    tell(id, guard, told, &mut event)
}
