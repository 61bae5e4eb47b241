// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505

//! The namespace of a device, used after the RCU section that keeps it: the device may be moved
//! out of it, and it be freed.

use crate::device::Device;
use rdma::sync::rcu;

pub(crate) fn look(device: &Device) -> bool {
    let guard = rcu::read_lock();
    let net = device.net(&guard);
    #[cfg(wrong)]
    drop(guard);
    device.is_in(net)
}
