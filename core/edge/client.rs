// SPDX-License-Identifier: GPL-2.0

//! Clients of devices and handlers of events at the edge.
//!
//! A client's methods are called with a device that is registered and that the caller keeps so,
//! and with the client's own data; they may be called until `ib_unregister_client` returns. To be
//! held against `struct ib_client`, `struct ib_event_handler` in `include/rdma/ib_verbs.h`.

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
use kernel::sync::Refcount;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::net::NetDevice;
use rdma::sync::Completion;

use crate::device::Device;
use crate::private;

rdma::c_struct! {
    /// A client.
    pub(crate) struct Client: bindings::ib_client;
    fields {
        /// Its number. Written before it is listed.
        const id at client_id: u32;
        /// Whether it wants devices that kernel consumers cannot use. The client's.
        bit no_kverbs_req: bool;
        /// Uses of the registered client.
        embed uses: Refcount;
        /// Completed with the last use.
        embed uses_zero: Completion;
    }
}

/// What a client keeps of a device.
pub(crate) type Data = Passed<c_void>;

impl Client {
    /// Whether it has this name.
    pub(crate) fn is_named(&self, name: &CStr) -> bool {
        // SAFETY: Written before the client is listed; null or a string that stays as long.
        unsafe {
            let own = (*self.raw()).name;
            !own.is_null() && CStr::from_char_ptr(own) == name
        }
    }

    /// Tells it of a device; whether it knows it from now on.
    pub(crate) fn add(&self, device: &Device) -> bool {
        // SAFETY: See the module's page; the table is written before the client is listed.
        unsafe {
            (*self.raw())
                .add
                .is_none_or(|method| method(device.as_raw()) == 0)
        }
    }

    /// Tells it that a device goes.
    pub(crate) fn remove(&self, device: &Device) {
        // SAFETY: See the module's page.
        unsafe {
            if let Some(method) = (*self.raw()).remove {
                method(device.as_raw(), device.client_data(self).into_c());
            }
        }
    }

    /// Tells it of the device's new name.
    pub(crate) fn rename(&self, device: &Device) {
        // SAFETY: See the module's page.
        unsafe {
            if let Some(method) = (*self.raw()).rename {
                method(device.as_raw(), device.client_data(self).into_c());
            }
        }
    }

    /// Its network device for an address, if it has one.
    pub(crate) fn get_net_dev_by_params(
        &self,
        device: &Device,
        port: u32,
        pkey: u16,
        gid: In<'_, RawGid>,
        addr: In<'_, SockAddr>,
    ) -> Option<ARef<NetDevice>> {
        // SAFETY: See the module's page; the client gives a reference of what it returns.
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

    /// What it shows of a device, or of itself, by netlink; `None` without a method for it. The
    /// character device of an answer is counted for the caller.
    pub(crate) fn get_nl_info(&self, device: Option<&Device>, info: &mut NlInfo) -> Option<Result> {
        // It is one type in both bindings.
        let place = ptr::from_mut(info).cast();
        // SAFETY: See the module's page.
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
            // SAFETY: The client has just written it, and keeps it while it knows the device, or
            // is registered: for as long as the caller keeps `self`.
            unsafe { bindings::get_device(info.cdev) };
        }
        Some(to_result(code))
    }
}

/// What a client shows by netlink: `struct ib_client_nl_info`.
pub(crate) type NlInfo = private::ib_client_nl_info;

/// Has the module of a client loaded, if there is one. May sleep.
pub(crate) fn request_client(name: &CStr) {
    // SAFETY: Format and string are terminated.
    unsafe {
        bindings::__request_module(true, c"rdma-client-%s".as_char_ptr(), name.as_char_ptr())
    };
}

rdma::c_struct! {
    /// A GID that passes from one part of C to another.
    pub(crate) struct RawGid: bindings::ib_gid;
    fields {}
}

rdma::c_struct! {
    /// An address that passes from one part of C to another.
    pub(crate) struct SockAddr: bindings::sockaddr;
    fields {}
}

/// A client that is listed, or of which a use is counted.
///
/// # Invariants
///
/// `0` is such a client, for as long as this exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known(NonNull<Client>);

// SAFETY: The methods of a client are called from any thread.
unsafe impl Send for Known {}
// SAFETY: As for `Send`.
unsafe impl Sync for Known {}

impl Deref for Known {
    type Target = Client;

    fn deref(&self) -> &Client {
        // SAFETY: The client is there (type invariant).
        unsafe { self.0.as_ref() }
    }
}

/// A client that its owner unregisters, or null.
pub(crate) struct GivenClient(pub(crate) Option<Known>);

rdma::argument! {
    /// Null, or a listed client that is given up to the callee.
    impl GivenClient = |client: Option<&'static Client>| {
        GivenClient(client.map(|client| Known(NonNull::from(client))))
    };
}

/// A client that is being registered: its fields of the core are not initialised yet.
pub(crate) struct NewClient<'a>(Option<&'a Client>);

rdma::argument! {
    /// Null, or a client of which nobody else uses the core's fields, which stays until it is
    /// unregistered.
    impl<'a> NewClient<'a> = |client: Option<&'a Client>| NewClient(client);
}

impl NewClient<'_> {
    /// Gives it its number, and one use. The caller lists it, under the lock that is held around
    /// this.
    ///
    /// # Errors
    ///
    /// `EINVAL` for null.
    pub(crate) fn begin(self, id: u32) -> Result<Known> {
        let client = self.0.ok_or(EINVAL)?;
        // SAFETY: Nobody else uses these fields (contract of `from_c`).
        unsafe {
            bindings::init_completion(&raw mut (*client.raw()).uses_zero);
            (*client.raw()).client_id = id;
        }
        client.uses().set(1);
        // INVARIANT: `ib_register_client`'s contract is that the client stays until it is
        // unregistered, which takes it from the list after the last use.
        Ok(Known(NonNull::from(client)))
    }
}

rdma::c_struct! {
    /// What clients keep of a device: an array by the clients' numbers, which inline functions of
    /// consumers read. A reference promises that it is initialised.
    pub(crate) struct ClientData: bindings::xarray;
    fields {}
}

impl ClientData {
    /// Stores; allocates memory if the place was never reserved. May sleep.
    fn store(&self, client: &Client, data: Data) -> Result {
        // CAST: `unsigned long` has 32 bits or more.
        let place = client.id() as usize;
        // SAFETY: The array is initialised and has a lock of its own.
        let old =
            unsafe { bindings::xa_store(self.raw(), place, data.into_c(), bindings::GFP_KERNEL) };
        to_result(xa_err(old))
    }
}

/// The error that an xarray's function returned instead of an entry, or 0.
fn xa_err(entry: *mut c_void) -> c_int {
    let raw = entry as isize;
    // Errors are "internal" entries: two low bits are 10, and the number is above them.
    if raw & 3 == 2 && (-4095..0).contains(&(raw >> 2)) {
        i32::try_from(raw >> 2).unwrap_or(-22)
    } else {
        0
    }
}

impl Device {
    /// What a client keeps of the device.
    pub(crate) fn client_data(&self, client: &Client) -> Data {
        // CAST: `unsigned long` has 32 bits or more.
        let place = client.id() as usize;
        // SAFETY: The array is initialised with the device. What is in it was put there by the
        // client, which gets it back.
        unsafe { Data::from_c(bindings::xa_load(self.fields().client_data().raw(), place)) }
    }

    /// Keeps what a client wants to have back. Does not fail between `reserve_client_data` and
    /// `erase_client_data`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_client_data(&self, client: &Client, data: Data) -> Result {
        self.fields().client_data().store(client, data)
    }

    /// Reserves the place for [`set_client_data`](Self::set_client_data). May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve_client_data(&self, client: &Client) -> Result {
        self.set_client_data(client, Data::NULL)
    }

    /// Forgets what a client keeps. May sleep.
    pub(crate) fn erase_client_data(&self, client: &Client) {
        // CAST: `unsigned long` has 32 bits or more.
        let place = client.id() as usize;
        // SAFETY: The array is initialised with the device.
        unsafe { bindings::xa_erase(self.fields().client_data().raw(), place) };
    }
}

/// An event of a device, copied from its sender.
///
/// # Invariants
///
/// What it is of, if not the device or a port, stays until its device's events have been told:
/// the sender promises it, and flushes the queue of events before that goes.
#[repr(transparent)]
pub(crate) struct Event(bindings::ib_event);

// SAFETY: Plain data, and a pointer that handlers follow from any thread; type invariant.
unsafe impl Send for Event {}
// SAFETY: As for `Send`.
unsafe impl Sync for Event {}

impl Event {
    /// An event of a port.
    pub(crate) fn of_port(device: &Device, event: bindings::ib_event_type, port: u32) -> Self {
        // INVARIANT: It is of a port.
        Self(bindings::ib_event {
            device: device.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                port_num: ManuallyDrop::new(port),
            },
            event,
        })
    }

    /// What happened.
    pub(crate) fn kind(&self) -> bindings::ib_event_type {
        self.0.event
    }

    /// The port that it is of, if it is of one.
    pub(crate) fn port(&self) -> u32 {
        // SAFETY: Any bytes are a number.
        unsafe { *self.0.element.port_num }
    }

    /// Calls the handlers of its device, one after the other. May sleep.
    pub(crate) fn tell(&self, device: &Device) {
        let raw = device.as_raw();
        // SAFETY: The list is initialised with the device, and changed under the writer's side of
        // the semaphore only; a handler stays in it until its owner takes it out. Handlers get a
        // copy of the event, plain data.
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

/// An event that a handler is told of.
pub(crate) struct Told<'a>(pub(crate) &'a Event);

// SAFETY: `from_c`'s contract: an event, during the call.
unsafe impl FromC for Told<'_> {
    type C = *mut bindings::ib_event;

    unsafe fn from_c(c: Self::C) -> Self {
        const { assert!(size_of::<Event>() == size_of::<bindings::ib_event>()) };
        // SAFETY: `from_c`'s contract; the type is transparent.
        Self(unsafe { &*c.cast() })
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Told<'a> {}

/// An event that a driver sends, and the device that it is of.
pub(crate) struct Sent<'a> {
    /// The device.
    pub(crate) device: &'a Device,
    /// The event.
    pub(crate) event: Event,
}

// SAFETY: `from_c`'s contract: an event of a device that is there, which promises what the
// invariant of `Event` says (`ib_dispatch_event`).
unsafe impl FromC for Sent<'_> {
    type C = *const bindings::ib_event;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract. INVARIANT: As said there.
        unsafe {
            Self {
                device: Device::from_raw((*c).device),
                event: Event(c.read()),
            }
        }
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Sent<'a> {}

/// A handler of events that its owner adds or takes out.
pub(crate) struct Handler(*mut bindings::ib_event_handler);

rdma::argument! {
    /// An initialised handler (`INIT_IB_EVENT_HANDLER`) of a device that is there, which stays until
    /// it is taken out, and is added and taken out once each.
    impl Handler = |handler: Passed<bindings::ib_event_handler>| Handler(handler.into_c());
}

impl Handler {
    /// Adds it to the end of its device's list. May sleep; not from a handler.
    pub(crate) fn add(self) {
        let handler = self.0;
        // SAFETY: The contract of `from_c`; the list is changed under its semaphore.
        unsafe {
            let raw = (*handler).device;
            bindings::down_write(&raw mut (*raw).event_handler_rwsem);
            bindings::list_add_tail(&raw mut (*handler).list, &raw mut (*raw).event_handler_list);
            bindings::up_write(&raw mut (*raw).event_handler_rwsem);
        }
    }

    /// Takes it out: when this returns, it is not called and will not be. May sleep; not from a
    /// handler.
    pub(crate) fn remove(self) {
        let handler = self.0;
        // SAFETY: The contract of `from_c`; the list is changed under its semaphore.
        unsafe {
            let raw = (*handler).device;
            bindings::down_write(&raw mut (*raw).event_handler_rwsem);
            bindings::rdma_helper_list_del(&raw mut (*handler).list);
            bindings::up_write(&raw mut (*raw).event_handler_rwsem);
        }
    }
}
