// SPDX-License-Identifier: GPL-2.0

//! A completion (`struct ib_wc`), field by field: what it says of a packet's way.
//!
//! The words at the fields are explained in [`crate::edge`]. To be held against
//! `include/rdma/ib_verbs.h`.

use super::OfCall;
use crate::bindings;

crate::c_struct! {
    /// A completion that its owner has polled.
    pub struct Wc: bindings::ib_wc;
    fields {
        /// `enum ib_wc_flags`.
        cell wc_flags: i32;
        /// The sender's LID.
        cell slid: u32;
        /// Service level.
        cell sl: u8;
        /// The low bits of the LID that it was sent to.
        cell dlid_path_bits: u8;
        /// The VLAN, with `IB_WC_WITH_VLAN`.
        cell vlan_id: u16;
        /// `enum rdma_network_type`, with `IB_WC_WITH_NETWORK_HDR_TYPE`.
        cell network_hdr_type: u8;
    }
}

// SAFETY: Its owner lends it for the call; `Opaque` is not `Sync`.
unsafe impl OfCall for Wc {}

impl Wc {
    /// Whether it has a flag (`enum ib_wc_flags`).
    pub fn has(&self, flag: u32) -> bool {
        // CAST: Flags.
        self.wc_flags() as u32 & flag != 0
    }
}
