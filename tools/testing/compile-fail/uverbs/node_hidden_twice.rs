// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 node

//! A node that is removed from the driver model twice.

use crate::edge::device::Node;

pub(crate) fn remove(node: Node) -> u32 {
    let hidden = node.hide();
    #[cfg(wrong)]
    node.hide();
    hidden.index()
}
