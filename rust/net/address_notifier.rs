// SPDX-License-Identifier: GPL-2.0

//! What happens to the IP addresses of network devices.
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

/// Who hears about addresses, in all namespaces. A type without data, since both families'
/// notifiers call it.
pub trait AddressEvents: 'static {
    /// A network device got or lost this address, or it changed. It may be called in softirqs,
    /// and may not sleep.
    fn changed(dev: &NetDevice, address: IpAddr, how: Change);
}

/// What happened to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The network device has it from now on, until something else is told.
    Came,
    /// It went, if it is not there a second time, or it changed; or who tells of it does not do so
    /// in the order in which it happens.
    Other,
}

/// A registered listener for both families. After it is dropped it hears nothing.
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

// SAFETY: The blocks are only touched by C, under its locks.
unsafe impl<T: AddressEvents> Send for AddressNotifier<T> {}
// SAFETY: See `Send`.
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
            // SAFETY: The blocks are ours, pinned until they are unregistered in `drop`.
            // INVARIANT: Both are registered here, or the value is dropped: C refuses to
            // unregister what is not there.
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
    /// For C only, with an address of IPv4.
    unsafe extern "C" fn on_ipv4(
        _block: *mut bindings::notifier_block,
        event: c_ulong,
        address: *mut c_void,
    ) -> c_int {
        // RTNL is held from the change until all have been told of it.
        let how = if event == bindings::netdev_cmd_NETDEV_UP as c_ulong {
            Change::Came
        } else {
            Change::Other
        };
        // SAFETY: The address has a device, which lives for the call, and four bytes.
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
    /// For C only, with an address of IPv6.
    unsafe extern "C" fn on_ipv6(
        _block: *mut bindings::notifier_block,
        _event: c_ulong,
        address: *mut c_void,
    ) -> c_int {
        // SAFETY: The address has a device, which lives for the call, and sixteen bytes.
        unsafe {
            let bytes: [u8; 16] = bindings::rdma_helper_ifa6_address(address)
                .cast::<[u8; 16]>()
                .read_unaligned();
            T::changed(
                NetDevice::from_raw(bindings::rdma_helper_ifa6_dev(address)),
                Ipv6Addr::from(bytes).into(),
                // There is no lock around the change and the call.
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
        // SAFETY: By the type invariant.
        unsafe {
            bindings::rdma_helper_unregister_inet6addr_notifier(self.ipv6.get());
            bindings::rdma_helper_unregister_inetaddr_notifier(self.ipv4.get());
        }
    }
}
