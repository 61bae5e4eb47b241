// SPDX-License-Identifier: GPL-2.0

//! Network devices of ports.
//!
//! A driver attaches a network device to a port, which then holds a reference to it. Drivers look
//! up the port by the network device, under RCU, for each packet.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::edge::OutParam;
use rdma::edge::Passed;
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
use crate::edge::client::PortEvent;
use crate::edge::device::OrNull;
use crate::edge::ties::TIES;

impl Device {
    /// Returns the network device of a port, if there is one. May sleep if the driver has its own
    /// method for that; otherwise any context.
    pub(crate) fn netdev(&self, port: u32) -> Option<ARef<NetDevice>> {
        let data = self.port(port)?;
        if let Some(answer) = self.driver().get_netdev(port) {
            return answer;
        }
        let locked = data.lock_netdev();
        let netdev = locked.get()?.hold();
        Some(netdev)
    }

    /// Returns the port that a network device belongs to. Context as for [`netdev`](Self::netdev).
    pub(crate) fn port_of(&self, netdev: &NetDevice) -> Option<u32> {
        self.ports()
            .find(|port| self.netdev(*port).is_some_and(|other| *other == *netdev))
    }
}

fn set(device: &Device, netdev: Option<&NetDevice>, port: u32) -> Result {
    if !device.has_port(port) {
        return Err(EINVAL);
    }
    // Drivers may call this before they register the device.
    alloc::set_up_ports(device)?;
    let data = device.port(port).ok_or(EINVAL)?;
    {
        let mut locked = data.lock_netdev();
        if locked.get() == netdev {
            return Ok(());
        }
        locked.set(netdev);
    }
    // Wait for readers of the old list before the port is added to another one.
    if TIES.remove(data) {
        rcu::synchronize();
    }
    TIES.add(data);
    if device.is_named() {
        device.notify(match netdev {
            None => Notice::NetdevDetach { port },
            Some(_) => Notice::NetdevAttach { port },
        });
    }
    Ok(())
}

/// Drops the network devices of all ports. Any context.
pub(crate) fn detach_all(device: &Device) {
    for port in device.ports() {
        let Some(data) = device.port(port) else {
            return;
        };
        // In this order: a driver that sets a network device at the same time adds the port to the
        // table afterwards, and only if the port still has the network device.
        data.lock_netdev().set(None);
        TIES.remove(data);
    }
}

/// Returns the registered device with a port that `netdev` is attached to. The pointer is only
/// compared. Any context.
fn by_netdev(
    netdev: *const bindings::net_device,
    driver: bindings::rdma_driver_id,
) -> Option<Registered> {
    TIES.find(netdev, |port| {
        let device = port.device()?;
        let wanted = driver == bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN
            || device.ops().driver_id == driver;
        wanted.then(|| device.live())?
    })
}

/// Sends a port event if the port's state has changed. Under RTNL, or in process context.
fn tell_state(device: &Device, netdev: &NetDevice) {
    let Some(port) = device.port_of(netdev) else {
        return;
    };
    let Some(data) = device.port(port) else {
        return;
    };
    let (state, event) = if netdev.is_active() {
        (bindings::ib_port_state_IB_PORT_ACTIVE, PortEvent::Active)
    } else {
        (bindings::ib_port_state_IB_PORT_DOWN, PortEvent::Error)
    };
    if data.swap_last_state(state) != state {
        event::dispatch(device, event, port);
    }
}

/// Sends port events when the state of a network device changes.
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
                // Drivers report the state of bonds themselves.
                if dev.is_lag() {
                    return;
                }
                let Some(device) = by_netdev(dev.as_raw(), any) else {
                    return;
                };
                if device.ops().report_port_event.is_some() {
                    device.driver().report_port_event(dev, event.raw());
                } else {
                    tell_state(&device, dev);
                }
            }
            NetdevEvent::Register
            | NetdevEvent::Unregister
            | NetdevEvent::GoingDown
            | NetdevEvent::ChangeMtu
            | NetdevEvent::ChangeAddr
            | NetdevEvent::ChangeUpper
            | NetdevEvent::BondingFailover
            | NetdevEvent::Other(_) => {}
        }
    }
}

/// The registered listener.
pub(super) struct Subsystem(#[allow(dead_code)] Pin<KBox<NetNotifier<Listener>>>);

impl Subsystem {
    /// Registers the listener. Must be called only once, before there are devices. May sleep.
    pub(super) fn new() -> Result<Self> {
        TIES.init();
        Ok(Self(KBox::try_pin_init(
            NetNotifier::register(rdma::resident!(), Listener),
            GFP_KERNEL,
        )?))
    }
}

fn query_netdev_port(
    device: &Device,
    netdev: Passed<bindings::net_device>,
    mut port: OutParam<'_, u32>,
) -> Result {
    // The pointer is only compared; it may be null, or to a freed device.
    let found = device.ports().find(|port| match device.netdev(*port) {
        Some(other) => core::ptr::eq(other.as_raw(), netdev.as_ptr()),
        None => netdev.as_ptr().is_null(),
    });
    port.set(found.ok_or(ENOENT)?);
    Ok(())
}

fn get_by_netdev(netdev: Passed<bindings::net_device>, driver: bindings::rdma_driver_id) -> OrNull {
    OrNull(by_netdev(netdev.as_ptr(), driver))
}

rdma::export! { in rdma::bindings;
    /// Attaches a network device to a port, or detaches it (null). When the network device is
    /// unregistered, the driver must detach it or unregister the RDMA device. Calls for one port
    /// must not be concurrent. May sleep. Errors: `EINVAL` if there is no such port, `ENOMEM`.
    fn ib_device_set_netdev(device: &Device, netdev: Option<&NetDevice>, port: u32) -> Result
        = set;
    /// Returns the network device of a port, with a reference for the caller, or null. May sleep
    /// only if the driver has its own method that does.
    fn ib_device_get_netdev(device: &Device, port: u32) -> Option<ARef<NetDevice>>
        = Device::netdev;
    /// Returns the port that a network device is attached to. Errors: `ENOENT`.
    fn ib_query_netdev_port(
        device: &Device, netdev: Passed<bindings::net_device>, port: OutParam<'_, u32>,
    ) -> Result = query_netdev_port;
    /// Returns a registered device that a network device is attached to, of this driver or of any
    /// (`RDMA_DRIVER_UNKNOWN`), with a use count for the caller; or null. Any context.
    fn ib_device_get_by_netdev(
        netdev: Passed<bindings::net_device>, driver: bindings::rdma_driver_id,
    ) -> OrNull = get_by_netdev;
    /// Reports a possible change of the state of a network device's port; for drivers that report
    /// this themselves. Process context.
    fn ib_dispatch_port_state_event(device: &Device, netdev: &NetDevice) = tell_state;
}
