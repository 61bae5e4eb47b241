// SPDX-License-Identifier: GPL-2.0

//! Functions that other modules call.

use super::edge::find;
use super::edge::ClientGroups;
use super::edge::OfPort;
use super::edge::PortDirectory;
use crate::device::Device;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::OutParam;

fn device_and_port(
    port: &PortDirectory,
    mut number: OutParam<'_, u32>,
) -> *mut bindings::ib_device {
    number.set(port.number());
    port.device().as_raw()
}

fn register_groups(device: &Device, port: u32, groups: ClientGroups) -> Result {
    groups.add(find(device, port).ok_or(EINVAL)?)
}

fn unregister_groups(device: &Device, port: u32, groups: ClientGroups) {
    if let Some(port) = find(device, port) {
        groups.remove(port);
    }
}

rdma::export! { in rdma::bindings;
    /// Returns the device of a port directory, and writes the port number. Any context, while the
    /// directory exists.
    fn ib_port_sysfs_get_ibdev_kobj(kobj: &PortDirectory, port_num: OutParam<'_, u32>)
        -> *mut bindings::ib_device = device_and_port;
}

rdma::export! { in crate::private;
    /// Adds a client's files to the port directory of a registered device. May sleep. Errors:
    /// `EINVAL` if there is no such port, else those of `sysfs_create_groups`.
    fn ib_port_register_client_groups(device: &Device, port_num: u32, groups: ClientGroups)
        -> Result = register_groups;
    /// Reverses `ib_port_register_client_groups`. Waits for readers.
    fn ib_port_unregister_client_groups(device: &Device, port_num: u32, groups: ClientGroups)
        = unregister_groups;
}
