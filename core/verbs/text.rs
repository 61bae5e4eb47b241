// SPDX-License-Identifier: GPL-2.0

//! Names of events and completion statuses, for logs.

use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;

/// Name of an asynchronous event.
fn event(event: bindings::ib_event_type) -> &'static CStr {
    match event {
        bindings::ib_event_type_IB_EVENT_CQ_ERR => c"CQ error",
        bindings::ib_event_type_IB_EVENT_QP_FATAL => c"QP fatal error",
        bindings::ib_event_type_IB_EVENT_QP_REQ_ERR => c"QP request error",
        bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR => c"QP access error",
        bindings::ib_event_type_IB_EVENT_COMM_EST => c"communication established",
        bindings::ib_event_type_IB_EVENT_SQ_DRAINED => c"send queue drained",
        bindings::ib_event_type_IB_EVENT_PATH_MIG => c"path migration successful",
        bindings::ib_event_type_IB_EVENT_PATH_MIG_ERR => c"path migration error",
        bindings::ib_event_type_IB_EVENT_DEVICE_FATAL => c"device fatal error",
        bindings::ib_event_type_IB_EVENT_PORT_ACTIVE => c"port active",
        bindings::ib_event_type_IB_EVENT_PORT_ERR => c"port error",
        bindings::ib_event_type_IB_EVENT_LID_CHANGE => c"LID change",
        bindings::ib_event_type_IB_EVENT_PKEY_CHANGE => c"P_key change",
        bindings::ib_event_type_IB_EVENT_SM_CHANGE => c"SM change",
        bindings::ib_event_type_IB_EVENT_SRQ_ERR => c"SRQ error",
        bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED => c"SRQ limit reached",
        bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED => c"last WQE reached",
        bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER => c"client reregister",
        bindings::ib_event_type_IB_EVENT_GID_CHANGE => c"GID changed",
        bindings::ib_event_type_IB_EVENT_DEVICE_SPEED_CHANGE => c"device speed change",
        _ => c"unrecognized event",
    }
}

/// Name of a completion status.
fn status(status: bindings::ib_wc_status) -> &'static CStr {
    match status {
        bindings::ib_wc_status_IB_WC_SUCCESS => c"success",
        bindings::ib_wc_status_IB_WC_LOC_LEN_ERR => c"local length error",
        bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR => c"local QP operation error",
        bindings::ib_wc_status_IB_WC_LOC_EEC_OP_ERR => c"local EE context operation error",
        bindings::ib_wc_status_IB_WC_LOC_PROT_ERR => c"local protection error",
        bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR => c"WR flushed",
        bindings::ib_wc_status_IB_WC_MW_BIND_ERR => c"memory bind operation error",
        bindings::ib_wc_status_IB_WC_BAD_RESP_ERR => c"bad response error",
        bindings::ib_wc_status_IB_WC_LOC_ACCESS_ERR => c"local access error",
        bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR => c"remote invalid request error",
        bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR => c"remote access error",
        bindings::ib_wc_status_IB_WC_REM_OP_ERR => c"remote operation error",
        bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR => c"transport retry counter exceeded",
        bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR => c"RNR retry counter exceeded",
        bindings::ib_wc_status_IB_WC_LOC_RDD_VIOL_ERR => c"local RDD violation error",
        bindings::ib_wc_status_IB_WC_REM_INV_RD_REQ_ERR => c"remote invalid RD request",
        bindings::ib_wc_status_IB_WC_REM_ABORT_ERR => c"operation aborted",
        bindings::ib_wc_status_IB_WC_INV_EECN_ERR => c"invalid EE context number",
        bindings::ib_wc_status_IB_WC_INV_EEC_STATE_ERR => c"invalid EE context state",
        bindings::ib_wc_status_IB_WC_FATAL_ERR => c"fatal error",
        bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR => c"response timeout error",
        bindings::ib_wc_status_IB_WC_GENERAL_ERR => c"general error",
        _ => c"unrecognized status",
    }
}

fn event_msg(value: bindings::ib_event_type) -> *const c_char {
    event(value).as_char_ptr()
}

fn wc_status_msg(value: bindings::ib_wc_status) -> *const c_char {
    status(value).as_char_ptr()
}

rdma::export! { in rdma::bindings;
    /// See [`event`].
    fn ib_event_msg(value: u32) -> *const c_char = event_msg;
    /// See [`status`].
    fn ib_wc_status_msg(value: u32) -> *const c_char = wc_status_msg;
}
