// SPDX-License-Identifier: GPL-2.0

//! A completion (`struct ib_wc`), field by field: what it says of a packet's way.
//!
//! The words at the fields are explained in [`crate::edge`]. To be held against
//! `include/rdma/ib_verbs.h`.

use super::OfCall;
use crate::bindings;
use kernel::types::Opaque;

crate::c_struct! {
    /// A completion. It belongs to the poller of the completion queue, which lends it to a
    /// callback, or to whoever has a copy.
    pub struct Wc: bindings::ib_wc;
    fields {
        /// `enum ib_wc_status`.
        cell status: u32;
        /// More about an error, by the driver.
        cell vendor_err: u32;
        /// Bytes received, the room of the global route header included.
        cell byte_len: u32;
        /// Number of the sender's queue pair.
        cell src_qp: u32;
        /// `enum ib_wc_flags`.
        cell wc_flags: i32;
        /// Index of the P_Key in the port's table.
        cell pkey_index: u16, set_pkey_index;
        /// LID of the sender.
        cell slid: u32;
        /// Service level.
        cell sl: u8;
        /// Low bits of the LID that it was sent to.
        cell dlid_path_bits: u8;
        /// The port, of a switch.
        cell port_num: u32;
        /// The VLAN, with `IB_WC_WITH_VLAN`.
        cell vlan_id: u16;
        /// `enum rdma_network_type`, with `IB_WC_WITH_NETWORK_HDR_TYPE`.
        cell network_hdr_type: u8;
    }
}

// SAFETY: Its owner lends it for the call; `Opaque` is not `Sync`.
unsafe impl OfCall for Wc {}

impl Wc {
    /// A copy, which belongs to whoever has it.
    pub const fn new(c: bindings::ib_wc) -> Self {
        Self(Opaque::new(c))
    }

    /// Whether it has a flag (`enum ib_wc_flags`).
    pub fn has(&self, flag: u32) -> bool {
        // CAST: Flags.
        self.wc_flags() as u32 & flag != 0
    }
}
