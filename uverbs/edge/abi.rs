// SPDX-License-Identifier: GPL-2.0

//! Structures of `rdma/ib_user_verbs.h` and `rdma/ib_user_ioctl_verbs.h` that are copied to and from
//! programs as they are.

use super::user::Plain;
use crate::proto::flow::HEADER;
use rdma::bindings;

macro_rules! plain {
    ($($t:ident),* $(,)?) => { $(
        // SAFETY: A structure of the uapi headers, which consists of integers, and of arrays and
        // structures of them.
        unsafe impl Plain for bindings::$t {}
    )* };
}

plain!(
    ib_sge,
    ib_uverbs_ah_attr,
    ib_uverbs_alloc_mw,
    ib_uverbs_alloc_mw_resp,
    ib_uverbs_alloc_pd,
    ib_uverbs_alloc_pd_resp,
    ib_uverbs_async_event_desc,
    ib_uverbs_attach_mcast,
    ib_uverbs_close_xrcd,
    ib_uverbs_comp_event_desc,
    ib_uverbs_create_ah,
    ib_uverbs_create_ah_resp,
    ib_uverbs_create_comp_channel,
    ib_uverbs_create_comp_channel_resp,
    ib_uverbs_create_cq,
    ib_uverbs_create_cq_resp,
    ib_uverbs_create_flow_resp,
    ib_uverbs_create_qp,
    ib_uverbs_create_qp_resp,
    ib_uverbs_create_srq,
    ib_uverbs_create_srq_resp,
    ib_uverbs_create_xsrq,
    ib_uverbs_dealloc_mw,
    ib_uverbs_dealloc_pd,
    ib_uverbs_dereg_mr,
    ib_uverbs_destroy_ah,
    ib_uverbs_destroy_cq,
    ib_uverbs_destroy_cq_resp,
    ib_uverbs_destroy_flow,
    ib_uverbs_destroy_qp,
    ib_uverbs_destroy_qp_resp,
    ib_uverbs_destroy_srq,
    ib_uverbs_destroy_srq_resp,
    ib_uverbs_detach_mcast,
    ib_uverbs_ex_create_cq,
    ib_uverbs_ex_create_cq_resp,
    ib_uverbs_ex_create_qp,
    ib_uverbs_ex_create_qp_resp,
    ib_uverbs_ex_create_rwq_ind_table,
    ib_uverbs_ex_create_rwq_ind_table_resp,
    ib_uverbs_ex_create_wq,
    ib_uverbs_ex_create_wq_resp,
    ib_uverbs_ex_destroy_rwq_ind_table,
    ib_uverbs_ex_destroy_wq,
    ib_uverbs_ex_destroy_wq_resp,
    ib_uverbs_ex_modify_cq,
    ib_uverbs_ex_modify_qp,
    ib_uverbs_ex_modify_qp_resp,
    ib_uverbs_ex_modify_wq,
    ib_uverbs_ex_query_device,
    ib_uverbs_ex_query_device_resp,
    ib_uverbs_get_context,
    ib_uverbs_get_context_resp,
    ib_uverbs_gid_entry,
    ib_uverbs_modify_qp,
    ib_uverbs_modify_srq,
    ib_uverbs_open_qp,
    ib_uverbs_open_xrcd,
    ib_uverbs_open_xrcd_resp,
    ib_uverbs_poll_cq,
    ib_uverbs_poll_cq_resp,
    ib_uverbs_post_recv,
    ib_uverbs_post_recv_resp,
    ib_uverbs_post_send,
    ib_uverbs_post_send_resp,
    ib_uverbs_post_srq_recv,
    ib_uverbs_post_srq_recv_resp,
    ib_uverbs_qp_cap,
    ib_uverbs_query_device,
    ib_uverbs_query_device_resp,
    ib_uverbs_query_port,
    ib_uverbs_query_port_resp,
    ib_uverbs_query_port_resp_ex,
    ib_uverbs_query_qp,
    ib_uverbs_query_qp_resp,
    ib_uverbs_query_srq,
    ib_uverbs_query_srq_resp,
    ib_uverbs_reg_mr,
    ib_uverbs_reg_mr_resp,
    ib_uverbs_req_notify_cq,
    ib_uverbs_rereg_mr,
    ib_uverbs_rereg_mr_resp,
    ib_uverbs_resize_cq,
    ib_uverbs_resize_cq_resp,
    ib_uverbs_wc,
);

/// The begin of a request for a flow (`struct ib_uverbs_create_flow`, without its specifications).
#[repr(C)]
pub(crate) struct CreateFlow {
    pub(crate) comp_mask: u32,
    pub(crate) qp_handle: u32,
    /// The header of the `struct ib_uverbs_flow_attr`.
    pub(crate) header: [u8; HEADER],
}

const _: () = assert!(size_of::<CreateFlow>() == size_of::<bindings::ib_uverbs_create_flow>());

// SAFETY: It consists of integers and bytes.
unsafe impl Plain for CreateFlow {}
