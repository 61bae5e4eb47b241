// SPDX-License-Identifier: GPL-2.0

//! MAD structures that the core and its consumers share, field by field.
//!
//! The keywords of the tables are explained in [`crate::edge`]. Must match `include/rdma/ib_mad.h`.

use super::Passed;
use super::View;
use crate::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::atomic::Atomic;
use kernel::types::Opaque;

crate::c_struct! {
    /// An agent. The core fills it in before it returns it to the consumer.
    pub struct MadAgent: bindings::ib_mad_agent;
    fields {
        /// Upper half of the transaction IDs of its requests, by which the core matches responses
        /// to agents.
        const hi_tid: u32;
        /// Version of RMPP; 0 for none.
        const rmpp_version: u8;
        /// `IB_MAD_USER_RMPP`, or 0.
        const flags: u32;
        /// The consumer's context, as passed at registration.
        const context: Passed<c_void>;
    }
}

crate::c_struct! {
    /// A MAD to be sent. The core owns it from `ib_post_send_mad` until the send handler is called,
    /// the consumer before and after that.
    pub struct SendBuf: bindings::ib_mad_send_buf;
    fields {
        /// The agent that sends it.
        const mad_agent: Passed<bindings::ib_mad_agent>;
        /// The bytes of the MAD, or the headers of an RMPP transfer.
        const mad: Passed<c_void>;
        /// Bytes of headers.
        const hdr_len: c_int;
        /// Bytes of data.
        const data_len: c_int;
        /// Bytes of data in a segment of an RMPP transfer, 0 without RMPP.
        const seg_size: c_int;
        /// Next in a list of sends that are posted together.
        racy next: *mut bindings::ib_mad_send_buf;
        /// The address handle. The consumer sets it before it posts.
        racy ah: *mut bindings::ib_ah, set_ah;
        /// Response timeout in milliseconds; 0 if no response is expected. The consumer sets it
        /// before it posts; `ib_modify_mad` sets it while the send is posted.
        racy timeout_ms: c_int, set_timeout_ms;
        /// Maximum number of retransmissions. The consumer sets it before it posts; afterwards the
        /// core counts retransmissions in it.
        racy retries: c_int, set_retries;
    }
}

impl SendBuf {
    /// Wraps the C structure.
    ///
    /// # Safety
    ///
    /// The result must become a field of a send of the core. The core must own the memory that
    /// `mad` points to, and keep it until `ib_free_send_mad`.
    pub const unsafe fn new(c: bindings::ib_mad_send_buf) -> Self {
        Self(Opaque::new(c))
    }

    /// Returns `context[0]`, which belongs to the consumer.
    pub fn context(&self) -> &Atomic<*mut c_void> {
        // SAFETY: The structure exists (guarantee of a reference). The field is an aligned word
        // that the core does not use, and that consumers access only through this function.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).context[0]) }
    }
}

crate::c_struct! {
    /// A received message: one MAD, or the segments of an RMPP transfer. The core does not change
    /// it after it was passed to the receive handler.
    pub struct RecvWc: bindings::ib_mad_recv_wc;
    fields {
        /// The completion of the first segment. Valid only during the receive handler.
        const wc: Passed<bindings::ib_wc>;
        /// Bytes of the message: the first segment, and the data of the others.
        const mad_len: c_int;
        /// Bytes of a segment.
        const mad_seg_size: usize;
    }
}
