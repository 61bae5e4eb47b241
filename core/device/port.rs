// SPDX-License-Identifier: GPL-2.0

//! Port attributes of a device, and queries of its driver.

use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;
use rdma::edge::Lent;
use rdma::edge::OutParam;
use rdma::edge::View;
use rdma::net::NetDevice;
use rdma::sync::rcu;

use super::hooks::Core;
use super::hooks::Hooks;
use super::Device;
use crate::edge::device::FwString;
use crate::edge::device::PortData;
use crate::edge::device::Unregistered;
use rdma::errno::eopnotsupp;

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// InfiniBand.
    Ib,
    /// RoCE, version 1 or 2.
    Roce,
    /// iWARP.
    Iwarp,
}

impl Protocol {
    const fn mask(self) -> u32 {
        match self {
            Self::Ib => bindings::RDMA_CORE_CAP_PROT_IB,
            Self::Roce => {
                bindings::RDMA_CORE_CAP_PROT_ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP
            }
            Self::Iwarp => bindings::RDMA_CORE_CAP_PROT_IWARP,
        }
    }
}

impl Device {
    /// Returns the attributes of a port that the driver set at registration.
    #[inline]
    pub(crate) fn immutable(&self, port: u32) -> Option<bindings::ib_port_immutable> {
        self.port(port).map(|port| port.immutable().get())
    }

    /// Returns whether the port exists and uses this protocol.
    pub(crate) fn port_speaks(&self, port: u32, protocol: Protocol) -> bool {
        self.immutable(port)
            .is_some_and(|port| port.core_cap_flags & protocol.mask() != 0)
    }

    /// Queries the driver for the attributes of a port. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port; `ENODEV` for an iWARP port without a network device;
    /// errors of the driver.
    pub(crate) fn query_port(&self, port: u32) -> Result<bindings::ib_port_attr> {
        if !self.has_port(port) {
            return Err(EINVAL);
        }
        let iwarp = self.port_speaks(port, Protocol::Iwarp);
        let mut attr = if iwarp {
            iwarp_preset(&*self.netdev(port).ok_or(ENODEV)?)
        } else {
            bindings::ib_port_attr::default()
        };
        self.driver().query_port(port, Lent(&mut attr))?;
        if !iwarp && attr.subnet_prefix == 0 && self.is_infiniband(port) {
            attr.subnet_prefix = Core::subnet_prefix(self, port);
        }
        Ok(attr)
    }

    /// Queries the driver for an entry of a port's P_Key table. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port; `EOPNOTSUPP`; errors of the driver.
    pub(crate) fn query_pkey(&self, port: u32, index: u16) -> Result<u16> {
        if !self.has_port(port) {
            return Err(EINVAL);
        }
        let mut pkey = 0;
        self.driver().query_pkey(port, index, Lent(&mut pkey))?;
        Ok(pkey)
    }

    /// Returns the index of a P_Key in the driver's table, preferring full over limited membership.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT`; those of [`query_pkey`](Self::query_pkey).
    pub(crate) fn find_pkey(&self, port: u32, pkey: u16) -> Result<u16> {
        const FULL: u16 = 0x8000;
        let len = self.immutable(port).map_or(0, |port| port.pkey_tbl_len);
        let mut limited = None;
        for at in 0..u16::try_from(len).unwrap_or(0) {
            match self.query_pkey(port, at)? {
                key if key & !FULL != pkey & !FULL => {}
                key if key & FULL != 0 => return Ok(at),
                _ => limited = limited.or(Some(at)),
            }
        }
        limited.ok_or(ENOENT)
    }
}

/// Returns attributes common to iWARP ports, derived from the network device; the driver sets the
/// others.
fn iwarp_preset(dev: &NetDevice) -> bindings::ib_port_attr {
    let active_mtu = match dev.mtu() {
        4096.. => bindings::ib_mtu_IB_MTU_4096,
        2048.. => bindings::ib_mtu_IB_MTU_2048,
        1024.. => bindings::ib_mtu_IB_MTU_1024,
        512.. => bindings::ib_mtu_IB_MTU_512,
        _ => bindings::ib_mtu_IB_MTU_256,
    };
    let (state, physical) = if !dev.has_carrier() {
        (
            bindings::ib_port_state_IB_PORT_DOWN,
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED,
        )
    } else if dev.has_ipv4(&rcu::read_lock()) {
        (
            bindings::ib_port_state_IB_PORT_ACTIVE,
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP,
        )
    } else {
        (
            bindings::ib_port_state_IB_PORT_INIT,
            bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING,
        )
    };
    bindings::ib_port_attr {
        max_mtu: bindings::ib_mtu_IB_MTU_4096,
        active_mtu,
        state,
        // CAST: the constants are below 10.
        phys_state: physical as u8,
        ..Default::default()
    }
}

/// Queries the driver for the immutable attributes of all ports, at registration.
///
/// # Errors
///
/// `EINVAL` for a port without MAD support that has a nonzero MAD size; errors of the driver.
pub(crate) fn set_up(fields: &mut Unregistered<'_>) -> Result {
    for port in fields.device().ports() {
        let said = fields.query_immutable(port)?;
        let mads = said.core_cap_flags() & bindings::RDMA_CORE_CAP_IB_MAD != 0;
        if warn_on!(!mads && said.max_mad_size() != 0) {
            return Err(EINVAL);
        }
    }
    Ok(())
}

fn query_port(
    device: &Device,
    port: u32,
    mut attr: OutParam<'_, bindings::ib_port_attr>,
) -> Result {
    attr.set(device.query_port(port)?);
    Ok(())
}

fn query_pkey(device: &Device, port: u32, index: u16, mut pkey: OutParam<'_, u16>) -> Result {
    pkey.set(device.query_pkey(port, index)?);
    Ok(())
}

fn find_pkey(device: &Device, port: u32, pkey: u16, mut index: OutParam<'_, u16>) -> Result {
    index.set(device.find_pkey(port, pkey)?);
    Ok(())
}

pub(crate) fn modify_device(
    device: &Device,
    mask: c_int,
    modify: Lent<'_, bindings::ib_device_modify>,
) -> Result {
    device.driver().modify_device(mask, modify)
}

fn modify_port(
    device: &Device,
    port: u32,
    mask: c_int,
    modify: Lent<'_, bindings::ib_port_modify>,
) -> Result {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    if device.ops().modify_port.is_some() {
        return device.driver().modify_port(port, mask, modify);
    }
    let known = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
    let (set, clear) = (modify.0.set_port_cap_mask, modify.0.clr_port_cap_mask);
    let harmless = set & !known == 0 || clear & !known == 0;
    if device.port_speaks(port, Protocol::Roce) && harmless {
        Ok(())
    } else {
        Err(eopnotsupp())
    }
}

fn immutable_read(device: &Device, port: u32) -> *const bindings::ib_port_immutable {
    let found = device.port(port).map(PortData::immutable);
    warn_on!(found.is_none());
    found.map_or(core::ptr::null(), |found| found.raw().cast_const())
}

fn fw_str(device: &Device, text: FwString<'_>) {
    let text = text.0;
    if device.ops().get_dev_fw_str.is_none() {
        if let Some(first) = text.first_mut() {
            *first = 0;
        }
    }
    device.driver().get_dev_fw_str(Lent(text));
}

rdma::export! { in rdma::bindings;
    /// Queries the attributes of a port. May sleep. Errors: see [`Device::query_port`].
    fn ib_query_port(
        device: &Device, port: u32, attr: OutParam<'_, bindings::ib_port_attr>,
    ) -> Result = query_port;
    /// Queries the driver for an entry of a port's P_Key table. May sleep. Errors: see
    /// [`Device::query_pkey`].
    fn ib_query_pkey(device: &Device, port: u32, index: u16, pkey: OutParam<'_, u16>) -> Result
        = query_pkey;
    /// Finds the index of a P_Key in the driver's table of a port, preferring full over limited
    /// membership. May sleep. Errors: `ENOENT`, and those of `ib_query_pkey`.
    fn ib_find_pkey(device: &Device, port: u32, pkey: u16, index: OutParam<'_, u16>) -> Result
        = find_pkey;
    /// Changes attributes of the device. May sleep. Errors: `EOPNOTSUPP`; errors of the driver.
    fn ib_modify_device(
        device: &Device, mask: c_int, modify: Lent<'_, bindings::ib_device_modify>,
    ) -> Result = modify_device;
    /// Changes attributes of a port. May sleep. Without a driver method, a RoCE port accepts
    /// changes of `IB_PORT_CM_SUP`, as RoCE always has a connection manager. Errors: `EINVAL` if
    /// there is no such port; `EOPNOTSUPP`; errors of the driver.
    fn ib_modify_port(
        device: &Device, port: u32, mask: c_int, modify: Lent<'_, bindings::ib_port_modify>,
    ) -> Result = modify_port;
    /// Returns the attributes of a port that the driver set at registration. The port must exist.
    /// Any context.
    fn ib_port_immutable_read(device: &Device, port: u32) -> *const bindings::ib_port_immutable
        = immutable_read;
    /// Writes the firmware version, or an empty string if the driver has no method. May sleep.
    fn ib_get_device_fw_str(device: &Device, text: FwString<'_>) = fw_str;
}
