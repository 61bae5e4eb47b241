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
use crate::features::RawLimit;
use crate::sync::IrqLock;
use core::mem::offset_of;
use core::ops::RangeInclusive;
use kernel::ffi::c_int;
use kernel::types::Opaque;

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
    /// Attributes of a device: those of a registered device, or a copy that a driver fills in.
    pub struct DeviceAttr: bindings::ib_device_attr;
    fields {
        /// Version of the firmware.
        const fw_ver: u64;
        /// System image GUID, in network byte order.
        const sys_image_guid: u64;
        /// Maximum size of a memory region in bytes.
        const max_mr_size: u64;
        /// Sizes of pages, one bit each.
        const page_size_cap: u64;
        /// Vendor.
        const vendor_id: u32;
        /// Part number of the vendor.
        const vendor_part_id: u32;
        /// Version of the hardware.
        const hw_ver: u32;
        /// Maximum number of queue pairs.
        const max_qp: RawLimit;
        /// Maximum number of work requests of a queue of a queue pair.
        const max_qp_wr: RawLimit;
        /// Capabilities (`enum ib_device_cap_flags`).
        const device_cap_flags: u64;
        /// Capabilities for kernel consumers (`enum ib_kernel_cap_flags`).
        const kernel_cap_flags: u64;
        /// Maximum number of scatter list entries of a send.
        const max_send_sge: RawLimit;
        /// Maximum number of scatter list entries of a receive.
        const max_recv_sge: RawLimit;
        /// Maximum number of scatter list entries of an RDMA READ.
        const max_sge_rd: RawLimit;
        /// Maximum number of completion queues.
        const max_cq: RawLimit;
        /// Maximum number of entries of a completion queue.
        const max_cqe: RawLimit;
        /// Maximum number of memory regions.
        const max_mr: RawLimit;
        /// Maximum number of protection domains.
        const max_pd: RawLimit;
        /// Maximum number of reads and atomics that a queue pair accepts at a time.
        const max_qp_rd_atom: RawLimit;
        /// The same, of an end-to-end context.
        const max_ee_rd_atom: RawLimit;
        /// Maximum number of reads and atomics that the device accepts at a time.
        const max_res_rd_atom: RawLimit;
        /// Maximum number of reads and atomics that a queue pair has outstanding.
        const max_qp_init_rd_atom: RawLimit;
        /// The same, of an end-to-end context.
        const max_ee_init_rd_atom: RawLimit;
        /// `enum ib_atomic_cap`.
        const atomic_cap: u32;
        /// Maximum number of end-to-end contexts.
        const max_ee: RawLimit;
        /// Maximum number of reliable datagram domains.
        const max_rdd: RawLimit;
        /// Maximum number of memory windows.
        const max_mw: RawLimit;
        /// Maximum number of raw IPv6 queue pairs.
        const max_raw_ipv6_qp: RawLimit;
        /// Maximum number of raw Ethertype queue pairs.
        const max_raw_ethy_qp: RawLimit;
        /// Maximum number of multicast groups.
        const max_mcast_grp: RawLimit;
        /// Maximum number of queue pairs in a multicast group.
        const max_mcast_qp_attach: RawLimit;
        /// Maximum number of memberships of multicast groups.
        const max_total_mcast_qp_attach: RawLimit;
        /// Maximum number of address handles.
        const max_ah: RawLimit;
        /// Maximum number of shared receive queues.
        const max_srq: RawLimit;
        /// Maximum number of work requests of a shared receive queue.
        const max_srq_wr: RawLimit;
        /// Maximum number of scatter list entries of a receive of a shared receive queue.
        const max_srq_sge: RawLimit;
        /// Maximum number of pages of a region for fast registration.
        const max_fast_reg_page_list_len: u32;
        /// Maximum number of pages of a region with protection information.
        const max_pi_fast_reg_page_list_len: u32;
        /// Maximum number of P_Keys of a port.
        const max_pkeys: u16;
        /// Time that the device takes to acknowledge (IBTA's exponent).
        const local_ca_ack_delay: u8;
        /// Capabilities of on-demand paging (`enum ib_odp_general_caps`).
        const general_odp_caps at odp_caps.general_caps: u64;
        /// Operations with on-demand paging of RC queue pairs.
        const rc_odp_caps at odp_caps.per_transport_caps.rc_odp_caps: u32;
        /// Operations with on-demand paging of UC queue pairs.
        const uc_odp_caps at odp_caps.per_transport_caps.uc_odp_caps: u32;
        /// Operations with on-demand paging of UD queue pairs.
        const ud_odp_caps at odp_caps.per_transport_caps.ud_odp_caps: u32;
        /// Operations with on-demand paging of XRC queue pairs.
        const xrc_odp_caps at odp_caps.per_transport_caps.xrc_odp_caps: u32;
        /// Valid bits of a timestamp of a completion.
        const timestamp_mask: u64;
        /// Frequency of the device's clock in kHz.
        const hca_core_clock: u64;
        /// Types of queue pairs that may use receive side scaling, one bit each.
        const rss_types at rss_caps.supported_qpts: u32;
        /// Maximum number of indirection tables.
        const max_rwq_tables at rss_caps.max_rwq_indirection_tables: u32;
        /// Maximum size of an indirection table.
        const max_rwq_table_size at rss_caps.max_rwq_indirection_table_size: u32;
        /// Maximum number of receive work queues.
        const max_wq_type_rq: u32;
        /// Capabilities of raw packet queue pairs (`enum ib_raw_packet_caps`).
        const raw_packet_caps: u32;
        /// Tag matching: maximum size of a rendezvous header.
        const max_rndv_hdr_size at tm_caps.max_rndv_hdr_size: u32;
        /// Tag matching: maximum number of tags.
        const max_num_tags at tm_caps.max_num_tags: u32;
        /// Tag matching: flags (`enum ib_tm_cap_flags`).
        const tag_flags at tm_caps.flags: u32;
        /// Tag matching: maximum number of outstanding operations.
        const max_tag_ops at tm_caps.max_ops: u32;
        /// Tag matching: maximum number of scatter list entries.
        const max_tag_sge at tm_caps.max_sge: u32;
        /// Moderation of completions: maximum count.
        const max_cq_moderation_count at cq_caps.max_cq_moderation_count: u16;
        /// Moderation of completions: maximum period in us.
        const max_cq_moderation_period at cq_caps.max_cq_moderation_period: u16;
        /// Maximum size of a region of device memory.
        const max_dm_size: u64;
        /// Number of entries of an RDMA READ above which memory regions are faster; 0 for never.
        const max_sgl_rd: u32;
    }
}

impl Default for DeviceAttr {
    fn default() -> Self {
        Self(Opaque::new(bindings::ib_device_attr::default()))
    }
}

crate::c_struct! {
    /// A device of any driver.
    pub struct Device: bindings::ib_device;
    fields {
        /// Index, unique among the devices in the registry.
        const index: u32, set_index;
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
        /// Attributes that the driver wrote before it registered the device.
        embed attrs: DeviceAttr;
        /// Node GUID, in network byte order.
        const node_guid: u64, set_node_guid;
        /// Type of a sub-device (`enum rdma_nl_dev_type`).
        const dev_type at type_: u32, set_dev_type;
        /// Origin of its name (`enum rdma_nl_name_assign_type`).
        const name_assign_type: u32;
        /// Whether the device supports kernel verbs. Written at registration.
        bit kverbs_provider: bool, set_kverbs_provider;
        /// Whether completion queues use adaptive moderation. Users change it at any time, without
        /// a lock; the other bits of the bit field are written only before registration.
        bit use_cq_dim: bool;
        /// Local key for all memory. For devices with `IBK_LOCAL_DMA_LKEY`.
        const local_dma_lkey: u32, set_local_dma_lkey;
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
