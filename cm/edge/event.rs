// SPDX-License-Identifier: GPL-2.0

//! Events (`struct ib_cm_event`), and the call of a consumer's handler.
//!
//! The structure is made for the call, from the message, which is still in the buffer that it was
//! received in. Must match `include/rdma/ib_cm.h`.

use super::id::give;
use super::id::Given;
use crate::conn::Conn;
use crate::proto::wire::Body;
use crate::proto::wire::Message;
use crate::proto::wire::Rep;
use crate::proto::wire::Req;
use crate::proto::wire::Transport;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::verbs::GidAttr;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::mad::Path;

/// What a handler is told.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    /// A message was received.
    Message(&'a Message<'a>),
    /// An event without data (`enum ib_cm_event_type`).
    Plain(u32),
    /// A send ended without success: the event, and `enum ib_wc_status`.
    SendError(u32, u32),
}

/// What an event has besides the message.
#[derive(Default)]
pub(crate) struct Extra<'a> {
    /// The listener of a request.
    pub(crate) listener: Option<&'a Conn>,
    /// The port that a request came to.
    pub(crate) port: u32,
    /// The P_Key that a request came with.
    pub(crate) bth_pkey: u16,
    /// The paths of a REQ or a LAP.
    pub(crate) paths: Option<&'a mut [Option<Path>; 2]>,
    /// The local GID.
    pub(crate) gid: Option<&'a GidAttr>,
    /// The transport of the connection.
    pub(crate) transport: Option<Transport>,
}

type Param = bindings::ib_cm_event__bindgen_ty_1;

fn qp_type(transport: Transport) -> u32 {
    match transport {
        Transport::Rc => bindings::ib_qp_type_IB_QPT_RC,
        Transport::Uc => bindings::ib_qp_type_IB_QPT_UC,
        Transport::Xrc => bindings::ib_qp_type_IB_QPT_XRC_TGT,
        Transport::Other(..) => 0,
    }
}

fn listener(conn: Option<&Conn>) -> *mut bindings::ib_cm_id {
    conn.map_or(ptr::null_mut(), |conn| conn.id().raw())
}

fn gid(gid: Option<&GidAttr>) -> *const bindings::ib_gid_attr {
    gid.map_or(ptr::null(), |gid| gid.raw().cast_const())
}

/// Address of bytes in a message, which handlers do not change.
fn address(bytes: &[u8]) -> *mut c_void {
    bytes.as_ptr().cast_mut().cast()
}

/// Length of information in a message, which is at most 72 bytes.
fn short(bytes: &[u8]) -> u8 {
    u8::try_from(bytes.len()).unwrap_or(u8::MAX)
}

fn req(req: &Req<'_>, extra: &mut Extra<'_>) -> bindings::ib_cm_req_event_param {
    let [primary, alternate] = match extra.paths.as_deref_mut() {
        Some(paths) => paths.each_mut().map(|path| match path {
            Some(path) => &raw mut path.0,
            None => ptr::null_mut(),
        }),
        None => [ptr::null_mut(); 2],
    };
    let mut param = bindings::ib_cm_req_event_param {
        listen_id: listener(extra.listener),
        bth_pkey: extra.bth_pkey,
        // CAST: As in C; larger numbers occur on no device.
        port: extra.port as u8,
        primary_path: primary,
        alternate_path: alternate,
        ppath_sgid_attr: gid(extra.gid),
        remote_ca_guid: req.ca_guid.0.to_be(),
        remote_qkey: req.qkey,
        remote_qpn: req.qpn.get(),
        qp_type: qp_type(req.transport),
        starting_psn: req.psn.get(),
        // The peer's point of view: the sides change.
        responder_resources: req.initiator_depth,
        initiator_depth: req.responder_resources,
        ece: bindings::rdma_ucm_ece {
            vendor_id: req.ece.vendor_id,
            attr_mod: req.ece.attr_mod,
        },
        ..Default::default()
    };
    param.set_local_cm_response_timeout(req.remote_response_timeout.into());
    param.set_flow_control(req.flow_control.into());
    param.set_remote_cm_response_timeout(req.local_response_timeout.into());
    param.set_retry_count(req.retry_count.into());
    param.set_rnr_retry_count(req.rnr_retry_count.into());
    param.set_srq(req.srq.into());
    param
}

fn rep(rep: &Rep<'_>, extra: &Extra<'_>) -> bindings::ib_cm_rep_event_param {
    let transport = extra.transport.unwrap_or(Transport::Rc);
    let mut param = bindings::ib_cm_rep_event_param {
        remote_ca_guid: rep.ca_guid.0.to_be(),
        remote_qkey: rep.qkey,
        remote_qpn: rep.qpn_for(transport).get(),
        starting_psn: rep.psn.get(),
        // The peer's point of view: the sides change.
        responder_resources: rep.initiator_depth,
        initiator_depth: rep.responder_resources,
        ece: bindings::rdma_ucm_ece {
            vendor_id: rep.ece.vendor_id,
            attr_mod: rep.ece.attr_mod,
        },
        ..Default::default()
    };
    param.set_target_ack_delay(rep.target_ack_delay.into());
    param.set_failover_accepted(rep.failover_accepted.into());
    param.set_flow_control(rep.flow_control.into());
    param.set_rnr_retry_count(rep.rnr_retry_count.into());
    param.set_srq(rep.srq.into());
    param
}

/// The event of a message, and its parameters.
fn message(body: &Body<'_>, extra: &mut Extra<'_>) -> (u32, Param) {
    match body {
        Body::Req(m) => (
            bindings::ib_cm_event_type_IB_CM_REQ_RECEIVED,
            Param {
                req_rcvd: ManuallyDrop::new(req(m, extra)),
            },
        ),
        Body::Mra(m) => (
            bindings::ib_cm_event_type_IB_CM_MRA_RECEIVED,
            Param {
                mra_rcvd: ManuallyDrop::new(bindings::ib_cm_mra_event_param {
                    service_timeout: m.service_timeout,
                }),
            },
        ),
        Body::Rej(m) => (
            bindings::ib_cm_event_type_IB_CM_REJ_RECEIVED,
            Param {
                rej_rcvd: ManuallyDrop::new(bindings::ib_cm_rej_event_param {
                    reason: m.reason.0.into(),
                    ari: address(m.ari),
                    ari_length: short(m.ari),
                }),
            },
        ),
        Body::Rep(m) => (
            bindings::ib_cm_event_type_IB_CM_REP_RECEIVED,
            Param {
                rep_rcvd: ManuallyDrop::new(rep(m, extra)),
            },
        ),
        Body::Rtu(_) => (
            bindings::ib_cm_event_type_IB_CM_RTU_RECEIVED,
            Param::default(),
        ),
        Body::Dreq(_) => (
            bindings::ib_cm_event_type_IB_CM_DREQ_RECEIVED,
            Param::default(),
        ),
        Body::Drep(_) => (
            bindings::ib_cm_event_type_IB_CM_DREP_RECEIVED,
            Param::default(),
        ),
        Body::SidrReq(m) => (
            bindings::ib_cm_event_type_IB_CM_SIDR_REQ_RECEIVED,
            Param {
                sidr_req_rcvd: ManuallyDrop::new(bindings::ib_cm_sidr_req_event_param {
                    listen_id: listener(extra.listener),
                    service_id: m.service_id.0.to_be(),
                    sgid_attr: gid(extra.gid),
                    bth_pkey: extra.bth_pkey,
                    // CAST: As in C; larger numbers occur on no device.
                    port: extra.port as u8,
                    pkey: m.pkey,
                }),
            },
        ),
        Body::SidrRep(m) => (
            bindings::ib_cm_event_type_IB_CM_SIDR_REP_RECEIVED,
            Param {
                sidr_rep_rcvd: ManuallyDrop::new(bindings::ib_cm_sidr_rep_event_param {
                    status: m.status.into(),
                    qkey: m.qkey,
                    qpn: m.qpn.get(),
                    info: address(m.info),
                    sgid_attr: gid(extra.gid),
                    info_len: short(m.info),
                }),
            },
        ),
        Body::Lap(_) => (
            bindings::ib_cm_event_type_IB_CM_LAP_RECEIVED,
            Param {
                lap_rcvd: ManuallyDrop::new(bindings::ib_cm_lap_event_param {
                    alternate_path: match extra.paths.as_deref_mut() {
                        Some([Some(path), _]) => &raw mut path.0,
                        Some([None, _]) | None => ptr::null_mut(),
                    },
                }),
            },
        ),
        Body::Apr(m) => (
            bindings::ib_cm_event_type_IB_CM_APR_RECEIVED,
            Param {
                apr_rcvd: ManuallyDrop::new(bindings::ib_cm_apr_event_param {
                    ap_status: m.status.into(),
                    apr_info: address(m.info),
                    info_len: short(m.info),
                }),
            },
        ),
    }
}

/// The handler gave the ID back, with its error.
pub(crate) struct Returned {
    pub(crate) id: Given,
    pub(crate) error: c_int,
}

/// Calls the handler of an ID that the consumer has, or, if `new`, gets with this event. Returns the
/// consumer's reference if the handler gave it back. May sleep.
pub(crate) fn call(
    conn: &Arc<Conn>,
    new: bool,
    what: What<'_>,
    mut extra: Extra<'_>,
) -> Option<Returned> {
    let handler = conn.id().handler()?;
    let mut event = bindings::ib_cm_event::default();
    match what {
        What::Message(of) => {
            let (kind, param) = message(&of.body, &mut extra);
            event.event = kind;
            event.param = param;
            event.private_data = address(of.body.private());
        }
        What::Plain(kind) => event.event = kind,
        What::SendError(kind, status) => {
            event.event = kind;
            event.param = Param {
                send_status: ManuallyDrop::new(status),
            };
        }
    }
    let raw = if new {
        give(conn.clone())
    } else {
        conn.id().raw()
    };
    // SAFETY: The consumer's handler, with its ID. `event` and what it points to exist during the
    // call: paths and GID are borrowed by `extra`, the message by `what`, and the listener by the
    // event, see `conn`.
    let error = unsafe { handler(raw, &event) };
    if error == 0 {
        return None;
    }
    // SAFETY: By returning an error the consumer gives up its reference (`ib_cm_handler` in
    // `ib_cm.h`): `raw` is what it got from `give`, here or when the ID was created.
    let id = unsafe { Given::from_c(raw) };
    Some(Returned { id, error })
}
