// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0624 device

//! The RDMA device of a node, asked for in a section of another node, or in none: it may be removed
//! while it is used.

use crate::edge::device::CharDevice;

pub(crate) fn is_there(node: &CharDevice, other: &CharDevice) -> bool {
    let section = other.enter();
    #[cfg(not(wrong))]
    let device = section.rdma_device();
    #[cfg(wrong)]
    let device = node.device();
    device.is_some() && node.completion_vectors() != 0
}
