// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs: how programs change and read them.
//!
//! C headers: `struct ib_uverbs_modify_qp`, `struct ib_uverbs_query_qp` and others in
//! `include/uapi/rdma/ib_user_verbs.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::Id;
use crate::edge::handle::Shared;
use crate::edge::object::device::Port;
use crate::edge::object::qp;
use crate::edge::unsupported;
use crate::edge::user::Plain;
use crate::object::ah::vector;
use crate::object::qp::Qp;
use crate::table::Def;
use crate::table::Write;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_uverbs_ah_attr;
use rdma::bindings::ib_uverbs_ex_modify_qp;
use rdma::bindings::ib_uverbs_ex_modify_qp_resp;
use rdma::bindings::ib_uverbs_modify_qp;
use rdma::bindings::ib_uverbs_qp_dest;
use rdma::bindings::ib_uverbs_query_qp;
use rdma::bindings::ib_uverbs_query_qp_resp;
use rdma::edge::device::Device;
use rdma::edge::verbs;
use rdma::edge::verbs::AhAttr;
use rdma::edge::verbs::QpAttr;

/// The table of attributes of queue pairs.
pub(crate) const TABLE: &[Def] = &[
    Def::Object(Qp::ID),
    Def::Write(Write::input::<ib_uverbs_modify_qp>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_QP,
        modify_by_command,
    )),
    Def::CommandNeeds(needs!(modify_qp)),
    Def::Write(Write::extended::<
        ib_uverbs_ex_modify_qp,
        ib_uverbs_ex_modify_qp_resp,
    >(
        bindings::IB_USER_VERBS_EX_CMD_MODIFY_QP, modify_extended
    )),
    Def::CommandNeeds(needs!(modify_qp)),
    Def::Write(Write::both::<ib_uverbs_query_qp, ib_uverbs_query_qp_resp>(
        bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_QP,
        query,
    )),
    Def::CommandNeeds(needs!(query_qp)),
];

use bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS as ACCESS_FLAGS;
use bindings::ib_qp_attr_mask_IB_QP_ALT_PATH as ALT_PATH;
use bindings::ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS as STANDARD_BITS;
use bindings::ib_qp_attr_mask_IB_QP_AV as AV;
use bindings::ib_qp_attr_mask_IB_QP_CUR_STATE as CUR_STATE;
use bindings::ib_qp_attr_mask_IB_QP_DEST_QPN as DEST_QPN;
use bindings::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY as EN_SQD_ASYNC_NOTIFY;
use bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC as MAX_DEST_RD_ATOMIC;
use bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC as MAX_QP_RD_ATOMIC;
use bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER as MIN_RNR_TIMER;
use bindings::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE as PATH_MIG_STATE;
use bindings::ib_qp_attr_mask_IB_QP_PATH_MTU as PATH_MTU;
use bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX as PKEY_INDEX;
use bindings::ib_qp_attr_mask_IB_QP_PORT as PORT;
use bindings::ib_qp_attr_mask_IB_QP_QKEY as QKEY;
use bindings::ib_qp_attr_mask_IB_QP_RATE_LIMIT as RATE_LIMIT;
use bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT as RETRY_CNT;
use bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY as RNR_RETRY;
use bindings::ib_qp_attr_mask_IB_QP_RQ_PSN as RQ_PSN;
use bindings::ib_qp_attr_mask_IB_QP_SQ_PSN as SQ_PSN;
use bindings::ib_qp_attr_mask_IB_QP_STATE as STATE;
use bindings::ib_qp_attr_mask_IB_QP_TIMEOUT as TIMEOUT;

/// The attributes of a mask that the type of the queue pair does not ignore.
fn of_type(kind: u32, mask: u32) -> u32 {
    match kind {
        bindings::ib_qp_type_IB_QPT_XRC_INI => mask & !(MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
        bindings::ib_qp_type_IB_QPT_XRC_TGT => mask & !(MAX_QP_RD_ATOMIC | RETRY_CNT | RNR_RETRY),
        _ => mask,
    }
}

/// Whether a number is that of a state (`enum ib_qp_state`).
fn is_state(number: u8) -> bool {
    u32::from(number) <= bindings::ib_qp_state_IB_QPS_ERR
}

/// The address vector of a path.
///
/// # Errors
///
/// `EINVAL`: the device does not have its port.
fn path(device: &Device, to: &ib_uverbs_qp_dest) -> Result<AhAttr> {
    let mut asked = ib_uverbs_ah_attr::zeroed();
    asked.grh.dgid = to.dgid;
    asked.grh.flow_label = to.flow_label;
    asked.grh.sgid_index = to.sgid_index;
    asked.grh.hop_limit = to.hop_limit;
    asked.grh.traffic_class = to.traffic_class;
    asked.dlid = to.dlid;
    asked.sl = to.sl;
    asked.src_path_bits = to.src_path_bits;
    asked.static_rate = to.static_rate;
    asked.is_global = to.is_global;
    asked.port_num = to.port_num;
    Ok(vector(Port::of(device, to.port_num.into())?, &asked))
}

fn modify_by_command(call: &Call) -> Result {
    let request: ib_uverbs_modify_qp = call.request()?;
    if request.attr_mask & !STANDARD_BITS != 0 {
        return Err(unsupported());
    }
    modify(call, request, 0)
}

fn modify_extended(call: &Call) -> Result {
    let request: ib_uverbs_ex_modify_qp = call.request()?;
    if request.base.attr_mask & !(STANDARD_BITS | RATE_LIMIT) != 0 {
        return Err(unsupported());
    }
    modify(call, request.base, request.rate_limit)?;
    call.respond(|answer: &mut ib_uverbs_ex_modify_qp_resp| {
        answer.response_length = call.response_length::<ib_uverbs_ex_modify_qp_resp>();
    })
}

/// Changes attributes, for both commands.
fn modify(call: &Call, mut asked: ib_uverbs_modify_qp, rate_limit: u32) -> Result {
    let qp = Shared::<Qp>::get(call, asked.qp_handle)?;
    check(&qp, &mut asked)?;
    let has = |bit: u32| asked.attr_mask & bit != 0;
    let privileged = asked.qkey & bindings::IB_QP_SET_QKEY != 0;
    if has(QKEY) && privileged && !qp::has_open_qkeys() && !qp::has_raw_right(call) {
        return Err(EPERM);
    }
    let attr = attributes(&qp, &asked, rate_limit)?;
    qp::modify(call, &qp, &attr, of_type(qp.qp_type(), asked.attr_mask))
}

/// Checks ports and states. A path that changes without its port takes the port along.
///
/// # Errors
///
/// `EINVAL`.
fn check(qp: &verbs::Qp, asked: &mut ib_uverbs_modify_qp) -> Result {
    let mask = asked.attr_mask;
    let has = |bit: u32| mask & bit != 0;
    let ports = |port: u8| Port::of(qp.dev(), port.into()).is_ok();
    if has(PORT) && !ports(asked.port_num) {
        return Err(EINVAL);
    }
    if has(AV) {
        if !ports(asked.dest.port_num) {
            return Err(EINVAL);
        }
        let is_rtr = u32::from(asked.qp_state) == bindings::ib_qp_state_IB_QPS_RTR;
        if has(STATE) && is_rtr {
            // From INIT, which has set the port.
            if u32::from(asked.dest.port_num) != qp.real().port() {
                return Err(EINVAL);
            }
        } else if has(PORT) {
            if asked.port_num != asked.dest.port_num {
                return Err(EINVAL);
            }
        } else {
            // In SQD: drivers do not derive the port from the path.
            asked.attr_mask |= PORT;
            asked.port_num = asked.dest.port_num;
        }
    }
    let alternate = asked.alt_dest.port_num;
    if has(ALT_PATH)
        && (!ports(asked.alt_port_num) || !ports(alternate) || asked.alt_port_num != alternate)
    {
        return Err(EINVAL);
    }
    if has(CUR_STATE) && !is_state(asked.cur_qp_state) || has(STATE) && !is_state(asked.qp_state) {
        return Err(EINVAL);
    }
    Ok(())
}

/// The attributes that a program asks for, which were checked. Others are zero.
///
/// # Errors
///
/// Those of [`path`].
fn attributes(qp: &verbs::Qp, asked: &ib_uverbs_modify_qp, rate_limit: u32) -> Result<QpAttr> {
    let attr = QpAttr::default();
    let has = |bit: u32| asked.attr_mask & bit != 0;
    if has(STATE) {
        attr.set_qp_state(asked.qp_state.into());
    }
    if has(CUR_STATE) {
        attr.set_cur_qp_state(asked.cur_qp_state.into());
    }
    if has(PATH_MTU) {
        attr.set_path_mtu(asked.path_mtu.into());
    }
    if has(PATH_MIG_STATE) {
        attr.set_path_mig_state(asked.path_mig_state.into());
    }
    if has(QKEY) {
        attr.set_qkey(asked.qkey);
    }
    if has(RQ_PSN) {
        attr.set_rq_psn(asked.rq_psn);
    }
    if has(SQ_PSN) {
        attr.set_sq_psn(asked.sq_psn);
    }
    if has(DEST_QPN) {
        attr.set_dest_qp_num(asked.dest_qp_num);
    }
    if has(ACCESS_FLAGS) {
        // CAST: C keeps the bits in an `int`.
        attr.set_qp_access_flags(asked.qp_access_flags as i32);
    }
    if has(PKEY_INDEX) {
        attr.set_pkey_index(asked.pkey_index);
    }
    if has(EN_SQD_ASYNC_NOTIFY) {
        attr.set_en_sqd_async_notify(asked.en_sqd_async_notify);
    }
    if has(MAX_QP_RD_ATOMIC) {
        attr.set_max_rd_atomic(asked.max_rd_atomic);
    }
    if has(MAX_DEST_RD_ATOMIC) {
        attr.set_max_dest_rd_atomic(asked.max_dest_rd_atomic);
    }
    if has(MIN_RNR_TIMER) {
        attr.set_min_rnr_timer(asked.min_rnr_timer);
    }
    if has(PORT) {
        attr.set_port_num(asked.port_num.into());
    }
    if has(TIMEOUT) {
        attr.set_timeout(asked.timeout);
    }
    if has(RETRY_CNT) {
        attr.set_retry_cnt(asked.retry_cnt);
    }
    if has(RNR_RETRY) {
        attr.set_rnr_retry(asked.rnr_retry);
    }
    if has(RATE_LIMIT) {
        attr.set_rate_limit(rate_limit);
    }
    if has(AV) {
        attr.ah_attr().assign(&path(qp.dev(), &asked.dest)?);
    }
    if has(ALT_PATH) {
        attr.set_alt_port_num(asked.alt_port_num.into());
        attr.set_alt_timeout(asked.alt_timeout);
        attr.set_alt_pkey_index(asked.alt_pkey_index);
        attr.alt_ah_attr().assign(&path(qp.dev(), &asked.alt_dest)?);
    }
    Ok(attr)
}

/// A number for which the answer has eight bits. C cuts it, too.
fn low8(number: u32) -> u8 {
    // CAST: Cut.
    number as u8
}

fn query(call: &Call) -> Result {
    let request: ib_uverbs_query_qp = call.request()?;
    let (attr, made) = {
        let qp = Shared::<Qp>::get(call, request.qp_handle)?;
        qp::query(&qp, request.attr_mask)?
    };
    call.respond(|answer: &mut ib_uverbs_query_qp_resp| {
        answer.qp_state = low8(attr.qp_state());
        answer.cur_qp_state = low8(attr.cur_qp_state());
        answer.path_mtu = low8(attr.path_mtu());
        answer.path_mig_state = low8(attr.path_mig_state());
        answer.qkey = attr.qkey();
        answer.rq_psn = attr.rq_psn();
        answer.sq_psn = attr.sq_psn();
        answer.dest_qp_num = attr.dest_qp_num();
        // CAST: C keeps the bits in an `int`.
        answer.qp_access_flags = attr.qp_access_flags() as u32;
        answer.pkey_index = attr.pkey_index();
        answer.alt_pkey_index = attr.alt_pkey_index();
        answer.sq_draining = attr.sq_draining();
        answer.max_rd_atomic = attr.max_rd_atomic();
        answer.max_dest_rd_atomic = attr.max_dest_rd_atomic();
        answer.min_rnr_timer = attr.min_rnr_timer();
        answer.port_num = low8(attr.port_num());
        answer.timeout = attr.timeout();
        answer.retry_cnt = attr.retry_cnt();
        answer.rnr_retry = attr.rnr_retry();
        answer.alt_port_num = low8(attr.alt_port_num());
        answer.alt_timeout = attr.alt_timeout();
        fill(&mut answer.dest, attr.ah_attr());
        fill(&mut answer.alt_dest, attr.alt_ah_attr());
        answer.max_send_wr = made.max_send_wr();
        answer.max_recv_wr = made.max_recv_wr();
        answer.max_send_sge = made.max_send_sge();
        answer.max_recv_sge = made.max_recv_sge();
        answer.max_inline_data = made.max_inline_data();
        let all = bindings::ib_sig_type_IB_SIGNAL_ALL_WR;
        answer.sq_sig_all = u8::from(made.sq_sig_type() == all);
    })
}

/// Describes a path to the program.
fn fill(answer: &mut ib_uverbs_qp_dest, attr: &AhAttr) {
    let (dlid, src_path_bits) = attr.lids();
    // CAST: Cut, as C does.
    answer.dlid = dlid as u16;
    answer.src_path_bits = src_path_bits;
    answer.sl = attr.sl();
    answer.static_rate = attr.static_rate();
    if u32::from(attr.ah_flags()) & bindings::ib_ah_flags_IB_AH_GRH != 0 {
        answer.is_global = 1;
        answer.dgid = attr.destination();
        answer.flow_label = attr.flow_label();
        answer.sgid_index = attr.sgid_index();
        answer.hop_limit = attr.hop_limit();
        answer.traffic_class = attr.traffic_class();
    }
    answer.port_num = low8(attr.port_num());
}
