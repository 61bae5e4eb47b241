// SPDX-License-Identifier: GPL-2.0

//! Limits of the rdma cgroup. Without the controller (`CONFIG_CGROUP_RDMA`) there are no limits.
//!
//! C header: `include/linux/cgroup_rdma.h`.

#[cfg(CONFIG_CGROUP_RDMA)]
mod edge;

use crate::device::Device;
use kernel::prelude::*;
use kernel::sync::Mutex;

/// Cgroup state of a device.
#[pin_data]
pub(crate) struct Limits {
    /// Whether the device is registered with the controller.
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

/// Without the controller, only the state is kept.
#[cfg(not(CONFIG_CGROUP_RDMA))]
fn set(device: &Device, known: bool) {
    *device.slot::<Limits>().known.lock() = known;
}

/// Registers the device with the cgroup controller. Called before the device is registered. May
/// sleep.
pub(crate) fn register(device: &Device) {
    set(device, true);
}

/// Reverses [`register`]; nothing is charged to the device any more. May sleep.
pub(crate) fn unregister(device: &Device) {
    set(device, false);
}
