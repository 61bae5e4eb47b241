// SPDX-License-Identifier: GPL-2.0

//! A work completion (`struct ib_wc`), field by field.
//!
//! The keywords of the tables are explained in [`crate::edge`]. Must match
//! `include/rdma/ib_verbs.h`.

use super::OfCall;
use crate::bindings;
use kernel::types::Opaque;

crate::c_struct! {
    /// A work completion. It is owned by the poller of the completion queue, which passes it to a
    /// callback, or by the holder of a copy.
    pub struct Wc: bindings::ib_wc;
    fields {
        /// `enum ib_wc_status`.
        cell status: u32;
        /// `enum ib_wc_opcode`. Undefined if `status` is an error.
        cell opcode: u32;
        /// Vendor-specific error code.
        cell vendor_err: u32;
        /// Bytes received, including the room for the GRH.
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
        /// Path bits of the destination LID.
        cell dlid_path_bits: u8;
        /// Port number, for switches.
        cell port_num: u32;
        /// VLAN ID, with `IB_WC_WITH_VLAN`.
        cell vlan_id: u16;
        /// `enum rdma_network_type`, with `IB_WC_WITH_NETWORK_HDR_TYPE`.
        cell network_hdr_type: u8;
    }
}

// SAFETY: Its owner passes it to the callee for the call; `Opaque` is not `Sync`.
unsafe impl OfCall for Wc {}

impl Wc {
    /// Creates a copy, owned by the caller.
    pub const fn new(c: bindings::ib_wc) -> Self {
        Self(Opaque::new(c))
    }

    /// Returns the remote key that the message has invalidated, if any.
    pub fn invalidated(&self) -> Option<u32> {
        self.has(bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE)
            // SAFETY: The flag says that this is in the union.
            .then(|| unsafe { *(*self.0.get()).ex.invalidate_rkey })
    }

    /// Returns whether a flag is set (`enum ib_wc_flags`).
    pub fn has(&self, flag: u32) -> bool {
        // CAST: Flags, whose sign has no meaning.
        self.wc_flags() as u32 & flag != 0
    }
}
