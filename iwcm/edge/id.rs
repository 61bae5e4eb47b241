// SPDX-License-Identifier: GPL-2.0

//! IDs (`struct iw_cm_id`), events of providers, and the functions that C calls. Must match
//! `include/rdma/iw_cm.h`.
//!
//! An ID is in an `Arc`. Its consumer has one reference, from `iw_create_cm_id` until
//! `iw_destroy_cm_id`, or until its handler has returned an error. The provider takes and drops
//! references with `add_ref` and `rem_ref`. C has the address of the C structure, which is the first
//! field of [`Id`].

use super::Device;
use crate::event::Event;
use crate::id;
use crate::id::Id;
use crate::proto::addr::Address;
use crate::proto::addr::KEPT;
use crate::proto::addr::STORAGE;
use core::mem::offset_of;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::slice;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use rdma::bindings;
use rdma::edge::verbs::QpAttr;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::OfCall;
use rdma::edge::OutParam;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;

/// Handler of a consumer. Called with an ID, and an event that exists for the call.
pub(crate) type Handler =
    Option<unsafe extern "C" fn(*mut bindings::iw_cm_id, *mut bindings::iw_cm_event) -> c_int>;

rdma::c_struct! {
    /// The part of an ID that C knows.
    pub(crate) struct CmId: bindings::iw_cm_id;
    fields {
        /// Context of the consumer's handler. The handler for a request may change that of the new
        /// ID, before the work that calls it reads it again.
        const context: Passed<c_void>;
        /// The consumer's handler, as the context.
        const handler at cm_handler: Handler;
    }
}

// SAFETY: The fields above are constant, or written in the work that reads them. For the addresses
// see `Which`.
unsafe impl Send for CmId {}
// SAFETY: As for `Send`.
unsafe impl Sync for CmId {}

// The address of an ID is that of its C structure.
const _: () = assert!(offset_of!(Id, c) == 0);
const _: () = assert!(size_of::<bindings::__kernel_sockaddr_storage>() == STORAGE);

/// An address of an ID. The consumer writes the first two before it listens or connects. The others
/// are written by a call to listen or to connect, before it calls the provider, and by the work that
/// delivers the reply.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    /// Local address.
    Local,
    /// Remote address.
    Remote,
    /// Mapped local address, which the provider uses.
    MappedLocal,
    /// Mapped remote address, which the provider uses.
    MappedRemote,
}

impl CmId {
    /// Initialises an ID.
    pub(crate) fn new(
        device: Device,
        handler: Handler,
        context: Passed<c_void>,
    ) -> impl PinInit<Self> {
        let raw = bindings::iw_cm_id {
            cm_handler: handler,
            context: rdma::edge::IntoC::into_c(context),
            device: device.as_ptr(),
            event_handler: Some(event_handler),
            add_ref: Some(add_ref),
            rem_ref: Some(rem_ref),
            ..Default::default()
        };
        // SAFETY: The closure initialises the slot, which has the layout of the C structure.
        unsafe {
            pin_init::pin_init_from_closure(move |slot: *mut Self| {
                slot.cast::<bindings::iw_cm_id>().write(raw);
                Ok(())
            })
        }
    }

    fn place(&self, which: Which) -> *mut bindings::__kernel_sockaddr_storage {
        let raw = self.raw();
        // SAFETY: The structure is valid while it is borrowed.
        unsafe {
            match which {
                Which::Local => &raw mut (*raw).local_addr,
                Which::Remote => &raw mut (*raw).remote_addr,
                Which::MappedLocal => &raw mut (*raw).m_local_addr,
                Which::MappedRemote => &raw mut (*raw).m_remote_addr,
            }
        }
    }

    /// Returns an address.
    pub(crate) fn address(&self, which: Which) -> Address {
        // SAFETY: The field is valid, and has at least `KEPT` bytes (asserted above).
        Address::new(unsafe { self.place(which).cast::<[u8; KEPT]>().read_volatile() })
    }

    /// Sets an address.
    pub(crate) fn set_address(&self, which: Which, address: &Address) {
        // SAFETY: The field is valid, and has `STORAGE` bytes (asserted above).
        unsafe {
            self.place(which)
                .cast::<[u8; STORAGE]>()
                .write_volatile(address.storage());
        }
    }

    /// Marks the ID as one that the port mapper knows. For the calls that write the mapped
    /// addresses.
    pub(crate) fn mark_mapped(&self) {
        // SAFETY: The structure is valid while it is borrowed. The consumer writes the other bits
        // before it listens or connects.
        unsafe { (*self.raw()).set_mapped(true) };
    }

    /// Sets the provider's data of a new ID.
    pub(crate) fn set_provider_data(&self, data: ProviderData) {
        // SAFETY: The structure is valid while it is borrowed. The provider does not know the ID
        // yet.
        unsafe { (&raw mut (*self.raw()).provider_data).write(data.0) };
    }
}

/// Data of a provider, which it sends with a request and finds in the ID.
#[derive(Clone, Copy)]
pub(crate) struct ProviderData(*mut c_void);

// SAFETY: The pointer is not dereferenced, only passed back to the provider, which handles an ID in
// any task.
unsafe impl Send for ProviderData {}

rdma::c_struct! {
    /// An event of a provider. It exists for a call.
    pub(crate) struct CmEvent: bindings::iw_cm_event;
    fields {
        /// Type (`enum iw_cm_event_type`).
        cell kind at event: u32;
        /// 0 or a negative error code.
        cell status: c_int;
        /// Number of bytes of private data.
        cell private_data_len: u8;
        /// Outbound read depth.
        cell ord: u8;
        /// Inbound read depth.
        cell ird: u8;
    }
}

// SAFETY: The provider lends the event to its handler for a call; `Opaque` is not `Sync`.
unsafe impl OfCall for CmEvent {}

impl CmEvent {
    /// Local address.
    pub(crate) fn local(&self) -> Address {
        // SAFETY: The field is valid during the call, and has at least `KEPT` bytes.
        let bytes = unsafe {
            (&raw const (*self.raw()).local_addr)
                .cast::<[u8; KEPT]>()
                .read()
        };
        Address::new(bytes)
    }

    /// Remote address.
    pub(crate) fn remote(&self) -> Address {
        // SAFETY: The field is valid during the call, and has at least `KEPT` bytes.
        let bytes = unsafe {
            (&raw const (*self.raw()).remote_addr)
                .cast::<[u8; KEPT]>()
                .read()
        };
        Address::new(bytes)
    }

    /// Returns the provider's data.
    pub(crate) fn provider_data(&self) -> ProviderData {
        // SAFETY: The field is valid during the call.
        ProviderData(unsafe { (*self.raw()).provider_data })
    }

    /// Returns a copy of the private data. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if there is a length but no data.
    pub(crate) fn private_data(&self) -> Result<KVec<u8>> {
        let len = usize::from(self.private_data_len());
        if len == 0 {
            return Ok(KVec::new());
        }
        // SAFETY: The field is valid during the call.
        let data = NonNull::new(unsafe { (*self.raw()).private_data }).ok_or(EINVAL)?;
        // SAFETY: In a request or a reply, the data has that length, and does not change during the
        // call (`struct iw_cm_event`).
        let data = unsafe { slice::from_raw_parts(data.as_ptr().cast::<u8>(), len) };
        let mut copy = KVec::with_capacity(len, GFP_ATOMIC)?;
        copy.extend_from_slice(data, GFP_ATOMIC)?;
        Ok(copy)
    }
}

rdma::c_struct! {
    /// Parameters of a connection. They exist for a call.
    pub(crate) struct ConnParam: bindings::iw_cm_conn_param;
    fields {
        /// Number of the queue pair.
        cell qpn: u32;
    }
}

// SAFETY: The consumer lends the parameters for a call; `Opaque` is not `Sync`.
unsafe impl OfCall for ConnParam {}

/// Private data of a rejection, which only the provider reads.
#[derive(Clone, Copy)]
pub(crate) struct PrivateData(*const c_void);

impl PrivateData {
    /// None.
    pub(crate) const NONE: Self = Self(core::ptr::null());

    pub(super) fn as_ptr(self) -> *const c_void {
        self.0
    }
}

// SAFETY: The pointer is not dereferenced.
unsafe impl FromC for PrivateData {
    type C = *const c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: It contains no references. Safe code passes it on during the call only: it is not stored.
unsafe impl Within<'_> for PrivateData {}

/// An ID that the caller has a reference to during the call.
pub(crate) struct Held<'a>(ArcBorrow<'a, Id>);

rdma::argument! {
    /// An ID of `iw_create_cm_id`, to which the caller has a reference.
    impl<'a> Held<'a> = |c: &'a CmId| {
        // SAFETY: The C structure of an ID is its first field (asserted above), and the ID is in an
        // `Arc`, to which the caller has a reference (contract of this type).
        Held(unsafe { ArcBorrow::from_raw(c.raw().cast::<Id>()) })
    };
}

impl Held<'_> {
    /// Returns a reference of its own.
    pub(crate) fn own(&self) -> Arc<Id> {
        self.0.into()
    }
}

impl Deref for Held<'_> {
    type Target = Id;

    fn deref(&self) -> &Id {
        &self.0
    }
}

/// A reference of C that passes to the callee.
pub(crate) struct Given(pub(crate) Arc<Id>);

rdma::argument! {
    /// An ID of `iw_create_cm_id`; the caller gives a reference up.
    impl Given = |c: NonNull<bindings::iw_cm_id>| {
        // SAFETY: As for `Held`; the reference came from `Arc::into_raw`, in `Created`, `add_ref`
        // or `ConsumerRef::lend`.
        Given(unsafe { Arc::from_raw(c.as_ptr().cast::<Id>()) })
    };
}

/// A reference that passes to C.
pub(crate) struct Created(pub(crate) Arc<Id>);

impl AnswerOk for Created {
    type C = *mut bindings::iw_cm_id;

    fn ok(self) -> Self::C {
        Arc::into_raw(self.0).cast_mut().cast()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// The reference of a consumer whose handler has returned an error, so that it uses the ID no more.
///
/// # Invariants
///
/// `0` is an ID with a reference that came from `Arc::into_raw` and that belongs to this.
pub(crate) struct ConsumerRef(NonNull<Id>);

impl ConsumerRef {
    /// Gives the consumer a reference to the ID of a request, before its handler is called.
    pub(crate) fn lend(id: Arc<Id>) {
        let _: *const Id = Arc::into_raw(id);
    }

    /// Leaves the reference to the consumer: it destroys the ID itself.
    pub(crate) fn leave(self) {
        let _: ManuallyDrop<Self> = ManuallyDrop::new(self);
    }
}

impl Drop for ConsumerRef {
    fn drop(&mut self) {
        // SAFETY: The reference belongs to this (type invariant).
        drop(unsafe { Arc::from_raw(self.0.as_ptr()) });
    }
}

/// Calls the consumer's handler. If it refuses the event, returns its reference. May sleep.
///
/// The consumer must have its reference: it has not destroyed the ID, or waits for this work.
pub(crate) fn deliver(id: &Arc<Id>, event: &mut Event) -> Option<ConsumerRef> {
    let private = &mut event.private_data;
    let mut raw = bindings::iw_cm_event {
        event: event.kind.number(),
        status: event.status,
        local_addr: storage(&event.local),
        remote_addr: storage(&event.remote),
        private_data: match private.is_empty() {
            true => core::ptr::null_mut(),
            false => private.as_mut_ptr().cast(),
        },
        provider_data: event.provider_data.0,
        // CAST: Copied from an event with a length of one byte.
        private_data_len: private.len() as u8,
        ord: event.ord,
        ird: event.ird,
    };
    let handler = id.c.handler()?;
    // SAFETY: The ID exists, and the event and its data during the call. The consumer's handler is
    // called until its ID is destroyed, which waits for this work (`id.rs`).
    let answer = unsafe { handler(id.c.raw(), &mut raw) };
    // INVARIANT: An error passes the consumer's reference to us (`iw_cm_handler` in `iw_cm.h`).
    (answer != 0).then(|| ConsumerRef(NonNull::from(&**id)))
}

fn storage(address: &Address) -> bindings::__kernel_sockaddr_storage {
    // SAFETY: A structure of plain bytes, of the same size (asserted above).
    unsafe {
        core::mem::transmute_copy::<[u8; STORAGE], bindings::__kernel_sockaddr_storage>(
            &address.storage(),
        )
    }
}

rdma::callback! {
    /// Handler of the provider's events, in any context.
    fn event_handler(id: Held<'_>, event: &CmEvent) -> Result = id::event;
    /// Takes a reference for the provider, in any context.
    fn add_ref(id: Held<'_>) = referenced;
    /// Drops a reference of the provider, in any context.
    fn rem_ref(id: Given) = unreferenced;
}

fn referenced(id: Held<'_>) {
    let _: *const Id = Arc::into_raw(id.own());
}

fn unreferenced(id: Given) {
    drop(id);
}

rdma::export! {
    in rdma::bindings;

    /// See [`id::create`].
    fn iw_create_cm_id(device: Device, handler: Handler, context: Passed<c_void>)
        -> Result<Created> = id::create;
    /// See [`id::destroy`].
    fn iw_destroy_cm_id(id: Given) = id::destroy;
    /// See [`id::listen`].
    fn iw_cm_listen(id: Held<'_>, backlog: c_int) -> Result = id::listen;
    /// See [`id::accept`].
    fn iw_cm_accept(id: Held<'_>, param: &ConnParam) -> Result = id::accept;
    /// See [`id::reject`].
    fn iw_cm_reject(id: Held<'_>, data: PrivateData, len: u8) -> Result = id::reject;
    /// See [`id::connect`].
    fn iw_cm_connect(id: Held<'_>, param: &ConnParam) -> Result = id::connect;
    /// See [`id::disconnect`].
    fn iw_cm_disconnect(id: Held<'_>, abrupt: c_int) -> Result = id::disconnect;
    /// See [`id::init_qp_attr`].
    fn iw_cm_init_qp_attr(id: Held<'_>, attr: &QpAttr, mask: OutParam<'_, c_int>)
        -> Result = id::init_qp_attr;
    /// See [`id::reject_msg`].
    fn iwcm_reject_msg(reason: c_int) -> *const kernel::ffi::c_char = id::reject_msg;
}
