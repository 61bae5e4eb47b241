// SPDX-License-Identifier: GPL-2.0

//! Attributes of the queue pair of a connection, by its next state (`ib_cm_init_qp_attr`).

use crate::conn::Conn;
use crate::edge::args::Mask;
use crate::edge::args::QpAttr;
use crate::edge::trace;
use crate::edge::trace::OfId;
use crate::proto::conn::Alternate;
use crate::proto::conn::InitiatorAttr;
use crate::proto::conn::RtsAttr;
use crate::proto::path::PERMISSIVE_LID;
use crate::way::Ref;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

/// Flags of a mask, which the kernel declares signed.
const fn mask(flags: u32) -> i32 {
    // CAST: Flags below the sign.
    flags as i32
}

/// Sets the attributes for the state that the consumer asks for, and the mask.
///
/// # Errors
///
/// `EINVAL` if the state of the connection does not permit it.
pub(super) fn attributes(conn: &Arc<Conn>, attr: &QpAttr<'_>, to: Mask<'_>) -> Result {
    let (result, err) = match attr.qp_state() {
        bindings::ib_qp_state_IB_QPS_INIT => (init(conn, attr), OfId::QpInitErr),
        bindings::ib_qp_state_IB_QPS_RTR => (rtr(conn, attr), OfId::QpRtrErr),
        bindings::ib_qp_state_IB_QPS_RTS => (rts(conn, attr), OfId::QpRtsErr),
        _ => return Err(EINVAL),
    };
    let mut to = to;
    match result {
        Ok(flags) => {
            to.set(mask(flags));
            Ok(())
        }
        Err(e) => {
            trace::id(err, conn.id());
            Err(e)
        }
    }
}

fn init(conn: &Arc<Conn>, attr: &QpAttr<'_>) -> Result<u32> {
    conn.look(|state| {
        let init = state.engine.init_attr().map_err(|_| EINVAL)?;
        let way = &init.path.route;
        let mut access = bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
        if init.can_respond {
            access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
                | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;
            let flush = bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL
                | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_PERSISTENT;
            // CAST: All flags of a device.
            if way.port.device_caps & (flush as u64) != 0 {
                access |= bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL
                    | bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT;
            }
        }
        attr.set_qp_access_flags(mask(access));
        attr.set_pkey_index(way.route.pkey_index());
        attr.set_port_num(way.port.number);
        Ok(bindings::ib_qp_attr_mask_IB_QP_STATE
            | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS
            | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
            | bindings::ib_qp_attr_mask_IB_QP_PORT)
    })
}

fn set_alternate(attr: &QpAttr<'_>, alternate: &Alternate<'_, Ref>) {
    let way = &alternate.path.route;
    attr.set_alt_port_num(way.port.number);
    attr.set_alt_pkey_index(way.route.pkey_index());
    attr.set_alt_timeout(alternate.path.timeout);
    attr.set_alternate_route(&way.route);
}

fn rtr(conn: &Arc<Conn>, attr: &QpAttr<'_>) -> Result<u32> {
    conn.look(|state| {
        let rtr = state.engine.rtr_attr().map_err(|_| EINVAL)?;
        let way = &rtr.path.route;
        let mut flags = bindings::ib_qp_attr_mask_IB_QP_STATE
            | bindings::ib_qp_attr_mask_IB_QP_AV
            | bindings::ib_qp_attr_mask_IB_QP_PATH_MTU
            | bindings::ib_qp_attr_mask_IB_QP_DEST_QPN
            | bindings::ib_qp_attr_mask_IB_QP_RQ_PSN;
        attr.set_route(&way.route);
        let vector = attr.ah_attr();
        if way.route.kind() == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB
            && way.data_lid != 0
            && way.data_lid != PERMISSIVE_LID
        {
            let (_, path_bits) = vector.lids();
            vector.set_ib(way.data_lid, path_bits);
        }
        attr.set_path_mtu(rtr.mtu.into());
        attr.set_dest_qp_num(rtr.dest_qpn.get());
        attr.set_rq_psn(rtr.rq_psn.get());
        if let Some(depth) = rtr.max_dest_rd_atomic {
            flags |= bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
                | bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER;
            attr.set_max_dest_rd_atomic(depth);
            attr.set_min_rnr_timer(0);
        }
        if let Some(alternate) = &rtr.alternate {
            flags |= bindings::ib_qp_attr_mask_IB_QP_ALT_PATH;
            set_alternate(attr, alternate);
        }
        Ok(flags)
    })
}

fn rts(conn: &Arc<Conn>, attr: &QpAttr<'_>) -> Result<u32> {
    conn.look(|state| match state.engine.rts_attr().map_err(|_| EINVAL)? {
        RtsAttr::First {
            sq_psn,
            initiator,
            timeout,
            rearm,
        } => {
            let mut flags =
                bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN;
            attr.set_sq_psn(sq_psn.get());
            if let Some(InitiatorAttr {
                retry_cnt,
                rnr_retry,
                max_rd_atomic,
            }) = initiator
            {
                flags |= bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT
                    | bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY
                    | bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC;
                attr.set_retry_cnt(retry_cnt);
                attr.set_rnr_retry(rnr_retry);
                attr.set_max_rd_atomic(max_rd_atomic);
            }
            if let Some(timeout) = timeout {
                flags |= bindings::ib_qp_attr_mask_IB_QP_TIMEOUT;
                attr.set_timeout(timeout);
            }
            if rearm {
                flags |= bindings::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE;
                attr.set_path_mig_state(bindings::ib_mig_state_IB_MIG_REARM);
            }
            Ok(flags)
        }
        RtsAttr::Alternate(alternate) => {
            if let Some(alternate) = &alternate {
                set_alternate(attr, alternate);
            }
            attr.set_path_mig_state(bindings::ib_mig_state_IB_MIG_REARM);
            Ok(bindings::ib_qp_attr_mask_IB_QP_ALT_PATH
                | bindings::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE)
        }
    })
}
