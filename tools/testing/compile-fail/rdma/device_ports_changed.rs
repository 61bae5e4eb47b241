// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 set_phys_port_cnt

//! The number of ports of a device, changed after the core has allocated memory for each port.

use kernel::prelude::*;
use rdma::edge::device::Device;
use rdma::net::NetDevice;
use rdma::provider::Provider;
use rdma::provider::Unregistered;

/// Sets up a device.
pub fn set_up<P: Provider>(device: &mut Unregistered<P>, netdev: &NetDevice) -> Result {
    device.set_netdev(1, netdev)?;
    #[cfg(not(wrong))]
    Device::set_num_comp_vectors(device, 8);
    #[cfg(wrong)]
    Device::set_phys_port_cnt(device, 8);
    Ok(())
}
