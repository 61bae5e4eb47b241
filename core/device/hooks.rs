// SPDX-License-Identifier: GPL-2.0

//! Calls from `device` to the parts of the core that are built on it.
//!
//! `device` imports none of these parts. [`Hooks`] lists the calls, `core/life.rs` implements it
//! once, for [`Core`], and the compiler resolves every call statically.
//!
//! A part that keeps data per device declares a type with [`PerDevice`]; `core/life.rs` gives it
//! a field in [`Slots`], and [`Device::slot`] is a constant offset into that structure.

use kernel::prelude::*;
use rdma::net::CountedNet;
use rdma::net::Net;

use super::sub::Closed;
use super::Device;
use super::LastReference;
use super::Registered;
use crate::edge::client::Event;
use crate::edge::device::Visible;
use crate::proto::names::Naming;

/// The core as a whole, for which [`Hooks`] is implemented.
pub(crate) struct Core;

/// Data of all parts, per device.
pub(super) type Slots = <Core as Hooks>::Slots;

/// Changes of a device that `rdma monitor` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The device is registered.
    Register,
    /// The device is unregistered.
    Unregister,
    /// The device was renamed.
    Rename,
    /// A network device was attached to a port.
    NetdevAttach {
        /// The port.
        port: u32,
    },
    /// The network device of a port was detached.
    NetdevDetach {
        /// The port.
        port: u32,
    },
    /// The network device of a port was renamed.
    NetdevRename {
        /// The port.
        port: u32,
    },
}

/// Calls from `device` to the rest of the core.
pub(crate) trait Hooks {
    /// Data of all parts, per device.
    type Slots: Send + Sync;

    /// Counters of a driver.
    type Stats;

    /// Initialises the slots of a new device. May sleep.
    fn slots() -> impl PinInit<Self::Slots, Error>;

    /// Unregisters a device, if it is registered, and frees it if its driver requests that. When
    /// this returns, the device is unregistered, possibly by another thread. The caller must hold a
    /// driver model reference and no use count. May sleep.
    fn unregister(device: &Device);

    /// Moves a device that is in `from` to another namespace, and names it there. Clients are removed
    /// from the device and added again. The caller must hold a driver model reference and no use
    /// count. A device that was unregistered is moved as well, so that it does not refer to a
    /// namespace that ends. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is not registered or not in `from`; `EINVAL` and `EEXIST` for the name,
    /// mostly found before the device is disabled, and errors of `device_rename`, after which it
    /// stays in `from`; errors of registration, after which some clients may not have been notified
    /// of it.
    fn relocate(
        device: &Device,
        closed: Closed<'_>,
        from: &Net,
        to: &CountedNet,
        naming: Naming<'_>,
    ) -> Result;

    /// Called when the last reference to a device is dropped; its memory is freed next. Any context
    /// in which `put_device` may be called.
    fn release(last: &LastReference<'_>);

    /// Processes an event of the device before its handlers are called; returns whether to call
    /// them. May sleep.
    fn refresh(device: &Device, event: &Event) -> bool;

    /// Reports a change to listeners in user space. May sleep.
    fn notify(device: &Device, notice: Notice);

    /// Returns the cached subnet prefix of an InfiniBand port, 0 if it is not cached. Any context.
    fn subnet_prefix(device: &Device, port: u32) -> u64;

    /// Returns the counters of a port, if its driver has any. The device must be registered. Any
    /// context.
    fn port_stats(device: &Device, port: u32) -> Option<&Self::Stats>;

    /// Creates the sysfs directories of the ports of a device, or of a copy of it in a namespace.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// Errors of the driver and of sysfs, after which no directory is left.
    fn show_ports(of: &Visible<'_>) -> Result;

    /// Removes the sysfs directories of the ports. Waits for readers of their files. May sleep.
    fn hide_ports(of: &Visible<'_>);
}

/// Per-device data of a part of the core. Created with the device, dropped with its memory.
pub(crate) trait PerDevice: Send + Sync + Sized {
    /// Initialises the data of a new device. May sleep.
    fn new() -> impl PinInit<Self, Error>;
}

/// Locates the data of one part; implemented by `core/life.rs`.
pub(crate) trait HasSlot<T: PerDevice> {
    /// Returns the data of that part.
    fn slot(&self) -> &T;
}

impl Device {
    /// Returns a part's data for this device.
    #[inline(always)]
    pub(crate) fn slot<T: PerDevice>(&self) -> &T
    where
        Slots: HasSlot<T>,
    {
        HasSlot::slot(&self.state().slots)
    }

    /// Returns the counters of a port, if its driver has any. The device must be registered. Any
    /// context.
    pub(crate) fn port_stats(&self, port: u32) -> Option<&<Core as Hooks>::Stats> {
        Core::port_stats(self, port)
    }

    /// Reports a change to listeners in user space. May sleep.
    pub(super) fn notify(&self, notice: Notice) {
        Core::notify(self, notice);
    }
}

/// Unregisters a device that the caller holds. May sleep.
pub(crate) fn unregister(device: Registered) {
    let kept = device.hold();
    drop(device);
    Core::unregister(&kept);
}
