// SPDX-License-Identifier: GPL-2.0

//! Counters bound to queue pairs (`rdma statistic`).

use crate::device::Device;

/// Prepares the ports of a device that is about to be registered.
pub(crate) fn set_up(_device: &Device) {}

/// Frees what [`set_up`] and later bindings made: the device's memory is about to go.
pub(crate) fn release(_device: &Device) {}
