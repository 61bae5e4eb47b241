// SPDX-License-Identifier: GPL-2.0

//! A device (`struct ib_device`), field by field.
//!
//! A driver writes the attributes, the table of methods and the number of ports before it registers
//! the device, and does not change them while it is registered. Must match
//! `include/rdma/ib_verbs.h`.

use super::chain::Chain;
use super::verbs::Cq;
use crate::bindings;
use crate::edge::Passed;
use crate::edge::View;
use crate::features::Limit;
use crate::sync::IrqLock;
use core::mem::offset_of;
use core::ops::RangeInclusive;
use kernel::ffi::c_int;

/// Returns the driver model device of a device, whose reference count is that of the memory. Nothing
/// is read.
pub(crate) fn model(device: *mut bindings::ib_device) -> *mut bindings::device {
    // The union, and the structure in it, begin with it.
    device
        .wrapping_byte_add(offset_of!(bindings::ib_device, __bindgen_anon_1))
        .cast()
}

/// Number of pools of completion queues.
const POOLS: usize = bindings::ib_poll_context_IB_POLL_LAST_POOL_TYPE as usize + 1;

crate::c_struct! {
    /// A device of any driver.
    pub struct Device: bindings::ib_device;
    fields {
        /// Index, unique among the devices in the registry.
        const index: u32;
        /// Write commands of `ib_uverbs` that the driver permits, by number.
        const uverbs_cmd_mask: u64;
        /// Number of ports.
        const phys_port_cnt: u32;
        /// `enum rdma_node_type`.
        const node_type: u8;
        /// Whether it is a switch, whose only port is port 0.
        bit is_switch: bool;
        /// Whether DMA may use bounce buffers, which user memory does not support. Written at
        /// registration.
        bit cc_dma_bounce: bool;
        /// The device that performs DMA, or null. Written at registration; exists while the device
        /// is registered.
        const dma_device: Passed<bindings::device>;
        /// Capabilities (`enum ib_device_cap_flags`).
        const device_caps at attrs.device_cap_flags: u64;
        /// Node GUID, in network byte order.
        const node_guid: u64, set_node_guid;
        /// System image GUID, in network byte order.
        const sys_image_guid at attrs.sys_image_guid: u64;
        /// Time that the device takes to acknowledge (IBTA's exponent).
        const ca_ack_delay at attrs.local_ca_ack_delay: u8;
        /// Type of a sub-device (`enum rdma_nl_dev_type`).
        const dev_type at type_: u32, set_dev_type;
        /// Origin of its name (`enum rdma_nl_name_assign_type`).
        const name_assign_type: u32;
        /// Whether completion queues use adaptive moderation. Users change it at any time, without
        /// a lock; the other bits of the bit field are written only before registration.
        bit use_cq_dim: bool;
        /// Capabilities for kernel consumers (`enum ib_kernel_cap_flags`).
        const kernel_caps at attrs.kernel_cap_flags: u64;
        /// Local key for all memory. For devices with `IBK_LOCAL_DMA_LKEY`.
        const local_dma_lkey: u32, set_local_dma_lkey;
        /// Maximum number of scatter list entries of an RDMA READ.
        const max_sge_rd at attrs.max_sge_rd: Limit;
        /// Number of entries of an RDMA READ above which memory regions are faster; 0 for never.
        const max_sgl_rd at attrs.max_sgl_rd: u32;
        /// Maximum number of pages of a region for fast registration.
        const max_reg_pages at attrs.max_fast_reg_page_list_len: u32;
        /// Maximum number of pages of a region with protection information.
        const max_pi_reg_pages at attrs.max_pi_fast_reg_page_list_len: u32;
        /// Maximum number of work requests of a queue of a queue pair.
        const max_qp_wr at attrs.max_qp_wr: Limit;
        /// Maximum number of entries of a completion queue.
        const max_cqe at attrs.max_cqe: Limit;
        /// Maximum number of protection domains.
        const max_pd at attrs.max_pd: Limit;
        /// Maximum number of completion queues.
        const max_cq at attrs.max_cq: Limit;
        /// Maximum number of queue pairs.
        const max_qp at attrs.max_qp: Limit;
        /// Maximum number of memory regions.
        const max_mr at attrs.max_mr: Limit;
        /// Maximum number of shared receive queues.
        const max_srq at attrs.max_srq: Limit;
        /// Number of completion vectors.
        const num_comp_vectors: c_int, set_num_comp_vectors;
        /// Protects the pools of completion queues. Initialised with the device, as the pools are.
        embed cq_pools_lock: IrqLock;
        /// Pools of completion queues, by polling context (`enum ib_poll_context`).
        embed cq_pools: [Chain<Cq>; POOLS];
        /// How the driver selects the port of a bond (`enum rdma_lag_flags`).
        const lag_flags: u32;
    }
}

// SAFETY: The fields above are constant while others have a reference, or have a lock. The other
// fields are changed only under the locks that `Documentation/core_locking.md` lists.
unsafe impl Send for Device {}
// SAFETY: As for `Send`: the fields above are constant or have a lock.
unsafe impl Sync for Device {}

impl Device {
    /// Returns the port numbers: 1 to n, or only 0 for a switch.
    pub fn ports(&self) -> RangeInclusive<u32> {
        if self.is_switch() {
            0..=0
        } else {
            1..=self.phys_port_cnt()
        }
    }

    /// Returns whether there is a port of this number.
    pub fn has_port(&self, port: u32) -> bool {
        self.ports().contains(&port)
    }

    /// Returns the driver's methods.
    #[inline(always)]
    pub fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: The driver writes the table before it registers the device, and neither it nor
        // the core changes it afterwards. Before registration only the driver has references to the
        // device.
        unsafe { &(*self.raw()).ops }
    }
}
