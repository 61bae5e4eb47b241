// SPDX-License-Identifier: GPL-2.0

//! Lookup of devices and of port capabilities.

use super::request::Request;
use crate::device::netns;
use crate::device::registry;
use crate::device::Device;
use crate::device::Registered;

/// Returns the first device at or after index `from` that the sender may see, with its index.
pub(super) fn next_seen(request: &Request<'_>, from: u32) -> Option<(u32, Registered)> {
    let mut from = from;
    loop {
        let device = registry::next_from(from)?;
        let index = device.index();
        if netns::visible(&device, request.net()) {
            return Some((index, device));
        }
        from = index.checked_add(1)?;
    }
}

/// Returns the capabilities of a port (`RDMA_CORE_CAP_*`).
pub(super) fn core_caps(device: &Device, port: u32) -> u32 {
    device.immutable(port).map_or(0, |port| port.core_cap_flags)
}
