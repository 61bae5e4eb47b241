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
use crate::proto::addr::Address;
use crate::proto::event::IwEvent;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::client::DeviceRef;

/// An ID of `iw_cm`.
///
/// # Invariants
///
/// The ID exists, unless `given_up`: then `iw_cm` destroys it.
pub(crate) struct IwId {
    raw: NonNull<bindings::iw_cm_id>,
    given_up: Atomic<u32>,
}

// SAFETY: IDs may be used from any thread.
unsafe impl Send for IwId {}
// SAFETY: As for `Send`: IDs have their own locks.
unsafe impl Sync for IwId {}

impl Drop for IwId {
    fn drop(&mut self) {
        if self.given_up.load(Relaxed) == 0 {
            // SAFETY: The ID exists (type invariant). Waits for its handler; so it is not dropped
            // by that, which gives it up.
            unsafe { bindings::iw_destroy_cm_id(self.raw.as_ptr()) };
        }
    }
}

impl IwId {
    fn create(
        device: &DeviceRef,
        id: &Arc<Id>,
        handler: bindings::iw_cm_handler,
    ) -> Result<Arc<Self>> {
        let (source, destination) = id.addrs();
        let (tos, afonly) = id.with(|inner| (inner.options.tos, inner.afonly));
        // SAFETY: The device exists. The context exists until it has destroyed this ID. The ID is
        // new, so nobody else accesses its fields.
        unsafe {
            let raw = from_err_ptr(bindings::iw_create_cm_id(
                device.raw(),
                handler,
                super::id::context(id),
            ))?;
            let raw = NonNull::new(raw).ok_or(ENOMEM)?;
            // INVARIANT: The ID is new. If there is no memory, the drop destroys it.
            let this = Arc::new(
                Self {
                    raw,
                    given_up: Atomic::new(0),
                },
                GFP_KERNEL,
            )?;
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
            Ok(this)
        }
    }

    /// Creates an ID for a connection.
    pub(crate) fn connection(device: &DeviceRef, id: &Arc<Id>) -> Result<Arc<Self>> {
        Self::create(device, id, Some(on_event))
    }

    /// Listens for requests.
    pub(crate) fn listen(device: &DeviceRef, id: &Arc<Id>, backlog: c_int) -> Result<Arc<Self>> {
        let this = Self::create(device, id, Some(on_request))?;
        // SAFETY: The ID exists (type invariant).
        to_result(unsafe { bindings::iw_cm_listen(this.raw.as_ptr(), backlog) })?;
        Ok(this)
    }

    /// Returns the C structure.
    pub(crate) fn as_raw(&self) -> *mut bindings::iw_cm_id {
        self.raw.as_ptr()
    }

    /// `iw_cm` destroys the ID, because its handler does not return 0.
    pub(crate) fn give_up(&self) {
        self.given_up.store(1, Relaxed);
    }

    /// The attributes of a queue pair.
    pub(super) fn init_qp_attr(&self, attr: &mut bindings::ib_qp_attr, mask: &mut c_int) -> Result {
        // SAFETY: The ID exists (type invariant).
        to_result(unsafe { bindings::iw_cm_init_qp_attr(self.raw.as_ptr(), attr, mask) })
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
        // SAFETY: The ID exists (type invariant); the data outlives the call.
        to_result(unsafe { bindings::iw_cm_connect(self.raw.as_ptr(), &mut param) })
    }

    /// Accepts a request.
    pub(crate) fn accept(&self, id: &Id, conn: &Conn<'_>) -> Result {
        let mut param = Self::param(id, conn);
        // SAFETY: The ID exists (type invariant); the data outlives the call.
        to_result(unsafe { bindings::iw_cm_accept(self.raw.as_ptr(), &mut param) })
    }

    /// Refuses a request.
    pub(crate) fn reject(&self, data: Data<'_>) -> Result {
        // SAFETY: The ID exists (type invariant); the data outlives the call.
        to_result(unsafe { bindings::iw_cm_reject(self.raw.as_ptr(), data.as_ptr(), data.len()) })
    }

    /// Disconnects.
    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: The ID exists (type invariant).
        to_result(unsafe { bindings::iw_cm_disconnect(self.raw.as_ptr(), 0) })
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
    pub(crate) fn adopt(&self, id: &Arc<Id>) -> Result<Arc<IwId>> {
        let raw = NonNull::new(self.id).ok_or(EINVAL)?;
        // Given up if there is no memory for this.
        let this = Arc::new(
            IwId {
                raw,
                given_up: Atomic::new(1),
            },
            GFP_KERNEL,
        )?;
        // INVARIANT: `iw_cm` leaves the ID to us if the handler returns 0; else it is given up.
        this.given_up.store(0, Relaxed);
        // SAFETY: The ID exists, and calls its handler only after this one has returned. The
        // context exists until it has destroyed the ID, or the ID is given up.
        unsafe {
            (*self.id).context = super::id::context(id);
            (*self.id).cm_handler = Some(on_event);
        }
        Ok(this)
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
