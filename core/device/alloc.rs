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
use crate::edge::class;
use crate::edge::class::Allocation;

/// What user programs may ask of a device, unless its driver says otherwise.
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
        // INDEX: below the length. OVERFLOW: as above. Evaluated by the compiler.
        mask |= 1_u64 << COMMANDS[at];
        at += 1;
    }
    mask
}

/// Allocates a device of `size` bytes in the namespace of new devices of somebody in `net`.
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
    // Who unregisters all devices of a driver finds them here until no method of theirs
    // is called any more.
    registry::forget(device);
    netdev::detach_all(device);
    netns::warn_of_copies(device);
    warn_on!(!device.state().clients.read().is_empty());
    warn_on!(!device.uses().none());
    allocation.put();
}

/// The last reference to a device is gone; its memory is freed when this returns.
pub(crate) fn released(device: &Device) {
    netdev::detach_all(device);
    warn_on!(!device.uses().none());
    Core::release(device);
}

/// Makes the array of the device's ports, if there is none. Before registration; may
/// sleep.
///
/// # Errors
///
/// `EINVAL` if the driver has not said how many there are; `ENOMEM`.
pub(crate) fn set_up_ports(device: &Device) -> Result {
    let ports = device.phys_port_cnt();
    if warn_on!(ports == 0) || warn_on!(ports == u32::MAX) {
        return Err(EINVAL);
    }
    class::make_ports(device)
}

rdma::export! { in rdma::bindings;
    /// Allocates a device of `size` bytes, the driver's structure, in a namespace that stays
    /// until the device is registered. Null if there is no memory, or `size` is too small. May
    /// sleep.
    fn _ib_alloc_device(size: usize, net: &Net) -> *mut bindings::ib_device = alloc;
    /// Frees a device that is not registered: the reverse of `_ib_alloc_device`, also of a
    /// registration that failed. May sleep. Nobody uses the device but by references of the
    /// driver model.
    fn ib_dealloc_device(device: Allocation) = dealloc;
}
