// SPDX-License-Identifier: GPL-2.0

//! Stacked network devices, and the addresses of each.
//!
//! C headers: `include/linux/netdevice.h`, `include/net/bonding.h`, `include/linux/inetdevice.h`,
//! `include/net/addrconf.h`.

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::rcu;

use super::device::NetDevice;
use crate::bindings;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;

/// Callback of a walk, for each device. It must not sleep. An error ends the walk.
type OnDevice<'a> = &'a mut dyn FnMut(&NetDevice) -> Result;
/// Callback of a walk, for each address. It must not sleep. An error ends the walk.
type OnAddress<'a> = &'a mut dyn FnMut(IpAddr) -> Result;

impl NetDevice {
    /// Returns the number that distinguishes devices with the same MAC address; zero for all
    /// others.
    pub fn dev_id(&self) -> u16 {
        // SAFETY: The device is valid (type invariant).
        unsafe { bindings::rdma_helper_netdev_dev_id(self.as_raw()) }
    }

    /// Returns whether the device is on top of another. Without the RTNL lock the result may be
    /// outdated.
    pub fn has_lower(&self) -> bool {
        // SAFETY: The device is valid (type invariant).
        unsafe { bindings::rdma_helper_netdev_has_lower(self.as_raw()) }
    }

    /// Returns whether the device is a slave of a bond.
    pub fn is_bond_slave(&self) -> bool {
        // SAFETY: The device is valid (type invariant).
        unsafe { bindings::rdma_helper_netif_is_bond_slave(self.as_raw()) }
    }

    /// Returns whether the device is the master of a bond.
    pub fn is_bond_master(&self) -> bool {
        // SAFETY: The device is valid (type invariant).
        unsafe { bindings::rdma_helper_netif_is_bond_master(self.as_raw()) }
    }

    /// Returns the active slave, through which a bond sends. `None` if the device is not a bond, or
    /// its mode has no active slave, or there currently is none.
    pub fn active_slave<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        if !self.is_bond_master() {
            return None;
        }
        // SAFETY: The device is valid and the master of a bond, as checked; RCU is held.
        let slave = unsafe { bindings::rdma_helper_bond_active_slave_rcu(self.as_raw()) };
        // SAFETY: RCU keeps the slave.
        (!slave.is_null()).then(|| unsafe { NetDevice::from_raw(slave) })
    }

    /// Calls `each` for all devices above this one, directly or indirectly. A device that is
    /// reached on several paths may be visited several times.
    ///
    /// # Errors
    ///
    /// Those of the callback.
    pub fn for_each_upper(
        &self,
        _rcu: &rcu::Guard,
        mut each: impl FnMut(&NetDevice) -> Result,
    ) -> Result {
        let mut each: OnDevice<'_> = &mut each;
        // SAFETY: The device is valid and RCU is held; `on_device` is called with `data`, which
        // outlives the call.
        to_result(unsafe {
            bindings::rdma_helper_walk_uppers_rcu(
                self.as_raw(),
                Some(on_device),
                (&raw mut each).cast(),
            )
        })
    }

    /// Returns the device directly below this one; if there are several, the first.
    pub fn first_lower<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        let mut first = core::ptr::null_mut();
        let mut take: OnDevice<'_> = &mut |lower| {
            first = lower.as_raw();
            Err(EINTR)
        };
        // SAFETY: The device is valid and RCU is held; `on_device` is called with `data`, which
        // outlives the call.
        let _: c_int = unsafe {
            bindings::rdma_helper_walk_lowers_rcu(
                self.as_raw(),
                Some(on_device),
                (&raw mut take).cast(),
            )
        };
        // SAFETY: RCU keeps the device.
        (!first.is_null()).then(|| unsafe { NetDevice::from_raw(first) })
    }

    /// Calls `each` for all IP addresses of the device, IPv4 first, in the order of the network
    /// stack. For a point-to-point link it is the peer's address, as in `ifa_address`. An address
    /// that is being removed is not visited once notifiers have been called. Process context.
    ///
    /// # Errors
    ///
    /// Those of the callback.
    pub fn for_each_address(&self, mut each: impl FnMut(IpAddr) -> Result) -> Result {
        let mut each: OnAddress<'_> = &mut each;
        let data: *mut c_void = (&raw mut each).cast();
        // SAFETY: The device is valid; the callback is called with `data`, which outlives the call,
        // and with an address of 4 bytes.
        to_result(unsafe { bindings::rdma_helper_walk_ipv4(self.as_raw(), Some(on_ipv4), data) })?;
        // SAFETY: As for IPv4, with addresses of 16 bytes.
        to_result(unsafe { bindings::rdma_helper_walk_ipv6(self.as_raw(), Some(on_ipv6), data) })
    }

    /// Returns whether the device has this address, that is, whether [`Self::for_each_address`]
    /// would visit it. Any context except a hard interrupt.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let still = dev.has_address(Ipv4Addr::new(10, 0, 0, 1).into());
    /// ```
    pub fn has_address(&self, address: IpAddr) -> bool {
        // SAFETY: The device is valid; the addresses have 4 and 16 bytes.
        unsafe {
            match address {
                IpAddr::V4(ip) => {
                    bindings::rdma_helper_has_ipv4(self.as_raw(), ip.octets().as_ptr().cast())
                }
                IpAddr::V6(ip) => {
                    bindings::rdma_helper_has_ipv6(self.as_raw(), ip.octets().as_ptr().cast())
                }
            }
        }
    }
}

fn status(result: Result) -> c_int {
    result.map_or_else(Error::to_errno, |()| 0)
}

/// # Safety
///
/// Only for C: RCU keeps the device, and the data is an [`OnDevice`] that is not used otherwise
/// during the call.
unsafe extern "C" fn on_device(
    device: *mut bindings::net_device,
    data: *mut bindings::netdev_nested_priv,
) -> c_int {
    // SAFETY: The data is an `OnDevice` that is not used otherwise; RCU keeps the device (contract
    // of this function).
    unsafe {
        let each: *mut OnDevice<'_> = bindings::rdma_helper_nested_data(data).cast();
        status((*each)(NetDevice::from_raw(device)))
    }
}

/// # Safety
///
/// Only for C: the data is an [`OnAddress`] that is not used otherwise during the call; the address
/// has 4 bytes.
unsafe extern "C" fn on_ipv4(data: *mut c_void, address: *const c_void) -> c_int {
    // SAFETY: Four bytes, and an `OnAddress` that is not used otherwise (contract of this
    // function).
    unsafe {
        let address = address.cast::<[u8; 4]>().read_unaligned();
        let each: *mut OnAddress<'_> = data.cast();
        status((*each)(Ipv4Addr::from(address).into()))
    }
}

/// # Safety
///
/// As for [`on_ipv4`], with 16 bytes.
unsafe extern "C" fn on_ipv6(data: *mut c_void, address: *const c_void) -> c_int {
    // SAFETY: Sixteen bytes, and an `OnAddress` that is not used otherwise (contract of this
    // function).
    unsafe {
        let address = address.cast::<[u8; 16]>().read_unaligned();
        let each: *mut OnAddress<'_> = data.cast();
        status((*each)(Ipv6Addr::from(address).into()))
    }
}
