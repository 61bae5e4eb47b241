// SPDX-License-Identifier: GPL-2.0

//! The network devices of ports.
//!
//! A driver ties a port to a network device, of which the port then holds a reference.
//! Ties are found by the network device under RCU: by drivers for each packet.

use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::net::NetDevice;
use rdma::net::NetNotifier;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;
use rdma::sync::rcu;

use super::alloc;
use super::event;
use super::hooks::Notice;
use super::Device;
use super::Registered;

mod ties;

use self::ties::TIES;

/// A port's lock of its network device, held.
struct PortLocked {
    port: *mut bindings::ib_port_data,
    flags: c_ulong,
}

impl PortLocked {
    /// # Safety
    ///
    /// `port` is a port of a device that stays.
    unsafe fn new(port: *mut bindings::ib_port_data) -> Self {
        // SAFETY: By this function's duty.
        let flags =
            unsafe { bindings::rdma_helper_spin_lock_irqsave(&raw mut (*port).netdev_lock) };
        Self { port, flags }
    }

    fn get(&self) -> *mut bindings::net_device {
        // SAFETY: The port is there, and we hold its lock.
        unsafe { (*self.port).netdev }
    }

    /// Ties the port to another network device, or to none.
    ///
    /// # Safety
    ///
    /// `netdev` is null or a device that is alive.
    unsafe fn set(&self, netdev: *mut bindings::net_device) {
        let old = self.get();
        // SAFETY: By this function's duty; we hold the lock. Readers under RCU compare the
        // pointer only.
        unsafe {
            (&raw mut (*self.port).netdev).write_volatile(netdev);
            let tracker = &raw mut (*self.port).netdev_tracker;
            if !old.is_null() {
                bindings::rdma_helper_netdev_put(old, tracker);
            }
            if !netdev.is_null() {
                bindings::rdma_helper_netdev_hold(netdev, tracker);
            }
        }
    }
}

impl Drop for PortLocked {
    fn drop(&mut self) {
        // SAFETY: Locked in `new`.
        unsafe {
            bindings::rdma_helper_spin_unlock_irqrestore(
                &raw mut (*self.port).netdev_lock,
                self.flags,
            )
        };
    }
}

impl Device {
    /// The network device of a port, if it has one. A driver with a method of its own may
    /// sleep in it; without, any context.
    pub(crate) fn netdev(&self, port: u32) -> Option<ARef<NetDevice>> {
        let data = self.port_data(port)?;
        if let Some(method) = self.ops().get_netdev {
            // SAFETY: The driver's own method and device.
            let raw = NonNull::new(unsafe { method(self.as_raw(), port) })?;
            // SAFETY: The driver gives a reference.
            return Some(unsafe { ARef::from_raw(raw.cast()) });
        }
        // SAFETY: The port is there as long as the device.
        let locked = unsafe { PortLocked::new(data) };
        let raw = NonNull::new(locked.get())?;
        // SAFETY: The port holds a reference as long as we hold its lock.
        Some(unsafe { NetDevice::from_raw(raw.as_ptr()) }.hold())
    }

    /// The port that a network device belongs to. As [`netdev`](Self::netdev).
    pub(crate) fn port_of(&self, netdev: &NetDevice) -> Option<u32> {
        self.ports()
            .find(|port| self.netdev(*port).is_some_and(|other| *other == *netdev))
    }
}

/// Where it is written to which network device a port is tied.
pub(crate) struct Tie(NonNull<*mut bindings::net_device>);

// SAFETY: It is read only, by `is`, whose callers answer for its being there.
unsafe impl Send for Tie {}
// SAFETY: As above.
unsafe impl Sync for Tie {}

impl Tie {
    /// That of a port. `None` if there is no such port, or if its driver has a method to ask.
    pub(crate) fn of(device: &Device, port: u32) -> Option<Self> {
        let data = device.port_data(port)?;
        if device.ops().get_netdev.is_some() {
            return None;
        }
        // SAFETY: Only computes an address inside the port's data.
        NonNull::new(unsafe { &raw mut (*data).netdev }).map(Self)
    }

    /// Whether the port is tied to `netdev`, as of now. Any context.
    ///
    /// # Safety
    ///
    /// The ports of the device are there.
    pub(crate) unsafe fn is(&self, netdev: &NetDevice) -> bool {
        // SAFETY: By this function's duty. Whoever writes it writes it at once.
        unsafe { self.0.as_ptr().read_volatile() == netdev.as_raw() }
    }
}

fn set(device: &Device, netdev: *mut bindings::net_device, port: u32) -> Result {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    // Drivers do this before they register the device, too.
    alloc::set_up_ports(device)?;
    let data = device.port_data(port).ok_or(EINVAL)?;
    // SAFETY: The port is there as long as the device; the caller keeps the network device.
    unsafe {
        let locked = PortLocked::new(data);
        if locked.get() == netdev {
            return Ok(());
        }
        locked.set(netdev);
        drop(locked);
        // Readers may be at it: it gets into another list only after they have left.
        if TIES.remove(data) {
            rcu::synchronize();
        }
        TIES.add(data);
    }
    if device.state().named.load(Relaxed) {
        let notice = if netdev.is_null() {
            Notice::NetdevDetach { port }
        } else {
            Notice::NetdevAttach { port }
        };
        device.notify(notice);
    }
    Ok(())
}

/// Gives the network devices of all ports up. Any context.
pub(crate) fn detach_all(device: &Device) {
    for port in device.ports() {
        let Some(data) = device.port_data(port) else {
            return;
        };
        // SAFETY: The port is there as long as the device.
        unsafe {
            let locked = PortLocked::new(data);
            if !locked.get().is_null() {
                TIES.remove(data);
                locked.set(ptr::null_mut());
            }
        }
    }
}

/// The registered device that has a port tied to this network device. Any context.
fn by_netdev(
    netdev: *mut bindings::net_device,
    driver: bindings::rdma_driver_id,
) -> Option<Registered> {
    let _rcu = rcu::read_lock();
    let bucket = TIES.bucket(netdev);
    // SAFETY: Under RCU, what is in a list, or was, is there, and so is its device.
    unsafe {
        let mut at = bindings::rdma_helper_hlist_first_rcu(bucket);
        while !at.is_null() {
            let port = container_of!(at, bindings::ib_port_data, ndev_hash_link);
            let device = Device::from_raw((*port).ib_dev);
            let wanted = driver == bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN
                || device.ops().driver_id == driver;
            if (&raw const (*port).netdev).read_volatile() == netdev && wanted {
                if let Some(device) = device.live() {
                    return Some(device);
                }
            }
            at = bindings::rdma_helper_hlist_next_rcu(at);
        }
    }
    None
}

/// Tells of a port's state, if it has changed. Under the RTNL lock, or in process context.
fn tell_state(device: &Device, netdev: &NetDevice) {
    let Some(port) = device.port_of(netdev) else {
        return;
    };
    let Some(data) = device.port_data(port) else {
        return;
    };
    let (state, event) = if netdev.is_active() {
        (
            bindings::ib_port_state_IB_PORT_ACTIVE,
            bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
        )
    } else {
        (
            bindings::ib_port_state_IB_PORT_DOWN,
            bindings::ib_event_type_IB_EVENT_PORT_ERR,
        )
    };
    // SAFETY: The field is there as long as the device, and used here only.
    let last = unsafe { Atomic::from_ptr(&raw mut (*data).cache.last_port_state) };
    if last.xchg(state, Full) != state {
        event::dispatch(device, event, port);
    }
}

/// Who tells clients, by the network devices, of ports whose state changes.
struct Listener;

impl NetdevEvents for Listener {
    fn event(&self, event: NetdevEvent, dev: &NetDevice) {
        let any = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
        match event {
            NetdevEvent::ChangeName => {
                if let Some(device) = by_netdev(dev.as_raw(), any) {
                    if let Some(port) = device.port_of(dev) {
                        device.notify(Notice::NetdevRename { port });
                    }
                }
            }
            NetdevEvent::Up | NetdevEvent::Change | NetdevEvent::Down => {
                // SAFETY: The device is alive. Of bonds their drivers tell.
                if unsafe { bindings::rdma_helper_netif_is_lag(dev.as_raw()) } {
                    return;
                }
                let Some(device) = by_netdev(dev.as_raw(), any) else {
                    return;
                };
                match device.ops().report_port_event {
                    // SAFETY: The driver's own method and device.
                    Some(method) => unsafe {
                        method(device.as_raw(), dev.as_raw(), event.raw());
                    },
                    None => tell_state(&device, dev),
                }
            }
            _ => {}
        }
    }
}

/// The listener, registered.
pub(super) struct Subsystem(#[allow(dead_code)] Pin<KBox<NetNotifier<Listener>>>);

impl Subsystem {
    /// Once, before there is a device. May sleep.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: The module does this once.
        unsafe { TIES.init() };
        Ok(Self(KBox::try_pin_init(
            NetNotifier::register(Listener),
            GFP_KERNEL,
        )?))
    }
}

/// Ties a port to a network device, or to none (null). May sleep.
///
/// Errors: `EINVAL` if there is no such port, `ENOMEM`.
///
/// # Safety
///
/// The device is allocated and has its number of ports. The network device is alive, and
/// when it unregisters the driver unties it or unregisters the device. One thread at a
/// time does this for a port.
#[no_mangle]
pub unsafe extern "C" fn ib_device_set_netdev(
    device: *mut bindings::ib_device,
    netdev: *mut bindings::net_device,
    port: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    match set(unsafe { Device::from_raw(device) }, netdev, port) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// The network device of a port, with a reference for the caller, or null. Does not sleep,
/// unless the driver has a method for it that does.
///
/// # Safety
///
/// The device is allocated.
#[no_mangle]
pub unsafe extern "C" fn ib_device_get_netdev(
    device: *mut bindings::ib_device,
    port: u32,
) -> *mut bindings::net_device {
    // SAFETY: By this function's duty.
    match unsafe { Device::from_raw(device) }.netdev(port) {
        Some(netdev) => ARef::into_raw(netdev).as_ptr().cast(),
        None => ptr::null_mut(),
    }
}

/// The port that a network device is tied to.
///
/// Errors: `ENOENT`.
///
/// # Safety
///
/// The device is allocated, `port` may be written.
#[no_mangle]
pub unsafe extern "C" fn ib_query_netdev_port(
    device: *mut bindings::ib_device,
    netdev: *mut bindings::net_device,
    port: *mut u32,
) -> c_int {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    // The pointer is compared only; nothing need be there, or it may be null.
    let found = device.ports().find(|port| match device.netdev(*port) {
        Some(other) => other.as_raw() == netdev,
        None => netdev.is_null(),
    });
    match found {
        Some(found) => {
            // SAFETY: By this function's duty.
            unsafe { port.write(found) };
            0
        }
        None => ENOENT.to_errno(),
    }
}

/// A registered device that is tied to a network device, of this driver or of any
/// (`RDMA_DRIVER_UNKNOWN`), counted for the caller; or null. Any context.
///
/// # Safety
///
/// None: the pointer is compared only.
#[no_mangle]
pub unsafe extern "C" fn ib_device_get_by_netdev(
    netdev: *mut bindings::net_device,
    driver: bindings::rdma_driver_id,
) -> *mut bindings::ib_device {
    match by_netdev(netdev, driver) {
        Some(device) => device.into_raw(),
        None => ptr::null_mut(),
    }
}

/// Tells that the state of a network device's port may have changed; for drivers that do
/// this themselves. Process context.
///
/// # Safety
///
/// Both are alive.
#[no_mangle]
pub unsafe extern "C" fn ib_dispatch_port_state_event(
    device: *mut bindings::ib_device,
    netdev: *mut bindings::net_device,
) {
    // SAFETY: By this function's duty.
    unsafe { tell_state(Device::from_raw(device), NetDevice::from_raw(netdev)) };
}

rdma::exported!(
    ib_device_set_netdev,
    ib_device_get_netdev,
    ib_query_netdev_port,
    ib_device_get_by_netdev,
    ib_dispatch_port_state_event,
);
