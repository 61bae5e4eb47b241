// SPDX-License-Identifier: GPL-2.0

//! A device (`struct ib_device`), field by field.
//!
//! A driver writes the attributes, the table of methods and the number of ports before it
//! registers the device, and does not change them while the device is registered. To be held
//! against `include/rdma/ib_verbs.h`.

use super::chain::Chain;
use super::verbs::Cq;
use crate::bindings;
use crate::edge::Passed;
use crate::edge::View;
use crate::sync::IrqLock;
use kernel::ffi::c_int;

/// Number of the pools of completion queues.
const POOLS: usize = bindings::ib_poll_context_IB_POLL_LAST_POOL_TYPE as usize + 1;

crate::c_struct! {
    /// A device of any driver. What the core keeps beside it is the core's to know.
    pub struct Device: bindings::ib_device;
    fields {
        /// Its index, which no other device has while it is in the registry.
        const index: u32;
        /// Number of its ports.
        const phys_port_cnt: u32, set_phys_port_cnt;
        /// `enum rdma_node_type`.
        const node_type: u8;
        /// Whether it is a switch, of which port 0 is the only one.
        bit is_switch: bool;
        /// Whether DMA may go through buffers that copy, which user memory cannot. Written at
        /// registration.
        bit cc_dma_bounce: bool;
        /// The device that does its DMA, or null. Written at registration; exists as long.
        const dma_device: Passed<bindings::device>;
        /// Features of the device (`enum ib_device_cap_flags`).
        const device_caps at attrs.device_cap_flags: u64;
        /// Its GUID, in network order.
        const node_guid: u64, set_node_guid;
        /// The GUID of the system that it is a part of, in network order.
        const sys_image_guid at attrs.sys_image_guid: u64;
        /// What it is of the device that it was made under (`enum rdma_nl_dev_type`).
        const dev_type at type_: u32, set_dev_type;
        /// How it got its name (`enum rdma_nl_name_assign_type`).
        const name_assign_type: u32;
        /// Whether completion queues are moderated adaptively. Users change it at any time, under
        /// no lock; the bits beside it are written before registration only.
        bit use_cq_dim: bool;
        /// Features that kernel consumers may use (`enum ib_kernel_cap_flags`).
        const kernel_caps at attrs.kernel_cap_flags: u64;
        /// The key to all memory, of a device with `IBK_LOCAL_DMA_LKEY`.
        const local_dma_lkey: u32, set_local_dma_lkey;
        /// Entries of a scatter list that an RDMA READ may have.
        const max_sge_rd at attrs.max_sge_rd: c_int;
        /// Entries that an RDMA READ may have before regions are faster; 0 if they never are.
        const max_sgl_rd at attrs.max_sgl_rd: u32;
        /// Pages that a region for fast registration may have.
        const max_reg_pages at attrs.max_fast_reg_page_list_len: u32;
        /// The same of a region with protection information.
        const max_pi_reg_pages at attrs.max_pi_fast_reg_page_list_len: u32;
        /// Requests that a queue of a queue pair may have.
        const max_qp_wr at attrs.max_qp_wr: c_int;
        /// Entries that a completion queue may have.
        const max_cqe at attrs.max_cqe: c_int;
        /// Number of its completion vectors.
        const num_comp_vectors: c_int, set_num_comp_vectors;
        /// Protects the pools of completion queues. Initialised with the device, as these are.
        embed cq_pools_lock: IrqLock;
        /// The pools, by how the queues are polled (`enum ib_poll_context`).
        embed cq_pools: [Chain<Cq>; POOLS];
        /// How its driver finds the port of a bond (`enum rdma_lag_flags`).
        const lag_flags: u32;
    }
}

// SAFETY: The fields above do not change while others have a reference; the rest is changed under
// the locks of `Documentation/core_locking.md` only.
unsafe impl Send for Device {}
// SAFETY: As for `Send`.
unsafe impl Sync for Device {}

impl Device {
    /// The driver's methods.
    #[inline(always)]
    pub fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: `const`: the driver writes the table before it registers the device, and neither
        // it nor the core changes it after; there is no reference to the device before that but
        // the driver's own.
        unsafe { &(*self.raw()).ops }
    }
}
