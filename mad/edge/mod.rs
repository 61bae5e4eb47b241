// SPDX-License-Identifier: GPL-2.0

//! The edge of management datagrams to C: consumers' structures (`include/rdma/ib_mad.h`),
//! the objects of a port, memory that devices access.
//!
//! | file | what |
//! |---|---|
//! | `port` | a port that is open, and the objects that exist as long as it is |
//! | `agent` | `struct ib_mad_agent`; its consumer's handlers |
//! | `send` | `struct ib_mad_send_buf`, the work request, who may access them |
//! | `consumer` | sends as consumers hand them in and get them |
//! | `receive` | `struct ib_mad_recv_wc`, receive buffers |
//! | `dma` | memory and its DMA mappings |
//! | `trace` | tracepoints |
//!
//! This page has the tables of the structures that have no file of their own. The rest of the
//! folder above has safe code, but for removal from lists.

pub(super) mod agent;
pub(super) mod consumer;
mod dma;
pub(super) mod port;
pub(super) mod receive;
pub(super) mod send;
pub(super) mod trace;

use crate::proto::mad::registry::Request;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire;
use rdma::bindings;
use rdma::edge::OfCall;
use rdma::edge::View;

rdma::c_struct! {
    /// A completion. It belongs to the poller of the completion queue, which lends it to the
    /// callback, or to the message that has a copy.
    pub(crate) struct Wc: bindings::ib_wc;
    fields {
        /// `enum ib_wc_status`.
        cell status: u32;
        /// More about an error, by the driver.
        cell vendor_err: u32;
        /// Bytes received, the room of the global route header included.
        cell byte_len: u32;
        /// Number of the sender's queue pair.
        cell src_qp: u32;
        /// LID of the sender.
        cell slid: u32;
        /// `enum ib_wc_flags`.
        cell wc_flags: i32;
        /// Place of the P_Key in the port's table.
        cell pkey_index: u16, set_pkey_index;
        /// Low bits of the LID that it was sent to.
        cell dlid_path_bits: u8;
        /// The port, of a switch.
        cell port_num: u32;
    }
}

// SAFETY: The poller calls callbacks one after the other and does not access the completion
// meanwhile (`struct ib_cqe` in `include/rdma/ib_verbs.h`); a copy is its message's. `Opaque` is
// not `Sync`.
unsafe impl OfCall for Wc {}

rdma::c_struct! {
    /// The common header of MADs, as consumers ask about it.
    pub(crate) struct MadHdr: bindings::ib_mad_hdr;
    fields {}
}

impl MadHdr {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> [u8; wire::HEADER] {
        const { assert!(size_of::<bindings::ib_mad_hdr>() == wire::HEADER) };
        // SAFETY: The structure consists of as many bytes, which the caller of the exported
        // function lends for the call.
        unsafe { self.raw().cast::<[u8; wire::HEADER]>().read() }
    }
}

rdma::c_struct! {
    /// What an agent asks to receive.
    pub(crate) struct RegReq: bindings::ib_mad_reg_req;
    fields {
        const mgmt_class: u8;
        const mgmt_class_version: u8;
    }
}

impl RegReq {
    /// As the engine has it.
    pub(crate) fn request(&self) -> Request {
        // SAFETY: The caller of `ib_register_mad_agent` lends the structure, which nobody changes
        // meanwhile.
        let (oui, [low, high]) = unsafe { ((*self.raw()).oui, (*self.raw()).method_mask) };
        Request {
            class: self.mgmt_class(),
            version: self.mgmt_class_version(),
            oui,
            methods: u128::from(low as u64) | u128::from(high as u64) << 64,
        }
    }
}

/// Now, in jiffies.
pub(super) fn now() -> Ticks {
    // SAFETY: The function has no requirement.
    unsafe { bindings::rdma_helper_jiffies() as Ticks }
}

/// A time in jiffies, of one in milliseconds as C gives it; negative is for ever.
pub(super) fn ticks(ms: i32) -> Ticks {
    // SAFETY: The function has no requirement.
    unsafe { bindings::rdma_helper_msecs_to_jiffies(ms as u32) as Ticks }
}
