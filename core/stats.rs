// SPDX-License-Identifier: GPL-2.0

//! Hardware counters (`hw_counters` in sysfs, `rdma statistic`).

use crate::device::Device;

/// Frees the device's counters: its memory is about to go.
pub(crate) fn release(_device: &Device) {}
