// SPDX-License-Identifier: GPL-2.0

//! Attributes of a queue pair, field by field (`struct ib_qp_attr`). Must match
//! `include/rdma/ib_verbs.h`. A caller owns the structure during a call.

use super::ah::AhAttr;
use crate::bindings;
use crate::net::NetDevice;
use kernel::ffi::c_int;

crate::c_struct! {
    /// Attributes of a queue pair.
    pub struct QpAttr: bindings::ib_qp_attr;
    fields {
        /// State (`enum ib_qp_state`).
        cell qp_state: u32, set_qp_state;
        /// State that the queue pair is assumed to be in (`enum ib_qp_state`).
        cell cur_qp_state: u32, set_cur_qp_state;
        /// MTU of the path (`enum ib_mtu`).
        cell path_mtu: u32, set_path_mtu;
        /// State of path migration (`enum ib_mig_state`).
        cell path_mig_state: u32, set_path_mig_state;
        /// Q_Key.
        cell qkey: u32, set_qkey;
        /// Next expected PSN.
        cell rq_psn: u32, set_rq_psn;
        /// PSN of the next packet to be sent.
        cell sq_psn: u32, set_sq_psn;
        /// Number of the remote queue pair.
        cell dest_qp_num: u32, set_dest_qp_num;
        /// What remote requests may do (`enum ib_access_flags`).
        cell qp_access_flags: c_int, set_qp_access_flags;
        /// Address vector of the path.
        embed ah_attr: AhAttr;
        /// Address vector of the alternate path.
        embed alt_ah_attr: AhAttr;
        /// Maximum number of work requests of the send queue.
        cell max_send_wr at cap.max_send_wr: u32;
        /// Maximum number of work requests of the receive queue.
        cell max_recv_wr at cap.max_recv_wr: u32;
        /// Maximum number of scatter list entries of a send.
        cell max_send_sge at cap.max_send_sge: u32;
        /// Maximum number of scatter list entries of a receive.
        cell max_recv_sge at cap.max_recv_sge: u32;
        /// Maximum number of bytes of a send that its request contains.
        cell max_inline_data at cap.max_inline_data: u32;
        /// P_Key index.
        cell pkey_index: u16, set_pkey_index;
        /// P_Key index of the alternate path.
        cell alt_pkey_index: u16, set_alt_pkey_index;
        /// Whether an event tells that the send queue is drained.
        cell en_sqd_async_notify: u8, set_en_sqd_async_notify;
        /// Whether the send queue is being drained.
        cell sq_draining: u8;
        /// Maximum number of reads and atomics that it has outstanding.
        cell max_rd_atomic: u8, set_max_rd_atomic;
        /// Maximum number of reads and atomics that it accepts.
        cell max_dest_rd_atomic: u8, set_max_dest_rd_atomic;
        /// Timer of receivers that are not ready.
        cell min_rnr_timer: u8, set_min_rnr_timer;
        /// Port number.
        cell port_num: u32, set_port_num;
        /// Timeout of acknowledgements.
        cell timeout: u8, set_timeout;
        /// Number of retries.
        cell retry_cnt: u8, set_retry_cnt;
        /// Number of retries if the receiver is not ready.
        cell rnr_retry: u8, set_rnr_retry;
        /// Port number of the alternate path.
        cell alt_port_num: u32, set_alt_port_num;
        /// Timeout of acknowledgements of the alternate path.
        cell alt_timeout: u8, set_alt_timeout;
        /// Limit of the rate, in kbit/s.
        cell rate_limit: u32, set_rate_limit;
        /// Sets the transmitting slave of a bond.
        put set_xmit_slave at xmit_slave: Option<&NetDevice>;
    }
}
