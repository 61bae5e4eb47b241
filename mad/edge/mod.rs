// SPDX-License-Identifier: GPL-2.0

//! The C interface of management datagrams: consumers' structures (`include/rdma/ib_mad.h`), the
//! objects of a port, and DMA memory.
//!
//! | file | what |
//! |---|---|
//! | `port` | an open port, and the objects that exist while it is open |
//! | `agent` | `struct ib_mad_agent`; its consumer's handlers |
//! | `send` | `struct ib_mad_send_buf`, the work request, and access to them |
//! | `consumer` | conversion of sends from and to consumers |
//! | `receive` | `struct ib_mad_recv_wc`, receive buffers |
//! | `dma` | memory and its DMA mappings |
//! | `trace` | tracepoints |
//!
//! This file has the tables of the structures that have no file of their own. The parent folder has
//! safe code only, except for removal from lists.

pub(super) mod agent;
pub(super) mod consumer;
pub(super) mod dma;
pub(super) mod port;
pub(super) mod receive;
pub(super) mod send;
pub(super) mod trace;

use crate::proto::mad::registry::Request;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire;
use rdma::bindings;
pub(crate) use rdma::edge::wc::Wc;
use rdma::edge::View;

rdma::c_struct! {
    /// The common header of MADs, as consumers pass it.
    pub(crate) struct MadHdr: bindings::ib_mad_hdr;
    fields {}
}

impl MadHdr {
    /// Returns the bytes of the header.
    pub(crate) fn bytes(&self) -> [u8; wire::HEADER] {
        const { assert!(size_of::<bindings::ib_mad_hdr>() == wire::HEADER) };
        // SAFETY: The structure has that size (asserted above), and the C caller of the
        // exported function lends it for the call.
        unsafe { self.raw().cast::<[u8; wire::HEADER]>().read() }
    }
}

rdma::c_struct! {
    /// Request of an agent for unsolicited MADs.
    pub(crate) struct RegReq: bindings::ib_mad_reg_req;
    fields {
        const mgmt_class: u8;
        const mgmt_class_version: u8;
    }
}

impl RegReq {
    /// Converts the request for `proto`.
    pub(crate) fn request(&self) -> Request {
        // SAFETY: The C caller of `ib_register_mad_agent` lends the structure, which is not
        // modified meanwhile.
        let (oui, [low, high]) = unsafe { ((*self.raw()).oui, (*self.raw()).method_mask) };
        Request {
            class: self.mgmt_class(),
            version: self.mgmt_class_version(),
            oui,
            methods: u128::from(low as u64) | u128::from(high as u64) << 64,
        }
    }
}

/// The current time in jiffies.
pub(super) fn now() -> Ticks {
    // SAFETY: The function has no requirements.
    unsafe { bindings::rdma_helper_jiffies() as Ticks }
}

/// Converts milliseconds from C to jiffies; a negative value is infinite.
pub(super) fn ticks(ms: i32) -> Ticks {
    // SAFETY: The function has no requirements.
    unsafe { bindings::rdma_helper_msecs_to_jiffies(ms as u32) as Ticks }
}
