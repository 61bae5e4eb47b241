// SPDX-License-Identifier: GPL-2.0

//! Modification of queue pairs.
//!
//! Drivers check the attributes of a state transition with [`crate::proto::modify_qp`]
//! (`ib_modify_qp_is_ok`). This file prepares the modification: it takes references to the local
//! GIDs of the paths, resolves the link-layer addresses of users' RoCE paths, and binds the port's
//! counter. Once the driver has accepted the modification, its port and GIDs are recorded in the
//! queue pair.

use crate::addr;
use crate::counter;
use crate::device::Caps;
use crate::object::ah_attr::Replace;
use crate::object::tables::QpAttr;
use crate::object::tables::UserCall;
use crate::object::Filled;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::modify_qp as rules;
use crate::proto::qp::Attrs;
use crate::security;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::net::NetDevice;

/// Packet sequence numbers have 24 bits.
const PSN_MASK: u32 = 0x00ff_ffff;

/// Returns whether queue pairs of this type are connected to one peer.
const fn is_connected(qp_type: bindings::ib_qp_type) -> bool {
    matches!(
        qp_type,
        bindings::ib_qp_type_IB_QPT_UC
            | bindings::ib_qp_type_IB_QPT_RC
            | bindings::ib_qp_type_IB_QPT_XRC_INI
            | bindings::ib_qp_type_IB_QPT_XRC_TGT
    )
}

/// Returns whether a port has the InfiniBand transport.
fn is_ib_or_roce(qp: &Qp, port: u32) -> bool {
    let caps = Caps::of(qp.device(), port);
    caps.is_ib() || caps.is_roce()
}

/// Truncates a PSN to 24 bits; many consumers increment PSNs beyond that.
fn cut_psn(qp: &Qp, psn: u32, what: &str) -> u32 {
    if psn & !PSN_MASK != 0 {
        let name = qp.device().name();
        kernel::pr_warn_once!("\"{name}\": {what} overflow, masking to 24 bits\n");
    }
    psn & PSN_MASK
}

/// Prepares the path of a modification. With `for_user`, resolves the link-layer address. Returns
/// the slave of a bond that sends the packets, if any.
fn prepare_path(qp: &Qp, path: &mut Filled<'_>, for_user: bool) -> Result<Option<ARef<NetDevice>>> {
    if !path.is_roce() || !is_connected(qp.qp_type()) {
        return Ok(None);
    }
    if for_user {
        addr::resolve(path)?;
    }
    addr::lag::slave_of(qp.device(), path, true)
}

/// Modifies a queue pair. May sleep; a user's RoCE path may take a second.
///
/// # Errors
///
/// `EINVAL` and others for an invalid path; `ENODATA`, `ETIMEDOUT` and those of routing for an
/// unreachable one; those of the driver.
fn modify(qp: &Qp, attr: &QpAttr, mask: c_int, call: Option<&UserCall>) -> Result {
    // A handle keeps its queue pair.
    let qp = qp.real();
    // The mask is a bit set, whatever its type.
    let attrs = Attrs(mask as u32);
    let device = qp.device();
    device.needs(|ops| ops.modify_qp)?;
    let has_port = attrs.has_any(Attrs::PORT);
    let port = if has_port { attr.port_num() } else { qp.port() };
    attr.set_xmit_slave(None);

    let mut slave = None;
    let path = if attrs.has_any(Attrs::AV) {
        let mut path = Filled::new(device, attr.ah_attr())?;
        slave = prepare_path(qp, &mut path, call.is_some())?;
        Some(path)
    } else {
        None
    };
    let alternate = if attrs.has_any(Attrs::ALT_PATH) {
        let alternate = Filled::new(device, attr.alt_ah_attr())?;
        // RoCE does not support path migration.
        let both = [alternate.port(), port];
        if !both.iter().all(|port| Caps::of(device, *port).is_ib()) {
            return Err(EINVAL);
        }
        Some(alternate)
    } else {
        None
    };

    attr.set_xmit_slave(slave.as_deref());
    if is_ib_or_roce(qp, port) {
        if attrs.has_any(Attrs::RQ_PSN) {
            attr.set_rq_psn(cut_psn(qp, attr.rq_psn(), "rq_psn"));
        }
        if attrs.has_any(Attrs::SQ_PSN) {
            attr.set_sq_psn(cut_psn(qp, attr.sq_psn(), "sq_psn"));
        }
    }
    let to_init = attr.qp_state() == bindings::ib_qp_state_IB_QPS_INIT;
    // `bind_qp_auto` checks again under its lock.
    if qp.counter().is_null() && has_port && attrs.has_any(Attrs::STATE) && to_init {
        counter::bind_qp_auto(qp, port);
    }
    security::modify(qp, attr, attrs, || qp.driver().modify_qp(attr, mask, call))?;
    if has_port {
        // Concurrent modifications may read it.
        qp.set_port(port);
    }
    if let Some(path) = &path {
        qp.av_sgid_attr().replace(path.gid());
    }
    if let Some(alternate) = &alternate {
        qp.alt_path_sgid_attr().replace(alternate.gid());
    }
    Ok(())
}

/// Modifies a queue pair for a kernel consumer. See [`modify`].
pub(crate) fn modify_for_kernel(qp: &Qp, attr: &QpAttr, mask: c_int) -> Result {
    modify(qp, attr, mask, None)
}

/// Moves a queue pair to the error state. May sleep.
pub(super) fn fail(qp: &Qp) {
    let attr = QpAttr::default();
    attr.set_qp_state(bindings::ib_qp_state_IB_QPS_ERR);
    let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
    // Drivers refuse this for a queue pair in reset, which has nothing to stop.
    let _: Result = modify(qp, &attr, mask, None);
}

/// Returns whether a state transition with these attributes is valid. Any context.
fn is_ok(
    from: bindings::ib_qp_state,
    to: bindings::ib_qp_state,
    qp_type: bindings::ib_qp_type,
    mask: bindings::ib_qp_attr_mask,
) -> bool {
    let (Some(from), Some(to), Some(qp_type)) = (
        rules::QpState::from_raw(from),
        rules::QpState::from_raw(to),
        rules::QpType::from_raw(qp_type),
    ) else {
        return false;
    };
    rules::check(from, to, qp_type, Attrs(mask))
}

rdma::export! {
    in rdma::bindings;

    /// See [`is_ok`].
    fn ib_modify_qp_is_ok(from: u32, to: u32, qp_type: u32, mask: u32) -> bool = is_ok;
    /// See [`modify_for_kernel`].
    fn ib_modify_qp(qp: &Qp, attr: &QpAttr, mask: c_int) -> Result = modify_for_kernel;
    /// See [`modify`].
    fn ib_modify_qp_with_udata(qp: &Qp, attr: &QpAttr, mask: c_int, call: Option<&UserCall>)
        -> Result = modify;
}
