// SPDX-License-Identifier: GPL-2.0

//! Limits of the rdma cgroup. Without the controller (`CONFIG_CGROUP_RDMA`) nothing is limited.
//!
//! C header: `include/linux/cgroup_rdma.h`.

#[cfg(CONFIG_CGROUP_RDMA)]
mod edge;

use crate::device::Device;
use kernel::prelude::*;
use kernel::sync::Mutex;

/// What is known of a device's limits.
#[pin_data]
pub(crate) struct Limits {
    /// Whether the controller knows the device.
    #[pin]
    known: Mutex<bool>,
}

impl crate::device::PerDevice for Limits {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            known <- kernel::new_mutex!(false, "Limits::known"),
        })
    }
}

#[cfg(CONFIG_CGROUP_RDMA)]
use self::edge::set;

/// Nothing is limited.
#[cfg(not(CONFIG_CGROUP_RDMA))]
fn set(device: &Device, known: bool) {
    *device.slot::<Limits>().known.lock() = known;
}

/// Makes the device known to the cgroup controller. Before it is registered. May sleep.
pub(crate) fn register(device: &Device) {
    set(device, true);
}

/// The reverse of [`register`]: nobody charges the device any more. May sleep.
pub(crate) fn unregister(device: &Device) {
    set(device, false);
}
