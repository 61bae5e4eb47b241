// SPDX-License-Identifier: GPL-2.0

//! Notifications of changes of the IP addresses of network devices.
//!
//! C headers: `include/linux/inetdevice.h`, `include/net/addrconf.h`.

use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::pin::Pin;

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::device::NetDevice;
use crate::bindings;
use crate::module::Resident;

/// Listener for addresses in all namespaces. A type without data, because the notifiers of both
/// families call it.
pub trait AddressEvents: 'static {
    /// A network device was assigned this address or lost it, or the address changed. May be called
    /// in softirqs; must not sleep.
    fn changed(dev: &NetDevice, address: IpAddr, how: Change);
}

/// Change of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The network device has the address, until another change is reported.
    Came,
    /// The address was removed, unless it was assigned twice, or it changed; or changes are not
    /// reported in the order in which they happen.
    Other,
}

/// A registered listener for both families. It is not called any more after it was dropped.
///
/// # Invariants
///
/// The notifier blocks are registered.
#[pin_data(PinnedDrop)]
pub struct AddressNotifier<T: AddressEvents> {
    #[pin]
    ipv4: Opaque<bindings::notifier_block>,
    #[pin]
    ipv6: Opaque<bindings::notifier_block>,
    // The callbacks are the module's code.
    _resident: Resident,
    _listener: core::marker::PhantomData<T>,
}

// SAFETY: Only C accesses the blocks, under its locks.
unsafe impl<T: AddressEvents> Send for AddressNotifier<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: AddressEvents> Sync for AddressNotifier<T> {}

impl<T: AddressEvents> AddressNotifier<T> {
    /// Registers the listener. May sleep. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// Those of `register_inetaddr_notifier` and `register_inet6addr_notifier`.
    pub fn register(resident: Resident) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ipv4: Opaque::zeroed(),
            ipv6: Opaque::zeroed(),
            _resident: resident,
            _listener: core::marker::PhantomData,
        }? Error)
        .pin_chain(|this| {
            let (ipv4, ipv6) = (this.ipv4.get(), this.ipv6.get());
            // SAFETY: The blocks are valid for writes, and pinned until they are unregistered in
            // `drop`. INVARIANT: Both are registered here, or the value is dropped: C refuses to
            // unregister a block that is not registered.
            unsafe {
                (*ipv4).notifier_call = Some(Self::on_ipv4);
                (*ipv6).notifier_call = Some(Self::on_ipv6);
                to_result(bindings::rdma_helper_register_inetaddr_notifier(ipv4))?;
                to_result(bindings::rdma_helper_register_inet6addr_notifier(ipv6))
            }
        })
    }

    /// # Safety
    ///
    /// Only for C, with an address of IPv4.
    unsafe extern "C" fn on_ipv4(
        _block: *mut bindings::notifier_block,
        event: c_ulong,
        address: *mut c_void,
    ) -> c_int {
        // RTNL is held from the change until all listeners were called.
        let how = if event == bindings::netdev_cmd_NETDEV_UP as c_ulong {
            Change::Came
        } else {
            Change::Other
        };
        // SAFETY: The address has a device, which is valid for the call, and four bytes.
        unsafe {
            let bytes: [u8; 4] = bindings::rdma_helper_ifa_address(address)
                .cast::<[u8; 4]>()
                .read_unaligned();
            T::changed(
                NetDevice::from_raw(bindings::rdma_helper_ifa_dev(address)),
                Ipv4Addr::from(bytes).into(),
                how,
            );
        }
        0
    }

    /// # Safety
    ///
    /// Only for C, with an address of IPv6.
    unsafe extern "C" fn on_ipv6(
        _block: *mut bindings::notifier_block,
        _event: c_ulong,
        address: *mut c_void,
    ) -> c_int {
        // SAFETY: The address has a device, which is valid for the call, and sixteen bytes.
        unsafe {
            let bytes: [u8; 16] = bindings::rdma_helper_ifa6_address(address)
                .cast::<[u8; 16]>()
                .read_unaligned();
            T::changed(
                NetDevice::from_raw(bindings::rdma_helper_ifa6_dev(address)),
                Ipv6Addr::from(bytes).into(),
                // No lock covers both the change and the call.
                Change::Other,
            );
        }
        0
    }
}

#[pinned_drop]
impl<T: AddressEvents> PinnedDrop for AddressNotifier<T> {
    /// May sleep.
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The blocks are registered (type invariant).
        unsafe {
            bindings::rdma_helper_unregister_inet6addr_notifier(self.ipv6.get());
            bindings::rdma_helper_unregister_inetaddr_notifier(self.ipv4.get());
        }
    }
}
