// SPDX-License-Identifier: GPL-2.0

//! Notifications of events of network devices.
//!
//! C header: `register_netdevice_notifier` in `include/linux/netdevice.h`.

use core::pin::Pin;

use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::device::NetDevice;
use crate::bindings;
use crate::module::Resident;

/// An event (`enum netdev_cmd`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetdevEvent {
    /// The device was registered in its namespace.
    Register,
    /// The device is being unregistered, or leaves its namespace.
    Unregister,
    /// The device is up.
    Up,
    /// The device is about to go down.
    GoingDown,
    /// The device is down.
    Down,
    /// The carrier or other state has changed.
    Change,
    /// The MTU has changed.
    ChangeMtu,
    /// The hardware address has changed.
    ChangeAddr,
    /// The name has changed.
    ChangeName,
    /// The device was linked to an upper device, or unlinked.
    ChangeUpper,
    /// The device is a bond, and its active slave has changed.
    BondingFailover,
    /// Another event.
    Other(c_ulong),
}

impl NetdevEvent {
    /// Returns the number of the event in C.
    pub fn raw(self) -> c_ulong {
        let known = match self {
            Self::Register => bindings::netdev_cmd_NETDEV_REGISTER,
            Self::Unregister => bindings::netdev_cmd_NETDEV_UNREGISTER,
            Self::Up => bindings::netdev_cmd_NETDEV_UP,
            Self::GoingDown => bindings::netdev_cmd_NETDEV_GOING_DOWN,
            Self::Down => bindings::netdev_cmd_NETDEV_DOWN,
            Self::Change => bindings::netdev_cmd_NETDEV_CHANGE,
            Self::ChangeMtu => bindings::netdev_cmd_NETDEV_CHANGEMTU,
            Self::ChangeAddr => bindings::netdev_cmd_NETDEV_CHANGEADDR,
            Self::ChangeName => bindings::netdev_cmd_NETDEV_CHANGENAME,
            Self::ChangeUpper => bindings::netdev_cmd_NETDEV_CHANGEUPPER,
            Self::BondingFailover => bindings::netdev_cmd_NETDEV_BONDING_FAILOVER,
            Self::Other(event) => return event,
        };
        // CAST: Widens, or keeps the width.
        known as c_ulong
    }

    fn from_raw(event: c_ulong) -> Self {
        match u32::try_from(event) {
            Ok(bindings::netdev_cmd_NETDEV_REGISTER) => Self::Register,
            Ok(bindings::netdev_cmd_NETDEV_UNREGISTER) => Self::Unregister,
            Ok(bindings::netdev_cmd_NETDEV_UP) => Self::Up,
            Ok(bindings::netdev_cmd_NETDEV_GOING_DOWN) => Self::GoingDown,
            Ok(bindings::netdev_cmd_NETDEV_DOWN) => Self::Down,
            Ok(bindings::netdev_cmd_NETDEV_CHANGE) => Self::Change,
            Ok(bindings::netdev_cmd_NETDEV_CHANGEMTU) => Self::ChangeMtu,
            Ok(bindings::netdev_cmd_NETDEV_CHANGEADDR) => Self::ChangeAddr,
            Ok(bindings::netdev_cmd_NETDEV_CHANGENAME) => Self::ChangeName,
            Ok(bindings::netdev_cmd_NETDEV_CHANGEUPPER) => Self::ChangeUpper,
            Ok(bindings::netdev_cmd_NETDEV_BONDING_FAILOVER) => Self::BondingFailover,
            Ok(_) | Err(_) => Self::Other(event),
        }
    }
}

/// Listener for events of network devices in all namespaces.
///
/// It borrows nothing, because a leaked registration keeps calling it.
pub trait NetdevEvents: Send + Sync + 'static {
    /// Handles an event of `dev`. Process context, under the RTNL lock.
    fn event(&self, event: NetdevEvent, dev: &NetDevice);
}

/// A registered listener. During registration it is called for all existing devices; it is not
/// called any more after it was dropped.
///
/// # Invariants
///
/// The notifier block is registered.
#[pin_data(PinnedDrop)]
pub struct NetNotifier<T: NetdevEvents> {
    // Before the block: callbacks may run while the block is being registered.
    listener: T,
    #[pin]
    block: Opaque<bindings::notifier_block>,
    // The callback is the module's code.
    _resident: Resident,
}

// SAFETY: Only C accesses the block, under its locks; the listener is `Send + Sync`.
unsafe impl<T: NetdevEvents> Send for NetNotifier<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: NetdevEvents> Sync for NetNotifier<T> {}

impl<T: NetdevEvents> NetNotifier<T> {
    /// Registers `listener`. May sleep; takes the RTNL lock. `resident` is
    /// [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// Those of `register_netdevice_notifier`.
    pub fn register(resident: Resident, listener: T) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            listener,
            // INVARIANT: The block is registered here, or the initialiser fails.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                // SAFETY: `block` is valid for writes, and pinned until it is unregistered in
                // `drop`.
                unsafe {
                    block.write(bindings::notifier_block {
                        notifier_call: Some(Self::callback),
                        ..Default::default()
                    });
                    to_result(bindings::rdma_helper_register_netdevice_notifier(block))
                }
            }),
            _resident: resident,
        })
    }

    /// Returns the listener.
    pub fn listener(&self) -> &T {
        &self.listener
    }

    /// # Safety
    ///
    /// Only for C, with the block of a `Self`.
    unsafe extern "C" fn callback(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        // SAFETY: The block is inside a `Self`, which is pinned and whose listener was initialised
        // before the block was registered.
        let listener = unsafe {
            let this = container_of!(Opaque::cast_from(block), Self, block);
            &*core::ptr::addr_of!((*this).listener)
        };
        // SAFETY: Device notifiers get this type of information, and the device is valid for the
        // call.
        let dev = unsafe { NetDevice::from_raw(bindings::rdma_helper_notifier_dev(info)) };
        listener.event(NetdevEvent::from_raw(event), dev);
        // CAST: The constant is 1.
        bindings::NOTIFY_OK as c_int
    }
}

#[pinned_drop]
impl<T: NetdevEvents> PinnedDrop for NetNotifier<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The block is registered (type invariant). C waits for running callbacks, by the
        // RTNL lock.
        unsafe { bindings::rdma_helper_unregister_netdevice_notifier(self.block.get()) };
    }
}
