// SPDX-License-Identifier: GPL-2.0

//! Allocation and release of devices; see [`crate::edge::class`] for their memory.

use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;
use rdma::net::Net;

use super::hooks::Core;
use super::hooks::Hooks;
use super::netdev;
use super::netns;
use super::registry;
use super::Device;
use super::LastReference;
use crate::edge::class;
use crate::edge::class::Allocation;

/// Commands allowed to user programs unless the driver says otherwise.
const COMMANDS: [u32; 30] = [
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_GET_CONTEXT,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_DEVICE,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_PORT,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_PD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_PD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_AH,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_AH,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REG_MR,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REREG_MR,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEREG_MR,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ALLOC_MW,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DEALLOC_MW,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_CQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_RESIZE_CQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_CQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_QP,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_ATTACH_MCAST,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DETACH_MCAST,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_MODIFY_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_QUERY_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_DESTROY_SRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_XRCD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CLOSE_XRCD,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_CREATE_XSRQ,
    bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_OPEN_QP,
];

pub(crate) const fn command_mask() -> u64 {
    let mut mask = 0;
    let mut at = 0;
    while at < COMMANDS.len() {
        // INDEX: `at` is below the length. OVERFLOW: at most the length. Evaluated at compile time.
        mask |= 1_u64 << COMMANDS[at];
        at += 1;
    }
    mask
}

/// Allocates a device of `size` bytes for a caller in `net`. `netns::home` selects the namespace of
/// the device.
fn alloc(size: usize, net: &Net) -> *mut bindings::ib_device {
    if warn_on!(size < size_of::<bindings::ib_device>()) {
        return core::ptr::null_mut();
    }
    match Allocation::new(size, netns::home(net)) {
        Ok(device) => device.into_raw(),
        Err(_) => core::ptr::null_mut(),
    }
}

/// Frees a device that is not registered. May sleep.
pub(crate) fn dealloc(allocation: Allocation) {
    let device = allocation.device();
    allocation.dealloc_driver();
    // `ib_unregister_driver` finds the devices here until none of their methods is called any more.
    registry::forget(device);
    netdev::detach_all(device);
    netns::warn_of_copies(device);
    warn_on!(!device.state().clients.read().is_empty());
    warn_on!(!device.uses().none());
    allocation.put();
}

/// Called when the last reference to a device is dropped; its memory is freed afterwards.
pub(crate) fn released(last: &LastReference<'_>) {
    let device = last.device();
    netdev::detach_all(device);
    warn_on!(!device.uses().none());
    Core::release(last);
}

/// Allocates the array of the device's ports, unless it exists. Called before registration. May
/// sleep.
///
/// # Errors
///
/// `EINVAL` if the driver has not set the number of ports; `ENOMEM`.
pub(crate) fn set_up_ports(device: &Device) -> Result {
    let ports = device.phys_port_cnt();
    if warn_on!(ports == 0) || warn_on!(ports == u32::MAX) {
        return Err(EINVAL);
    }
    class::make_ports(device)
}

rdma::export! { in rdma::bindings;
    /// Allocates a device of `size` bytes, the size of the driver's structure. The namespace must
    /// exist until the device is registered. Returns null if memory is short or `size` is too
    /// small. May sleep.
    fn _ib_alloc_device(size: usize, net: &Net) -> *mut bindings::ib_device = alloc;
    /// Frees a device that is not registered; reverses `_ib_alloc_device`, also after a failed
    /// registration. The device must not be in use except by driver model references. May sleep.
    fn ib_dealloc_device(device: Allocation) = dealloc;
}
