// SPDX-License-Identifier: GPL-2.0

//! The id of a connection manager, as `rdma_cm` shares it with the core.
//!
//! To be held against `drivers/infiniband/core/cma_priv.h` and `include/rdma/rdma_cm.h`.

use crate::device::Device;
use crate::private;
use rdma::bindings;

rdma::c_struct! {
    /// A connection manager's id (`struct rdma_id_private`). `rdma_cm` changes it under locks of
    /// its own; what is read of it here is shown to users only.
    pub(crate) struct CmId: private::rdma_id_private;
    fields {
        /// The device. Written before the id is tracked, and cleared after.
        const device at id.device: Option<&Device>;
        /// The part that consumers and drivers know.
        embed id: PublicCmId;
        /// The port.
        racy port_num at id.port_num: u32;
        /// The queue pair's number, or 0.
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
    /// The part of an id that consumers and drivers know.
    pub(crate) struct PublicCmId: bindings::rdma_cm_id;
    fields {}
}

/// Bytes of an address (`struct sockaddr_storage`).
pub(crate) type Addr = [u8; 128];

impl CmId {
    /// The local address, as bytes. A change meanwhile garbles them at worst.
    pub(crate) fn src_addr(&self) -> Addr {
        // SAFETY: The place is a field of the id, which exists.
        unsafe { bytes(&raw const (*rdma::edge::View::raw(self)).id.route.addr.src_addr) }
    }

    /// The remote address, as [`src_addr`](Self::src_addr).
    pub(crate) fn dst_addr(&self) -> Addr {
        // SAFETY: See `src_addr`.
        unsafe { bytes(&raw const (*rdma::edge::View::raw(self)).id.route.addr.dst_addr) }
    }
}

/// # Safety
///
/// `place` points to a field of a structure that exists.
unsafe fn bytes<T>(place: *const T) -> Addr {
    const { assert!(size_of::<T>() == size_of::<Addr>() && align_of::<T>() >= align_of::<u64>()) };
    // SAFETY: The field exists, by this function's contract, and has that many bytes, aligned.
    unsafe { core::mem::transmute::<[u64; 16], Addr>(place.cast::<[u64; 16]>().read_volatile()) }
}
