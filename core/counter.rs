// SPDX-License-Identifier: GPL-2.0

//! Counters bound to queue pairs (`rdma statistic`).

use crate::device::Device;

/// Prepares the ports of a device that is about to be registered.
pub(crate) fn set_up(_device: &Device) {}

/// Frees what [`set_up`] and later bindings made: the device's memory is about to go.
pub(crate) fn release(_device: &Device) {}

/// What the counters bound to queue pairs of a port counted, those that are gone among them.
pub(crate) fn total(_device: &Device, _port: u32, _index: usize) -> u64 {
    0
}
