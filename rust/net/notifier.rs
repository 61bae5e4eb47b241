// SPDX-License-Identifier: GPL-2.0

//! What happens to network devices.
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

/// What happened (`enum netdev_cmd`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetdevEvent {
    /// The device has appeared in its namespace.
    Register,
    /// The device is leaving its namespace.
    Unregister,
    /// It is up.
    Up,
    /// It is about to go down.
    GoingDown,
    /// It is down.
    Down,
    /// Its carrier or other state has changed.
    Change,
    /// Its MTU has changed.
    ChangeMtu,
    /// Its hardware address has changed.
    ChangeAddr,
    /// Its name has changed.
    ChangeName,
    /// It was put under another device, or taken from there.
    ChangeUpper,
    /// It is a bond, and another slave has become the active one.
    BondingFailover,
    /// Something else.
    Other(c_ulong),
}

impl NetdevEvent {
    /// The number of it, as C has it.
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

/// Who hears about network devices, of all namespaces.
///
/// It borrows nothing: a registration that is leaked keeps calling it.
pub trait NetdevEvents: Send + Sync + 'static {
    /// Something happened to `dev`. Process context, under the RTNL lock.
    fn event(&self, event: NetdevEvent, dev: &NetDevice);
}

/// A registered listener. While it is being registered it hears of all devices that
/// exist already; after it is dropped it hears nothing.
///
/// # Invariants
///
/// The notifier block is registered.
#[pin_data(PinnedDrop)]
pub struct NetNotifier<T: NetdevEvents> {
    // Before the block: callbacks begin while that is being registered.
    listener: T,
    #[pin]
    block: Opaque<bindings::notifier_block>,
    // The callback is the module's code.
    _resident: Resident,
}

// SAFETY: The block is only touched by C, under its locks; the listener is `Send + Sync`.
unsafe impl<T: NetdevEvents> Send for NetNotifier<T> {}
// SAFETY: See `Send`.
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
            // INVARIANT: Registered here, or the initialiser fails.
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                // SAFETY: `block` is valid for writes, and pinned until it is
                // unregistered in `drop`.
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

    /// The listener.
    pub fn listener(&self) -> &T {
        &self.listener
    }

    /// # Safety
    ///
    /// For C only, with the block of a `Self`.
    unsafe extern "C" fn callback(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        // SAFETY: C calls with the block that is inside a `Self`, which is pinned and
        // whose listener was initialised before the block was registered.
        let listener = unsafe {
            let this = container_of!(Opaque::cast_from(block), Self, block);
            &*core::ptr::addr_of!((*this).listener)
        };
        // SAFETY: Notifiers of devices get this kind of information, and the device is
        // valid for the call.
        let dev = unsafe { NetDevice::from_raw(bindings::rdma_helper_notifier_dev(info)) };
        listener.event(NetdevEvent::from_raw(event), dev);
        // CAST: the constant is 1.
        bindings::NOTIFY_OK as c_int
    }
}

#[pinned_drop]
impl<T: NetdevEvents> PinnedDrop for NetNotifier<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. C waits for callbacks, by the RTNL lock.
        unsafe { bindings::rdma_helper_unregister_netdevice_notifier(self.block.get()) };
    }
}
