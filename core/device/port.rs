// SPDX-License-Identifier: GPL-2.0

//! What the ports of a device are, and what the driver answers for them.

use core::ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;
use rdma::net::NetDevice;
use rdma::sync::rcu;

use super::hooks::Core;
use super::hooks::Hooks;
use super::Device;
use crate::errno::eopnotsupp;

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// InfiniBand.
    Ib,
    /// RoCE, with or without UDP.
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
    /// The C structure of a port, if there is one of this number and the ports have been
    /// made. It lives as long as the device.
    pub(crate) fn port_data(&self, port: u32) -> Option<*mut bindings::ib_port_data> {
        // SAFETY: Set before the device is registered; changed to nothing else.
        let ports = unsafe { (&raw const (*self.as_raw()).port_data).read_volatile() };
        if ports.is_null() || !self.has_port(port) {
            return None;
        }
        // SAFETY: All ports are in the array.
        Some(unsafe { ports.add(usize::try_from(port).ok()?) })
    }

    /// What the driver has said of a port once for all.
    pub(crate) fn immutable(&self, port: u32) -> Option<&bindings::ib_port_immutable> {
        let data = self.port_data(port)?;
        // SAFETY: It is there as long as the device, and written before it is registered.
        Some(unsafe { &(*data).immutable })
    }

    /// Whether there is such a port, and it speaks this.
    pub(crate) fn port_speaks(&self, port: u32, protocol: Protocol) -> bool {
        self.immutable(port)
            .is_some_and(|port| port.core_cap_flags & protocol.mask() != 0)
    }

    /// Asks the driver for the state of a port. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port, `ENODEV` for one of iWARP that has no network
    /// device, and the driver's.
    pub(crate) fn query_port(&self, port: u32) -> Result<bindings::ib_port_attr> {
        if !self.has_port(port) {
            return Err(EINVAL);
        }
        let mut attr = bindings::ib_port_attr::default();
        let iwarp = self.port_speaks(port, Protocol::Iwarp);
        if iwarp {
            preset_iwarp(&mut attr, &*self.netdev(port).ok_or(ENODEV)?);
        }
        let method = self.ops().query_port.ok_or_else(eopnotsupp)?;
        // SAFETY: The driver's own method and device; the attributes are ours.
        to_result(unsafe { method(self.as_raw(), port, &mut attr) })?;
        if !iwarp && attr.subnet_prefix == 0 {
            // SAFETY: The device is there, and has the port.
            unsafe {
                let layer = bindings::rdma_port_get_link_layer(self.as_raw(), port);
                if layer == bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND {
                    attr.subnet_prefix = Core::subnet_prefix(self, port);
                }
            }
        }
        Ok(attr)
    }

    /// Asks the driver for an entry of a port's P_Key table. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port, `EOPNOTSUPP`, and the driver's.
    pub(crate) fn query_pkey(&self, port: u32, index: u16) -> Result<u16> {
        if !self.has_port(port) {
            return Err(EINVAL);
        }
        let method = self.ops().query_pkey.ok_or_else(eopnotsupp)?;
        let mut pkey = 0;
        // SAFETY: The driver's own method and device; the key is ours.
        to_result(unsafe { method(self.as_raw(), port, index, &mut pkey) })?;
        Ok(pkey)
    }

    /// The place of a partition's key, as the driver has it; a full member's goes before a limited
    /// one's. May sleep.
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

/// What every iWARP port is like, by its network device; the driver adds to it.
fn preset_iwarp(attr: &mut bindings::ib_port_attr, dev: &NetDevice) {
    attr.max_mtu = bindings::ib_mtu_IB_MTU_4096;
    attr.active_mtu = match dev.mtu() {
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
    } else if has_ipv4(dev) {
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
    attr.state = state;
    // CAST: A number below ten.
    attr.phys_state = physical as u8;
}

fn has_ipv4(dev: &NetDevice) -> bool {
    let _rcu = rcu::read_lock();
    // SAFETY: The device is alive, and RCU is held.
    unsafe { bindings::rdma_helper_netdev_has_ipv4(dev.as_raw()) }
}

/// Asks the driver, at registration, what its ports are.
///
/// # Errors
///
/// `EINVAL` for a port without MADs that has a size of them; the driver's.
pub(crate) fn set_up(device: &Device) -> Result {
    let method = device.ops().get_port_immutable.ok_or(EINVAL)?;
    for port in device.ports() {
        let data = device.port_data(port).ok_or(EINVAL)?;
        // SAFETY: The device is not registered: nobody else reads or writes.
        let said = unsafe {
            to_result(method(device.as_raw(), port, &raw mut (*data).immutable))?;
            &(*data).immutable
        };
        let mads = said.core_cap_flags & bindings::RDMA_CORE_CAP_IB_MAD != 0;
        if warn_on!(!mads && said.max_mad_size != 0) {
            return Err(EINVAL);
        }
    }
    Ok(())
}

/// The state of a port. May sleep.
///
/// Errors: as [`Device::query_port`].
///
/// # Safety
///
/// The device is set up by its driver, at least; `attr` may be written.
#[no_mangle]
pub unsafe extern "C" fn ib_query_port(
    device: *mut bindings::ib_device,
    port: u32,
    attr: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    match device.query_port(port) {
        Ok(found) => {
            // SAFETY: By this function's duty.
            unsafe { attr.write(found) };
            0
        }
        Err(error) => error.to_errno(),
    }
}

/// An entry of a port's P_Key table, from the driver. May sleep.
///
/// Errors: as [`Device::query_pkey`].
///
/// # Safety
///
/// The device is set up by its driver, at least; `pkey` may be written.
#[no_mangle]
pub unsafe extern "C" fn ib_query_pkey(
    device: *mut bindings::ib_device,
    port: u32,
    index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: By this function's duty.
    match unsafe { Device::from_raw(device) }.query_pkey(port, index) {
        Ok(found) => {
            // SAFETY: By this function's duty.
            unsafe { pkey.write(found) };
            0
        }
        Err(error) => error.to_errno(),
    }
}

/// Where a P_Key is in a port's table, by the driver: rather as a full member. May sleep.
///
/// Errors: `ENOENT`, and those of [`ib_query_pkey`].
///
/// # Safety
///
/// The device is registered; `index` may be written.
#[no_mangle]
pub unsafe extern "C" fn ib_find_pkey(
    device: *mut bindings::ib_device,
    port: u32,
    pkey: u16,
    index: *mut u16,
) -> c_int {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    match device.find_pkey(port, pkey) {
        Ok(at) => {
            // SAFETY: By this function's duty.
            unsafe { index.write(at) };
            0
        }
        Err(error) => error.to_errno(),
    }
}

/// The port and place of a GID, on InfiniBand ports only. May sleep.
///
/// Errors: `ENOENT`.
///
/// # Safety
///
/// The device is registered; `gid` and `port` are valid, `index` is or is null.
#[no_mangle]
pub unsafe extern "C" fn ib_find_gid(
    device: *mut bindings::ib_device,
    gid: *mut bindings::ib_gid,
    port: *mut u32,
    index: *mut u16,
) -> c_int {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    // SAFETY: A GID is 16 bytes, whatever it is read as.
    let wanted = unsafe { (*gid).raw };
    for at in device.ports() {
        if !device.port_speaks(at, Protocol::Ib) {
            continue;
        }
        let len = device.immutable(at).map_or(0, |port| port.gid_tbl_len);
        for place in 0..len {
            let mut found = bindings::ib_gid::default();
            // SAFETY: The device is registered, and the GID is ours.
            let ret = unsafe { bindings::rdma_query_gid(device.as_raw(), at, place, &mut found) };
            // SAFETY: As above.
            if ret == 0 && unsafe { found.raw } == wanted {
                // SAFETY: By this function's duty.
                unsafe {
                    port.write(at);
                    if !index.is_null() {
                        // CAST: A table has fewer entries.
                        index.write(place as u16);
                    }
                }
                return 0;
            }
        }
    }
    ENOENT.to_errno()
}

/// Changes attributes of the device. May sleep.
///
/// Errors: `EOPNOTSUPP`, and the driver's.
///
/// # Safety
///
/// The device is registered; `modify` is valid.
#[no_mangle]
pub unsafe extern "C" fn ib_modify_device(
    device: *mut bindings::ib_device,
    mask: c_int,
    modify: *mut bindings::ib_device_modify,
) -> c_int {
    // SAFETY: By this function's duty.
    match unsafe { Device::from_raw(device) }.ops().modify_device {
        // SAFETY: The driver's own method and device.
        Some(method) => unsafe { method(device, mask, modify) },
        None => eopnotsupp().to_errno(),
    }
}

/// Changes attributes of a port. May sleep. A RoCE driver need not know how to: it is asked
/// to say that there is a connection manager, which there is.
///
/// Errors: `EINVAL` if there is no such port, `EOPNOTSUPP`, and the driver's.
///
/// # Safety
///
/// The device is registered; `modify` is valid.
#[no_mangle]
pub unsafe extern "C" fn ib_modify_port(
    device: *mut bindings::ib_device,
    port: u32,
    mask: c_int,
    modify: *mut bindings::ib_port_modify,
) -> c_int {
    // SAFETY: By this function's duty.
    let (this, asked) = unsafe { (Device::from_raw(device), &*modify) };
    if !this.has_port(port) {
        return EINVAL.to_errno();
    }
    if let Some(method) = this.ops().modify_port {
        // SAFETY: The driver's own method and device.
        return unsafe { method(device, port, mask, modify) };
    }
    let known = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
    let harmless = asked.set_port_cap_mask & !known == 0 || asked.clr_port_cap_mask & !known == 0;
    if this.port_speaks(port, Protocol::Roce) && harmless {
        0
    } else {
        eopnotsupp().to_errno()
    }
}

/// What a driver has said of a port once for all. Any context.
///
/// # Safety
///
/// The device is registered, and has the port.
#[no_mangle]
pub unsafe extern "C" fn ib_port_immutable_read(
    device: *mut bindings::ib_device,
    port: c_uint,
) -> *const bindings::ib_port_immutable {
    // SAFETY: By this function's duty.
    let found = unsafe { Device::from_raw(device) }.immutable(port);
    warn_on!(found.is_none());
    found.map_or(ptr::null(), ptr::from_ref)
}

/// Writes the version of the firmware, or nothing. May sleep.
///
/// # Safety
///
/// The device is registered; `string` has room for `IB_FW_VERSION_NAME_MAX` bytes.
#[no_mangle]
pub unsafe extern "C" fn ib_get_device_fw_str(
    device: *mut bindings::ib_device,
    string: *mut kernel::ffi::c_char,
) {
    // SAFETY: By this function's duty; the method is the driver's own.
    unsafe {
        match Device::from_raw(device).ops().get_dev_fw_str {
            Some(method) => method(device, string),
            None => string.write(0),
        }
    }
}

rdma::exported!(
    ib_query_port,
    ib_query_pkey,
    ib_find_pkey,
    ib_find_gid,
    ib_modify_device,
    ib_modify_port,
    ib_port_immutable_read,
    ib_get_device_fw_str,
);
