// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs) as the core and its consumers share them, field by field.
//!
//! The words at the fields are explained in [`crate::edge`]. To be held against
//! `include/rdma/ib_mad.h`.

use super::Passed;
use super::View;
use crate::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::atomic::Atomic;
use kernel::types::Opaque;

crate::c_struct! {
    /// An agent. The core fills it in before it hands it to the consumer.
    pub struct MadAgent: bindings::ib_mad_agent;
    fields {
        /// Upper half of the transaction IDs of its requests. The core finds the agent of a
        /// response by it.
        const hi_tid: u32;
        /// Version of RMPP, 0 for none.
        const rmpp_version: u8;
        /// `IB_MAD_USER_RMPP`, or 0.
        const flags: u32;
        /// The consumer's own pointer, as it was given at registration.
        const context: Passed<c_void>;
    }
}

crate::c_struct! {
    /// A MAD to be sent. Between `ib_post_send_mad` and the send handler it belongs to the core,
    /// before and after to the consumer.
    pub struct SendBuf: bindings::ib_mad_send_buf;
    fields {
        /// The bytes of the MAD, or the headers of an RMPP transfer.
        const mad: Passed<c_void>;
        /// Bytes of headers.
        const hdr_len: c_int;
        /// Bytes of data.
        const data_len: c_int;
        /// Bytes of data in a segment of an RMPP transfer, 0 without RMPP.
        const seg_size: c_int;
        /// The next of a list of sends that are posted together.
        racy next: *mut bindings::ib_mad_send_buf;
        /// The address handle. The consumer sets it before it posts.
        racy ah: *mut bindings::ib_ah, set_ah;
        /// How long to wait for a response, in milliseconds; 0 if none is expected. The consumer
        /// sets it before it posts, `ib_modify_mad` while the send is posted.
        racy timeout_ms: c_int, set_timeout_ms;
        /// How many times to send again. The consumer sets it before it posts; then the core
        /// counts retransmissions in it.
        racy retries: c_int, set_retries;
    }
}

impl SendBuf {
    /// # Safety
    ///
    /// It becomes the field of a send of the core, which owns the memory that `mad` points to and
    /// keeps it until `ib_free_send_mad`.
    pub const unsafe fn new(c: bindings::ib_mad_send_buf) -> Self {
        Self(Opaque::new(c))
    }

    /// `context[0]`, which is the consumer's own.
    pub fn context(&self) -> &Atomic<*mut c_void> {
        // SAFETY: The structure is there (promise of a reference). The field is an aligned word
        // that the core does not use; consumers use it by this function only.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).context[0]) }
    }
}

crate::c_struct! {
    /// A message that was received: one MAD, or the segments of an RMPP transfer. The core does not
    /// change it after it has handed it to the receive handler.
    pub struct RecvWc: bindings::ib_mad_recv_wc;
    fields {
        /// The completion of the first segment. It exists during the receive handler only.
        const wc: Passed<bindings::ib_wc>;
        /// Bytes of the message: the first segment, and the data of the others.
        const mad_len: c_int;
        /// Bytes of a segment.
        const mad_seg_size: usize;
    }
}
