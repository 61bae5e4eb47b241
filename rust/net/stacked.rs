// SPDX-License-Identifier: GPL-2.0

//! Network devices stacked on one another, and the addresses that each has.
//!
//! C headers: `include/linux/netdevice.h`, `include/net/bonding.h`,
//! `include/linux/inetdevice.h`, `include/net/addrconf.h`.

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

/// What a walk calls for each device. It may not sleep; an error ends the walk.
type OnDevice<'a> = &'a mut dyn FnMut(&NetDevice) -> Result;
/// What a walk calls for each address. It may not sleep; an error ends the walk.
type OnAddress<'a> = &'a mut dyn FnMut(IpAddr) -> Result;

impl NetDevice {
    /// Tells devices apart that have the same MAC address; zero for all others.
    pub fn dev_id(&self) -> u16 {
        // SAFETY: By the type invariant, the device is alive.
        unsafe { bindings::rdma_helper_netdev_dev_id(self.as_raw()) }
    }

    /// Whether it is being unregistered, or has been.
    pub fn is_leaving(&self) -> bool {
        // SAFETY: By the type invariant, the device is alive.
        unsafe { bindings::rdma_helper_netdev_leaving(self.as_raw()) }
    }

    /// Whether it is on top of another. What is true without the RTNL lock may soon not be.
    pub fn has_lower(&self) -> bool {
        // SAFETY: By the type invariant, the device is alive.
        unsafe { bindings::rdma_helper_netdev_has_lower(self.as_raw()) }
    }

    /// Whether it is a slave of a bond.
    pub fn is_bond_slave(&self) -> bool {
        // SAFETY: By the type invariant, the device is alive.
        unsafe { bindings::rdma_helper_netif_is_bond_slave(self.as_raw()) }
    }

    /// Whether it is the master of a bond.
    pub fn is_bond_master(&self) -> bool {
        // SAFETY: By the type invariant, the device is alive.
        unsafe { bindings::rdma_helper_netif_is_bond_master(self.as_raw()) }
    }

    /// The slave through which a bond sends, if it is a bond of a mode that has such a one,
    /// and there is one now.
    pub fn active_slave<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        if !self.is_bond_master() {
            return None;
        }
        // SAFETY: The device is alive and a bond's master; RCU is held.
        let slave = unsafe { bindings::rdma_helper_bond_active_slave_rcu(self.as_raw()) };
        // SAFETY: If there is one, RCU protects it.
        (!slave.is_null()).then(|| unsafe { NetDevice::from_raw(slave) })
    }

    /// Calls for each device above this one, at any distance. One that is there by several
    /// ways may be seen several times.
    ///
    /// # Errors
    ///
    /// That of the callback.
    pub fn for_each_upper(
        &self,
        _rcu: &rcu::Guard,
        mut each: impl FnMut(&NetDevice) -> Result,
    ) -> Result {
        let mut each: OnDevice<'_> = &mut each;
        // SAFETY: The device is alive and RCU is held; `on_device` is called with what we hand
        // in, which outlives the call.
        to_result(unsafe {
            bindings::rdma_helper_walk_uppers_rcu(
                self.as_raw(),
                Some(on_device),
                (&raw mut each).cast(),
            )
        })
    }

    /// The device just below this one; if there are several, the first.
    pub fn first_lower<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        let mut first = core::ptr::null_mut();
        let mut take: OnDevice<'_> = &mut |lower| {
            first = lower.as_raw();
            Err(EINTR)
        };
        // SAFETY: The device is alive and RCU is held; `on_device` is called with what we hand
        // in, which outlives the call.
        let _: c_int = unsafe {
            bindings::rdma_helper_walk_lowers_rcu(
                self.as_raw(),
                Some(on_device),
                (&raw mut take).cast(),
            )
        };
        // SAFETY: If there is one, RCU protects it.
        (!first.is_null()).then(|| unsafe { NetDevice::from_raw(first) })
    }

    /// Calls for each IP address of the device, IPv4 ones first, in the network stack's order.
    /// Of a point-to-point link it is the peer's, as `ifa_address` has it. What is going is not
    /// among them, from the moment on that notifiers hear of it. Process context.
    ///
    /// # Errors
    ///
    /// That of the callback.
    pub fn for_each_address(&self, mut each: impl FnMut(IpAddr) -> Result) -> Result {
        let mut each: OnAddress<'_> = &mut each;
        let data: *mut c_void = (&raw mut each).cast();
        // SAFETY: The device is alive; the callback is called with `data`, which outlives the
        // call, and with an address.
        to_result(unsafe { bindings::rdma_helper_walk_ipv4(self.as_raw(), Some(on_ipv4), data) })?;
        // SAFETY: As for IPv4, with `on_ipv6`.
        to_result(unsafe { bindings::rdma_helper_walk_ipv6(self.as_raw(), Some(on_ipv6), data) })
    }

    /// Whether the device has this address: whether [`Self::for_each_address`] would tell it.
    /// Any context but a hard interrupt's.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let still = dev.has_address(Ipv4Addr::new(10, 0, 0, 1).into());
    /// ```
    pub fn has_address(&self, address: IpAddr) -> bool {
        // SAFETY: The device is alive; the addresses have four and sixteen bytes.
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
/// For C only: RCU protects the device, and the data is an [`OnDevice`] that nobody else uses.
unsafe extern "C" fn on_device(
    device: *mut bindings::net_device,
    data: *mut bindings::netdev_nested_priv,
) -> c_int {
    // SAFETY: The data is an `OnDevice` that is ours for the call; the device is protected by RCU
    // (contract).
    unsafe {
        let each: *mut OnDevice<'_> = bindings::rdma_helper_nested_data(data).cast();
        status((*each)(NetDevice::from_raw(device)))
    }
}

/// # Safety
///
/// For C only: the data is an [`OnAddress`] that nobody else uses, the address has 4 bytes.
unsafe extern "C" fn on_ipv4(data: *mut c_void, address: *const c_void) -> c_int {
    // SAFETY: Four bytes, and an `OnAddress` that is ours for the call (contract).
    unsafe {
        let address = address.cast::<[u8; 4]>().read_unaligned();
        let each: *mut OnAddress<'_> = data.cast();
        status((*each)(Ipv4Addr::from(address).into()))
    }
}

/// # Safety
///
/// As [`on_ipv4`], with 16 bytes.
unsafe extern "C" fn on_ipv6(data: *mut c_void, address: *const c_void) -> c_int {
    // SAFETY: Sixteen bytes, and an `OnAddress` that is ours for the call (contract).
    unsafe {
        let address = address.cast::<[u8; 16]>().read_unaligned();
        let each: *mut OnAddress<'_> = data.cast();
        status((*each)(Ipv6Addr::from(address).into()))
    }
}
