// SPDX-License-Identifier: GPL-2.0

//! Lookup of an address from its notifier.

use core::net::IpAddr;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use rdma::bindings;
use rdma::net::address_notifier::Change;
use rdma::net::AddressEvents;
use rdma::net::NetDevice;

mod c {
    use rdma::bindings;

    extern "C" {
        pub(super) fn rdma_kunit_netdev_up() -> *mut bindings::net_device;
        pub(super) fn rdma_kunit_netdev_down(dev: *mut bindings::net_device);
        pub(super) fn rdma_kunit_netdev_gone(dev: *mut bindings::net_device);
    }
}

/// The device whose addresses are removed.
static WATCHED: Atomic<usize> = Atomic::<usize>::new(0);
/// Number of notifications for its addresses, and how many of these addresses the device still had.
static TOLD: Atomic<i32> = Atomic::<i32>::new(0);
static STAYED: Atomic<i32> = Atomic::<i32>::new(0);

struct Listener;

impl AddressEvents for Listener {
    fn changed(dev: &NetDevice, address: IpAddr, _how: Change) {
        if dev.as_raw().addr() != WATCHED.load(Acquire) {
            return;
        }
        let _: i32 = TOLD.fetch_add(1, Full);
        let mut listed = false;
        let walked = dev.for_each_address(|each| {
            listed |= each == address;
            Ok(())
        });
        if dev.has_address(address) || listed || walked.is_err() {
            let _: i32 = STAYED.fetch_add(1, Full);
        }
    }
}

/// Sets a device with an IPv6 address down. Returns how many addresses it had, how many were
/// notified, and how many of these it still had at that time.
fn go_down(dev: *mut bindings::net_device) -> (i32, i32, i32) {
    let mut had = 0;
    // SAFETY: The device is the caller's, and registered.
    let _: Result = unsafe { NetDevice::from_raw(dev) }.for_each_address(|_| {
        had += 1;
        Ok(())
    });
    WATCHED.store(dev.addr(), Release);
    // SAFETY: As above.
    unsafe { c::rdma_kunit_netdev_down(dev) };
    WATCHED.store(0, Release);
    (had, TOLD.load(Acquire), STAYED.load(Acquire))
}

#[kunit_tests(core_addresses)]
mod tests {
    use super::*;
    use rdma::net::AddressNotifier;

    /// When a link goes down, the notifier is called for each IPv6 address before it is removed
    /// from the list, and not afterwards: a lookup in the notifier must not find it.
    #[test]
    fn an_address_that_goes_is_not_found() -> Result {
        let _notifier = KBox::try_pin_init(
            AddressNotifier::<Listener>::register(rdma::resident!()),
            GFP_KERNEL,
        )?;
        // SAFETY: It creates a new device.
        let dev = unsafe { c::rdma_kunit_netdev_up() };
        assert!(!dev.is_null());
        let (had, told, stayed) = go_down(dev);
        // SAFETY: The device was created above, and is not used any more.
        unsafe { c::rdma_kunit_netdev_gone(dev) };
        assert!(had > 0);
        assert_eq!((told, stayed), (had, 0));
        Ok(())
    }
}
