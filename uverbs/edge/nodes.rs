// SPDX-License-Identifier: GPL-2.0

//! The nodes by their RDMA devices, for functions that drivers call.

use super::device::CharDevice;
use core::ptr;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::static_lock_class;
use rdma::edge::device::Device;
use rdma::kvec;
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

/// Removes a node, if it is there. Those who found it before may use its memory still; they take the
/// files from the list of the node, as its removal does. May sleep.
pub(super) fn remove(node: NonNull<CharDevice>) {
    if let Some(mut nodes) = NODES.write() {
        let _ = kvec::take(&mut nodes, |listed| listed.node == node);
    }
}

/// Calls `act` with the node of a device, if it has one. May sleep.
pub(super) fn with(device: &Device, act: impl FnOnce(&CharDevice)) {
    let Some(nodes) = NODES.read() else {
        return;
    };
    let listed = nodes.iter().find(|listed| ptr::eq(listed.device, device));
    // SAFETY: The node exists while the list is locked: invariant of `Listed`.
    let node = listed.map(|listed| unsafe { listed.node.as_ref() }.reference());
    // What follows may wait for programs of this device, and must not stop other devices.
    drop(nodes);
    if let Some(node) = node {
        act(&node);
    }
}
