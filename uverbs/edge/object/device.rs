// SPDX-License-Identifier: GPL-2.0

//! What devices and ports tell of themselves (`struct ib_device_attr`, `struct ib_port_attr`).

use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::View;

/// The attributes of a port. May sleep.
///
/// # Errors
///
/// `EINVAL`: there is no such port; those of the driver.
pub(crate) fn query_port(device: &Device, port: u32) -> Result<bindings::ib_port_attr> {
    let mut attr = bindings::ib_port_attr::default();
    // SAFETY: The device is registered; the function checks the port.
    to_result(unsafe { bindings::ib_query_port(device.raw(), port, &mut attr) })?;
    Ok(attr)
}
