// SPDX-License-Identifier: GPL-2.0

//! What a device asks of the parts of the core that are built on it.
//!
//! `device` imports none of these parts. [`Hooks`] lists the calls, `core/life.rs` implements it
//! once, for [`Core`], and the compiler resolves every call statically.
//!
//! A part that keeps data per device declares a type with [`PerDevice`]; `core/life.rs` gives it
//! a field in [`Slots`], and [`Device::slot`] is a constant offset into that structure.

use kernel::prelude::*;
use rdma::net::CountedNet;
use rdma::net::Net;

use super::Device;
use super::Registered;
use crate::edge::client::Event;
use crate::edge::device::Visible;

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
    /// It has a new name.
    Rename,
    /// A port has got a network device.
    NetdevAttach {
        /// The port.
        port: u32,
    },
    /// A port has lost its network device.
    NetdevDetach {
        /// The port.
        port: u32,
    },
    /// The network device of a port has a new name.
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

    /// The slots of a new device. May sleep.
    fn slots() -> impl PinInit<Self::Slots, Error>;

    /// Unregisters a device, if it is registered, and frees it if its driver wants that. When
    /// this returns the device is unregistered, by whichever thread. The caller has a reference
    /// of the driver model and no use count. May sleep.
    fn unregister(device: &Device);

    /// Moves a device that is in `from` to another namespace. The caller has a reference of the
    /// driver model and no use count. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is not registered or not in `from`; those of `device_rename`,
    /// after which it stays in `from`, and those of registration, after which some clients may
    /// not know it.
    fn relocate(device: &Device, from: &Net, to: &CountedNet) -> Result;

    /// The last reference to a device is gone; its memory is freed next. Any context in which
    /// `put_device` may be called.
    fn release(device: &Device);

    /// An event of the device, before its handlers are called; returns whether to call them.
    /// May sleep.
    fn refresh(device: &Device, event: &Event) -> bool;

    /// Reports a change to listeners in user space. May sleep.
    fn notify(device: &Device, notice: Notice);

    /// The subnet prefix of an InfiniBand port as it is cached, 0 if it is not. Any context.
    fn subnet_prefix(device: &Device, port: u32) -> u64;

    /// The counters of a port, if its driver has any. The device is registered. Any context.
    fn port_stats(device: &Device, port: u32) -> Option<&Self::Stats>;

    /// Makes the directories of the ports of a device, or of a copy of it in a namespace. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver and of sysfs; nothing is left behind.
    fn show_ports(of: &Visible<'_>) -> Result;

    /// Removes the directories of the ports. May sleep: waits for readers of their files.
    fn hide_ports(of: &Visible<'_>);
}

/// Data that a part of the core keeps per device. Made with the device, dropped with its memory.
pub(crate) trait PerDevice: Send + Sync + Sized {
    /// The data of a new device. May sleep.
    fn new() -> impl PinInit<Self, Error>;
}

/// Where the data of one part is; implemented by `core/life.rs`.
pub(crate) trait HasSlot<T: PerDevice> {
    /// The data of that part.
    fn slot(&self) -> &T;
}

impl Device {
    /// The data that a part of the core keeps of the device.
    #[inline(always)]
    pub(crate) fn slot<T: PerDevice>(&self) -> &T
    where
        Slots: HasSlot<T>,
    {
        HasSlot::slot(&self.state().slots)
    }

    /// The counters of a port, if its driver has any. The device is registered. Any context.
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
