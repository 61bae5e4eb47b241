// SPDX-License-Identifier: GPL-2.0

//! What a notifier finds when it looks for the address that it is told of.

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

/// The device whose addresses go.
static WATCHED: Atomic<usize> = Atomic::<usize>::new(0);
/// How many addresses of it were told of, and how many of these it still seemed to have.
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

/// Takes a device with an address of IPv6 down. Answers how many it had, how many were told of,
/// and how many of these it had still when they were.
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

    /// A link that goes down tells of each address of IPv6 before it takes it from the list, and of
    /// nothing after: who looks then must not find it.
    #[test]
    fn an_address_that_goes_is_not_found() -> Result {
        let _notifier = KBox::try_pin_init(
            AddressNotifier::<Listener>::register(rdma::resident!()),
            GFP_KERNEL,
        )?;
        // SAFETY: It makes a device of its own.
        let dev = unsafe { c::rdma_kunit_netdev_up() };
        assert!(!dev.is_null());
        let (had, told, stayed) = go_down(dev);
        // SAFETY: It is ours, and not used any more.
        unsafe { c::rdma_kunit_netdev_gone(dev) };
        assert!(had > 0);
        assert_eq!((told, stayed), (had, 0));
        Ok(())
    }
}
