// SPDX-License-Identifier: GPL-2.0

//! Limits of the rdma cgroup.

use crate::device::Device;

/// Makes the device known to the cgroup controller. Before it is registered.
pub(crate) fn register(_device: &Device) {}

/// The reverse of [`register`].
pub(crate) fn unregister(_device: &Device) {}
