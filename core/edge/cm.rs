// SPDX-License-Identifier: GPL-2.0

//! The part of a `struct rdma_id_private` that `rdma_cm` shares with the core.
//!
//! Must match `drivers/infiniband/core/cma_priv.h` and `include/rdma/rdma_cm.h`.

use crate::device::Device;
use crate::private;
use rdma::bindings;

rdma::c_struct! {
    /// A connection manager ID (`struct rdma_id_private`). `rdma_cm` changes it under its own
    /// locks. The core reads it only to report it to users.
    pub(crate) struct CmId: private::rdma_id_private;
    fields {
        /// The device. Set before the ID is added to restrack, and cleared after it is deleted
        /// there.
        const device at id.device: Option<&Device>;
        /// The public part.
        embed id: PublicCmId;
        /// Port number.
        racy port_num at id.port_num: u32;
        /// Queue pair number, or 0.
        racy qp_num: u32;
        /// `enum ib_qp_type`.
        racy qp_type at id.qp_type: u32;
        /// `enum rdma_ucm_port_space`.
        racy port_space at id.ps: u32;
        /// `enum rdma_cm_state`.
        racy state: u32;
    }
}

rdma::c_struct! {
    /// The public part of an ID, which consumers and drivers use.
    pub(crate) struct PublicCmId: bindings::rdma_cm_id;
    fields {}
}

/// A socket address as raw bytes (`struct sockaddr_storage`).
pub(crate) type Addr = [u8; 128];

impl CmId {
    /// Returns the local address. A concurrent change may tear it.
    pub(crate) fn src_addr(&self) -> Addr {
        // SAFETY: The pointer is to a field of the ID, which is valid while borrowed.
        unsafe { bytes(&raw const (*rdma::edge::View::raw(self)).id.route.addr.src_addr) }
    }

    /// Returns the remote address. A concurrent change may tear it.
    pub(crate) fn dst_addr(&self) -> Addr {
        // SAFETY: The pointer is to a field of the ID, which is valid while borrowed.
        unsafe { bytes(&raw const (*rdma::edge::View::raw(self)).id.route.addr.dst_addr) }
    }
}

/// # Safety
///
/// `place` points to a field of a valid structure.
unsafe fn bytes<T>(place: *const T) -> Addr {
    const { assert!(size_of::<T>() == size_of::<Addr>() && align_of::<T>() >= align_of::<u64>()) };
    // SAFETY: The field is valid (contract of this function), and has the size and alignment
    // asserted above.
    unsafe { core::mem::transmute::<[u64; 16], Addr>(place.cast::<[u64; 16]>().read_volatile()) }
}
