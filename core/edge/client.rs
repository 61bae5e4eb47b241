// SPDX-License-Identifier: GPL-2.0

//! C structures of clients and of event handlers.
//!
//! The methods of a client are called with a device that the caller keeps registered, and with the
//! client's own data. They may be called until `ib_unregister_client` returns. Must match `struct
//! ib_client` and `struct ib_event_handler` in `include/rdma/ib_verbs.h`.

use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::net::NetDevice;
use rdma::sync::CRefcount;
use rdma::sync::Completion;

use crate::device::Device;
use crate::device::Uses;
use crate::private;

rdma::c_struct! {
    /// A client: a kernel user that is notified of devices.
    pub(crate) struct Client: bindings::ib_client;
    fields {
        /// Index of the client's data in each device. Written before the client is listed.
        const id at client_id: u32;
        /// Whether the client also wants devices without kernel verbs. Set by the client.
        bit no_kverbs_req: bool;
        /// Use count of the registered client.
        embed uses: CRefcount;
        /// Completed when the last use ends.
        embed uses_zero: Completion;
    }
}

/// Private data of a client for one device.
pub(crate) type Data = Passed<c_void>;

impl Client {
    /// Returns whether this is the client's name.
    pub(crate) fn is_named(&self, name: &CStr) -> bool {
        // SAFETY: The name is written before the client is listed. It is null, or a string that
        // stays valid as long.
        unsafe {
            let own = (*self.raw()).name;
            !own.is_null() && CStr::from_char_ptr(own) == name
        }
    }

    /// Notifies the client of a new device. Returns whether the client accepts it.
    pub(crate) fn add(&self, device: &Device) -> bool {
        // SAFETY: Calls of client methods: header of this file. The methods are written before the
        // client is listed.
        unsafe {
            (*self.raw())
                .add
                .is_none_or(|method| method(device.as_raw()) == 0)
        }
    }

    /// Notifies the client that a device is removed.
    pub(crate) fn remove(&self, device: &Device) {
        // SAFETY: Calls of client methods: header of this file.
        unsafe {
            if let Some(method) = (*self.raw()).remove {
                method(device.as_raw(), device.client_data(self).into_c());
            }
        }
    }

    /// Notifies the client of the device's new name.
    pub(crate) fn rename(&self, device: &Device) {
        // SAFETY: Calls of client methods: header of this file.
        unsafe {
            if let Some(method) = (*self.raw()).rename {
                method(device.as_raw(), device.client_data(self).into_c());
            }
        }
    }

    /// Returns the client's network device for an address, if it has one.
    pub(crate) fn get_net_dev_by_params(
        &self,
        device: &Device,
        port: u32,
        pkey: u16,
        gid: In<'_, RawGid>,
        addr: In<'_, SockAddr>,
    ) -> Option<ARef<NetDevice>> {
        // SAFETY: Calls of client methods: header of this file. The client returns a reference that
        // the caller owns.
        unsafe {
            let method = (*self.raw()).get_net_dev_by_params?;
            let data = device.client_data(self).into_c();
            let found = method(
                device.as_raw(),
                port,
                pkey,
                gid.into_c(),
                addr.into_c(),
                data,
            );
            NonNull::new(found).map(|found| ARef::from_raw(found.cast()))
        }
    }

    /// Asks the client for its netlink information on a device, or on the client itself. `None` if
    /// the client has no method for it. On success the caller owns a reference to `info.cdev`, if
    /// that is set.
    pub(crate) fn get_nl_info(&self, device: Option<&Device>, info: &mut NlInfo) -> Option<Result> {
        // Both bindings generate the same type.
        let place = ptr::from_mut(info).cast();
        // SAFETY: Calls of client methods: header of this file.
        let code = unsafe {
            match device {
                Some(device) => {
                    let method = (*self.raw()).get_nl_info?;
                    method(device.as_raw(), device.client_data(self).into_c(), place)
                }
                None => (*self.raw()).get_global_nl_info?(place),
            }
        };
        if code == 0 && !info.cdev.is_null() {
            // SAFETY: The client has just written the pointer. It keeps the character device while
            // it has the device, or while it is registered: at least as long as the caller keeps
            // `self`.
            unsafe { bindings::get_device(info.cdev) };
        }
        Some(to_result(code))
    }
}

/// Netlink information of a client: `struct ib_client_nl_info`.
pub(crate) type NlInfo = private::ib_client_nl_info;

/// Requests the module of a client. May sleep.
pub(crate) fn request_client(name: &CStr) {
    // SAFETY: Format and name are NUL-terminated.
    unsafe {
        bindings::__request_module(true, c"rdma-client-%s".as_char_ptr(), name.as_char_ptr())
    };
}

rdma::c_struct! {
    /// A GID that is only passed from C to C.
    pub(crate) struct RawGid: bindings::ib_gid;
    fields {}
}

rdma::c_struct! {
    /// A socket address that is only passed from C to C.
    pub(crate) struct SockAddr: bindings::sockaddr;
    fields {}
}

/// A use of a registered client, which keeps the client: its unregistration waits for all uses. There
/// is no other way to keep a client, so code that has a `&Client` borrows a use, or is called by the
/// client's owner. Dropping the last one wakes the thread that unregisters the client. Two uses are
/// equal if they are of the same client. Any context.
///
/// # Invariants
///
/// One of the uses of `0` is this value's; `0` is valid as long as it has uses.
#[derive(PartialEq, Eq)]
pub(crate) struct ClientUse(NonNull<Client>);

// SAFETY: The methods of a client may be called from any thread.
unsafe impl Send for ClientUse {}
// SAFETY: As for `Send`.
unsafe impl Sync for ClientUse {}

impl ClientUse {
    fn counts(&self) -> Uses<'_> {
        Uses::new(self.uses(), self.uses_zero())
    }
}

impl Clone for ClientUse {
    fn clone(&self) -> Self {
        self.counts().get();
        // INVARIANT: The use was just taken.
        Self(self.0)
    }
}

impl Deref for ClientUse {
    type Target = Client;

    fn deref(&self) -> &Client {
        // SAFETY: The use keeps the client (type invariant).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for ClientUse {
    fn drop(&mut self) {
        // SAFETY: The use is this value's (type invariant).
        unsafe { self.counts().put() };
    }
}

/// A client that the present thread registers or unregisters for its owner.
///
/// # Invariants
///
/// `0` stays valid while this exists: no other thread unregisters it.
pub(crate) struct OwnedClient(NonNull<Client>);

impl OwnedClient {
    /// Returns whether `used` is a use of this client.
    pub(crate) fn is(&self, used: &ClientUse) -> bool {
        self.0 == used.0
    }

    /// Drops `own`, the use that [`NewClient::begin`] has returned, and waits for all others. May
    /// sleep.
    pub(crate) fn wait(self, own: ClientUse) {
        drop(own);
        // SAFETY: The client is valid (type invariant).
        let client = unsafe { self.0.as_ref() };
        Uses::new(client.uses(), client.uses_zero()).wait();
    }
}

/// Argument of `ib_unregister_client`: a client that its owner unregisters, or null.
pub(crate) struct GivenClient(pub(crate) Option<OwnedClient>);

rdma::argument! {
    /// Null, or a registered client, which its owner unregisters once, and keeps until the callee
    /// returns.
    impl GivenClient = |client: Option<&'static Client>| {
        // INVARIANT: The owner keeps the client during the call, for which alone this exists.
        GivenClient(client.map(|client| OwnedClient(NonNull::from(client))))
    };
}

/// A client that is being registered. Its core-only fields are not initialised yet.
pub(crate) struct NewClient<'a>(Option<&'a Client>);

rdma::argument! {
    /// Null, or a client that stays valid until it is unregistered, and whose core-only fields
    /// nobody else uses.
    impl<'a> NewClient<'a> = |client: Option<&'a Client>| NewClient(client);
}

impl NewClient<'_> {
    /// Sets the client's index, and its use count to the use that is returned. The caller holds the
    /// lock of the client list and adds the use to it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for null.
    pub(crate) fn begin(self, id: u32) -> Result<(OwnedClient, ClientUse)> {
        let client = self.0.ok_or(EINVAL)?;
        // SAFETY: Nobody else uses these fields (contract of `NewClient`).
        unsafe {
            bindings::init_completion(&raw mut (*client.raw()).uses_zero);
            (*client.raw()).client_id = id;
        }
        // SAFETY: The client has no uses before it is listed (contract of `NewClient`).
        unsafe { Uses::new(client.uses(), client.uses_zero()).open() };
        let client = NonNull::from(client);
        // INVARIANT: The client stays valid until it is unregistered (contract of `NewClient`), which
        // waits for its uses; its owner does not unregister it while it is being registered. The use
        // was just counted.
        Ok((OwnedClient(client), ClientUse(client)))
    }
}

rdma::c_struct! {
    /// Private data of the clients of a device, indexed by client. Inline functions of consumers
    /// read it. A reference implies that the xarray is initialised.
    pub(crate) struct ClientData: bindings::xarray;
    fields {}
}

impl ClientData {
    /// Stores the data of a client. Allocates memory if the index was never reserved. May sleep.
    fn store(&self, client: &Client, data: Data) -> Result {
        // CAST: `unsigned long` has at least 32 bits.
        let place = client.id() as usize;
        // SAFETY: The xarray is initialised (see [`ClientData`]) and does its own locking.
        let old =
            unsafe { bindings::xa_store(self.raw(), place, data.into_c(), bindings::GFP_KERNEL) };
        to_result(xa_err(old))
    }
}

/// Returns the errno encoded in the return value of an xarray function, or 0.
fn xa_err(entry: *mut c_void) -> c_int {
    let raw = entry as isize;
    // Errors are "internal" entries: the two low bits are 10, and the errno is stored above them.
    if raw & 3 == 2 && (-4095..0).contains(&(raw >> 2)) {
        i32::try_from(raw >> 2).unwrap_or(-22)
    } else {
        0
    }
}

impl Device {
    /// Returns the private data of a client for the device.
    pub(crate) fn client_data(&self, client: &Client) -> Data {
        // CAST: `unsigned long` has at least 32 bits.
        let place = client.id() as usize;
        // SAFETY: The xarray is initialised with the device. Its entry was stored by the client,
        // and is passed back to that client only.
        unsafe { Data::from_c(bindings::xa_load(self.fields().client_data().raw(), place)) }
    }

    /// Stores the private data of a client. Does not fail between `reserve_client_data` and
    /// `erase_client_data`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_client_data(&self, client: &Client, data: Data) -> Result {
        self.fields().client_data().store(client, data)
    }

    /// Reserves the entry for [`set_client_data`](Self::set_client_data). May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve_client_data(&self, client: &Client) -> Result {
        self.set_client_data(client, Data::NULL)
    }

    /// Erases the private data of a client. May sleep.
    pub(crate) fn erase_client_data(&self, client: &Client) {
        // CAST: `unsigned long` has at least 32 bits.
        let place = client.id() as usize;
        // SAFETY: The xarray is initialised with the device.
        unsafe { bindings::xa_erase(self.fields().client_data().raw(), place) };
    }
}

/// A copy of an event that a driver dispatched, or that the core generated.
///
/// # Invariants
///
/// An object in `element` (any but a port) stays valid until the event is delivered: the sender
/// guarantees it, and flushes the event workqueue before it frees the object.
#[repr(transparent)]
pub(crate) struct Event(bindings::ib_event);

// SAFETY: Plain data, and a pointer that handlers may dereference from any thread (type invariant).
unsafe impl Send for Event {}
// SAFETY: As for `Send`.
unsafe impl Sync for Event {}

/// An event of a port that the core generates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortEvent {
    /// The port has become active.
    Active,
    /// The port is not active any more.
    Error,
    /// The GID table has changed.
    GidChange,
}

impl PortEvent {
    fn number(self) -> bindings::ib_event_type {
        match self {
            Self::Active => bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
            Self::Error => bindings::ib_event_type_IB_EVENT_PORT_ERR,
            Self::GidChange => bindings::ib_event_type_IB_EVENT_GID_CHANGE,
        }
    }
}

impl Event {
    /// Creates an event of a port.
    pub(crate) fn of_port(device: &Device, event: PortEvent, port: u32) -> Self {
        // INVARIANT: `element` is a port number.
        Self(bindings::ib_event {
            device: device.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                port_num: ManuallyDrop::new(port),
            },
            event: event.number(),
        })
    }

    /// Type of the event.
    pub(crate) fn kind(&self) -> bindings::ib_event_type {
        self.0.event
    }

    /// Port number of the event. Meaningless unless it is a port event.
    pub(crate) fn port(&self) -> u32 {
        // SAFETY: Every bit pattern is a valid number.
        unsafe { *self.0.element.port_num }
    }

    /// Calls all event handlers of the device, one after the other. May sleep.
    pub(crate) fn tell(&self, device: &Device) {
        let raw = device.as_raw();
        // SAFETY: The list is initialised with the device. It is changed only while the semaphore
        // is held for writing, and a handler stays valid while it is listed. Handlers get a copy of
        // the event, which is plain data.
        unsafe {
            let mut event = (&raw const self.0).read();
            bindings::down_read(&raw mut (*raw).event_handler_rwsem);
            let head = &raw mut (*raw).event_handler_list;
            let mut at = (*head).next;
            while at != head {
                let handler = container_of!(at, bindings::ib_event_handler, list);
                if let Some(method) = (*handler).handler {
                    method(handler, &mut event);
                }
                at = (*at).next;
            }
            bindings::up_read(&raw mut (*raw).event_handler_rwsem);
        }
    }
}

/// An event as passed to a handler.
pub(crate) struct Told<'a>(pub(crate) &'a Event);

// SAFETY: `from_c`'s contract: points to an event that is valid during the call.
unsafe impl FromC for Told<'_> {
    type C = *mut bindings::ib_event;

    unsafe fn from_c(c: Self::C) -> Self {
        const { assert!(size_of::<Event>() == size_of::<bindings::ib_event>()) };
        // SAFETY: `from_c`'s contract; `Event` is transparent over `struct ib_event`.
        Self(unsafe { &*c.cast() })
    }
}
// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a> Within<'a> for Told<'a> {}

/// An event that a driver dispatches, with its device.
pub(crate) struct Sent<'a> {
    /// The device that dispatches the event.
    pub(crate) device: &'a Device,
    /// The event.
    pub(crate) event: Event,
}

// SAFETY: `from_c`'s contract: points to an event of a valid device that meets the invariant of
// `Event` (`ib_dispatch_event`).
unsafe impl FromC for Sent<'_> {
    type C = *const bindings::ib_event;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract, stated above. INVARIANT: Also by that contract.
        unsafe {
            Self {
                device: Device::from_raw((*c).device),
                event: Event(c.read()),
            }
        }
    }
}
// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a> Within<'a> for Sent<'a> {}

/// An event handler that its owner registers or unregisters.
pub(crate) struct Handler(*mut bindings::ib_event_handler);

rdma::argument! {
    /// An initialised handler (`INIT_IB_EVENT_HANDLER`) of a valid device. It is registered and
    /// unregistered once each, and stays valid until it is unregistered.
    impl Handler = |handler: Passed<bindings::ib_event_handler>| Handler(handler.into_c());
}

impl Handler {
    /// Adds the handler to the end of its device's list. May sleep. Must not be called from a
    /// handler.
    pub(crate) fn add(self) {
        let handler = self.0;
        // SAFETY: Handler and device are valid (contract of `Handler`); the list is changed under
        // its semaphore.
        unsafe {
            let raw = (*handler).device;
            bindings::down_write(&raw mut (*raw).event_handler_rwsem);
            bindings::list_add_tail(&raw mut (*handler).list, &raw mut (*raw).event_handler_list);
            bindings::up_write(&raw mut (*raw).event_handler_rwsem);
        }
    }

    /// Removes the handler. When this returns, the handler is not running and will not be called
    /// again. May sleep. Must not be called from a handler.
    pub(crate) fn remove(self) {
        let handler = self.0;
        // SAFETY: Handler and device are valid (contract of `Handler`); the list is changed under
        // its semaphore.
        unsafe {
            let raw = (*handler).device;
            bindings::down_write(&raw mut (*raw).event_handler_rwsem);
            bindings::rdma_helper_list_del(&raw mut (*handler).list);
            bindings::up_write(&raw mut (*raw).event_handler_rwsem);
        }
    }
}
