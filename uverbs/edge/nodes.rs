// SPDX-License-Identifier: GPL-2.0

//! The nodes by their RDMA devices, for functions that drivers call.

use super::device::CharDevice;
use core::ptr;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::static_lock_class;
use rdma::edge::device::Device;
use rdma::sync::StaticRwSem;

/// A node.
///
/// # Invariants
///
/// The node exists while this is in the list. `device` is only compared.
struct Listed {
    device: *const Device,
    node: NonNull<CharDevice>,
}

// SAFETY: `CharDevice` is `Sync`, and `device` is only compared: type invariant.
unsafe impl Send for Listed {}
// SAFETY: As for `Send`.
unsafe impl Sync for Listed {}

static NODES: StaticRwSem<KVec<Listed>> = StaticRwSem::new(KVec::new());

/// Makes the list usable. At the start of the module.
pub(crate) fn init() {
    NODES.init(c"uverbs::NODES", static_lock_class!());
}

/// Adds a node. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
///
/// # Safety
///
/// The node exists until it is removed.
pub(super) unsafe fn add(device: &Device, node: NonNull<CharDevice>) -> Result {
    let device = ptr::from_ref(device);
    let mut nodes = NODES.write().ok_or(EINVAL)?;
    // INVARIANT: This function's contract.
    nodes.push(Listed { device, node }, GFP_KERNEL)?;
    Ok(())
}

/// Removes a node, if it is there; waits for those who use it. May sleep.
pub(super) fn remove(node: NonNull<CharDevice>) {
    if let Some(mut nodes) = NODES.write() {
        nodes.retain(|listed| listed.node != node);
        if nodes.is_empty() {
            // A static is not dropped.
            *nodes = KVec::new();
        }
    }
}

/// Calls `act` with the node of a device, if it has one. May sleep.
pub(super) fn with(device: &Device, act: impl FnOnce(&CharDevice)) {
    let Some(nodes) = NODES.read() else {
        return;
    };
    if let Some(listed) = nodes.iter().find(|listed| ptr::eq(listed.device, device)) {
        // SAFETY: The node exists while the list is locked: invariant of `Listed`.
        act(unsafe { listed.node.as_ref() });
    }
}
