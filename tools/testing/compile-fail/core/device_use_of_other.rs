// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 put

//! A use of a device, dropped by a function that has none: the device is unregistered and freed
//! while the owner of the use is at work.

use crate::device::Device;

pub(crate) fn look(device: &Device) -> bool {
    #[cfg(wrong)]
    device.uses().put();
    device.uses().none()
}
