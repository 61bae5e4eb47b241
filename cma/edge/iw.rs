// SPDX-License-Identifier: GPL-2.0

//! IDs of `iw_cm`: iWARP.
//!
//! As those of `ib_cm`: the context is our [`Id`], also of listeners, and a handler that does not
//! return 0 has the ID destroyed.
//!
//! Must match `include/rdma/iw_cm.h`.

use super::args::Conn;
use super::args::Data;
use super::args::Sock;
use super::event::Event;
use super::event::Values;
use super::id::Id;
use super::transport::Ends;
use super::transport::Owned;
use super::transport::Use;
use super::transport::Vacant;
use crate::proto::addr::Address;
use crate::proto::event::IwEvent;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::client::DeviceRef;

/// The use of an ID of `iw_cm`.
pub(crate) type IwId = Use<bindings::iw_cm_id>;

/// The owner of an ID of `iw_cm`.
pub(crate) type OwnedIw = Owned<bindings::iw_cm_id>;

// SAFETY: IDs of `iw_cm` have their own locks.
unsafe impl Ends for bindings::iw_cm_id {
    unsafe fn destroy(raw: NonNull<Self>) {
        // SAFETY: The ID exists and is ours (contract of this function).
        unsafe { bindings::iw_destroy_cm_id(raw.as_ptr()) };
    }
}

impl IwId {
    fn create(
        device: &DeviceRef,
        id: &Arc<Id>,
        handler: bindings::iw_cm_handler,
    ) -> Result<OwnedIw> {
        let (source, destination) = id.addrs();
        let (tos, afonly) = id.with(|inner| (inner.options.tos, inner.afonly));
        let vacant = Vacant::new(Some(id.clone()))?;
        // SAFETY: The device exists. The ID is new and ours, so nobody else accesses its fields; its
        // owner has a reference to the context.
        unsafe {
            let raw = from_err_ptr(bindings::iw_create_cm_id(
                device.raw(),
                handler,
                super::id::context(id),
            ))?;
            let raw = NonNull::new(raw).ok_or(ENOMEM)?;
            let c = raw.as_ptr();
            (*c).tos = tos.unwrap_or(0);
            (*c).set_tos_set(tos.is_some());
            (*c).set_afonly(afonly);
            (&raw mut (*c).local_addr)
                .cast::<[u8; 128]>()
                .write(source.to_bytes());
            (&raw mut (*c).remote_addr)
                .cast::<[u8; 128]>()
                .write(destination.to_bytes());
            Ok(vacant.own(raw))
        }
    }

    /// Creates an ID for a connection.
    pub(crate) fn connection(device: &DeviceRef, id: &Arc<Id>) -> Result<OwnedIw> {
        Self::create(device, id, Some(on_event))
    }

    /// Listens for requests.
    pub(crate) fn listen(device: &DeviceRef, id: &Arc<Id>, backlog: c_int) -> Result<OwnedIw> {
        let owned = Self::create(device, id, Some(on_request))?;
        let this = owned.used()?;
        // SAFETY: The ID exists (guarantee of a use).
        let result = to_result(unsafe { bindings::iw_cm_listen(this.raw(), backlog) });
        // The owner's end waits for it.
        drop(this);
        result.map(|()| owned)
    }

    /// Returns the C structure.
    pub(crate) fn as_raw(&self) -> *mut bindings::iw_cm_id {
        self.raw()
    }

    /// The attributes of a queue pair.
    pub(super) fn init_qp_attr(&self, attr: &mut bindings::ib_qp_attr, mask: &mut c_int) -> Result {
        // SAFETY: The ID exists (guarantee of a use).
        to_result(unsafe { bindings::iw_cm_init_qp_attr(self.raw(), attr, mask) })
    }

    fn param(id: &Id, conn: &Conn<'_>) -> bindings::iw_cm_conn_param {
        let data = conn.data();
        bindings::iw_cm_conn_param {
            private_data: data.as_ptr(),
            private_data_len: data.len().into(),
            ord: conn.initiator_depth().into(),
            ird: conn.responder_resources().into(),
            qpn: if id.has_qp() {
                id.words().qp_num()
            } else {
                conn.qp_num()
            },
        }
    }

    /// Connects.
    pub(crate) fn connect(&self, id: &Id, conn: &Conn<'_>) -> Result {
        let mut param = Self::param(id, conn);
        // SAFETY: The ID exists (guarantee of a use); the data outlives the call.
        to_result(unsafe { bindings::iw_cm_connect(self.raw(), &mut param) })
    }

    /// Accepts a request.
    pub(crate) fn accept(&self, id: &Id, conn: &Conn<'_>) -> Result {
        let mut param = Self::param(id, conn);
        // SAFETY: The ID exists (guarantee of a use); the data outlives the call.
        to_result(unsafe { bindings::iw_cm_accept(self.raw(), &mut param) })
    }

    /// Refuses a request.
    pub(crate) fn reject(&self, data: Data<'_>) -> Result {
        // SAFETY: The ID exists (guarantee of a use); the data outlives the call.
        to_result(unsafe { bindings::iw_cm_reject(self.raw(), data.as_ptr(), data.len()) })
    }

    /// Disconnects.
    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: The ID exists (guarantee of a use).
        to_result(unsafe { bindings::iw_cm_disconnect(self.raw(), 0) })
    }
}

/// An event of `iw_cm`, in its handler.
pub(crate) struct Incoming<'a> {
    id: *mut bindings::iw_cm_id,
    raw: &'a bindings::iw_cm_event,
}

impl Incoming<'_> {
    /// What happened, and its status.
    pub(crate) fn event(&self) -> (IwEvent, i32) {
        (IwEvent::from_raw(self.raw.event), self.raw.status)
    }

    /// Local and remote address.
    pub(crate) fn addrs(&self) -> (Option<Address>, Option<Address>) {
        // SAFETY: Both are socket addresses in the event.
        unsafe {
            (
                Sock::read((&raw const self.raw.local_addr).cast()).addr,
                Sock::read((&raw const self.raw.remote_addr).cast()).addr,
            )
        }
    }

    /// The event for the consumer; with the numbers of reads if `values`.
    pub(crate) fn for_consumer(&self, values: bool) -> Event {
        // SAFETY: `iw_cm` passes private data of this size.
        let data = unsafe { Data::new(self.raw.private_data, self.raw.private_data_len) };
        let values = if values {
            Values {
                initiator_depth: self.raw.ird,
                responder_resources: self.raw.ord,
                ..Values::default()
            }
        } else {
            Values::default()
        };
        Event::of_connection(data, &values)
    }

    /// Makes the request's ID that of `id`. If `id` does not keep it, it gives it up.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&self, id: &Arc<Id>) -> Result<OwnedIw> {
        let raw = NonNull::new(self.id).ok_or(EINVAL)?;
        let vacant = Vacant::new(Some(id.clone()))?;
        // SAFETY: The ID exists, and calls its handler only after this one has returned. `iw_cm`
        // leaves it to us if that returns 0; else it is given up. The owner has a reference to the
        // context.
        unsafe {
            (*self.id).context = super::id::context(id);
            (*self.id).cm_handler = Some(on_event);
            Ok(vacant.own(raw))
        }
    }
}

/// The handler of connections.
///
/// # Safety
///
/// For `iw_cm` only, with an ID whose context is an [`Id`].
unsafe extern "C" fn on_event(
    id: *mut bindings::iw_cm_id,
    event: *mut bindings::iw_cm_event,
) -> c_int {
    // SAFETY: The ID and the event exist during the call. The context exists until it has destroyed
    // this ID, which waits for the handler.
    let (owner, raw) = unsafe { (super::id::of_context((*id).context), &*event) };
    owner.map_or(0, |owner| {
        crate::connect::iw_event(&owner, &Incoming { id, raw })
    })
}

/// The handler of listeners.
///
/// # Safety
///
/// For `iw_cm` only, with the ID of a request, whose context is that of the listener.
unsafe extern "C" fn on_request(
    id: *mut bindings::iw_cm_id,
    event: *mut bindings::iw_cm_event,
) -> c_int {
    // SAFETY: As in `on_event`; `iw_cm` keeps the listener's ID, and so its context, until the
    // handlers of its requests have returned.
    let (owner, raw) = unsafe { (super::id::of_context((*id).context), &*event) };
    owner.map_or(EINVAL.to_errno(), |owner| {
        crate::request::iw(&owner, &Incoming { id, raw })
    })
}

/// The null pointer for IDs that are not of `iw_cm`.
pub(crate) const fn none() -> *mut bindings::iw_cm_id {
    ptr::null_mut()
}
