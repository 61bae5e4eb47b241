// SPDX-License-Identifier: GPL-2.0

//! An ID (`struct ib_cm_id`), field by field.
//!
//! The consumer writes `cm_handler` and `context` when it likes, mostly in its handler; the module
//! writes the others, to show them. Must match `include/rdma/ib_cm.h`.

use crate::conn::Conn;
use crate::proto::tables;
use crate::proto::tables::Listen;
use kernel::ffi::c_void;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;

rdma::c_struct! {
    /// An ID. It begins a [`Conn`].
    pub(crate) struct IbCmId: bindings::ib_cm_id;
    fields {
        /// The consumer's.
        racy context: *mut c_void, set_context;
        /// The device that it was created for.
        const device: Passed<bindings::ib_device>;
        /// Service ID, in network byte order.
        racy service_id: u64, set_service_id;
        /// `enum ib_cm_state`.
        racy state: u32, set_state;
        /// `enum ib_cm_lap_state`.
        racy lap_state: u32, set_lap_state;
        /// Number on this side, in network byte order.
        racy local_id: u32;
        /// Number on the peer's side, in network byte order; 0 if it is not known yet.
        racy remote_id: u32, set_remote_id;
        /// Queue pair of the peer that CM messages are sent to.
        racy remote_cm_qpn: u32;
    }
}

// SAFETY: Its fields are read and written by whole words.
unsafe impl Send for IbCmId {}
// SAFETY: Its fields are read and written by whole words.
unsafe impl Sync for IbCmId {}

/// A consumer's handler.
pub(crate) type Handler = bindings::ib_cm_handler;

impl IbCmId {
    /// An ID with a number, for a device.
    pub(crate) fn new(
        device: Passed<bindings::ib_device>,
        handler: Handler,
        context: *mut c_void,
        local_id: u32,
    ) -> Self {
        Self(Opaque::new(bindings::ib_cm_id {
            cm_handler: handler,
            context,
            device: device.into_c(),
            local_id: local_id.to_be(),
            remote_cm_qpn: 1,
            ..Default::default()
        }))
    }

    /// Returns the handler.
    pub(crate) fn handler(&self) -> Handler {
        // SAFETY: The ID exists; a pointer, which is read as one word.
        unsafe { (&raw const (*self.raw()).cm_handler).read_volatile() }
    }

    /// Returns whether a listener may be shared by consumers with this handler.
    pub(crate) fn may_share(&self, handler: Handler) -> bool {
        let address = |handler: Handler| handler.map(|it| it as *const () as usize);
        let has = (address(self.handler()), self.context().addr());
        tables::share(Some((&has.0, &has.1)), Some(&address(handler))) == Listen::Share
    }

    /// Takes over handler and context of a listener, before anybody else sees the ID.
    pub(crate) fn inherit(&self, listener: &Self) {
        // SAFETY: The ID exists; a pointer, which is written as one word.
        unsafe { (&raw mut (*self.raw()).cm_handler).write_volatile(listener.handler()) };
        self.set_context(listener.context());
    }
}

/// A consumer's context.
#[derive(Clone, Copy)]
pub(crate) struct Context(*mut c_void);

impl Context {
    /// None.
    pub(crate) const NONE: Self = Self(core::ptr::null_mut());

    /// Returns the address.
    pub(crate) const fn get(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: The pointer is not dereferenced.
unsafe impl FromC for Context {
    type C = *mut c_void;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: It contains no references.
unsafe impl Within<'_> for Context {}

/// An ID that a consumer passes: created by this module, and not yet destroyed.
#[derive(Clone, Copy)]
pub(crate) struct Id<'a>(&'a Conn);

impl Id<'_> {
    /// Takes a reference.
    pub(crate) fn share(self) -> Arc<Conn> {
        // SAFETY: All IDs are in an `Arc` (`give`), to which the consumer has a reference during the
        // call.
        unsafe { ArcBorrow::from_raw(core::ptr::from_ref(self.0)) }.into()
    }
}

// SAFETY: The contract of `from_c` is that of `give`: the consumer passes what it got, and has not
// destroyed it; the ID stays until the call returns, because the consumer keeps its reference.
unsafe impl FromC for Id<'_> {
    type C = *mut bindings::ib_cm_id;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A `Conn` is `repr(C)` and begins with the structure; see above.
        Self(unsafe { &*c.cast::<Conn>() })
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Id<'a> {}

/// The address of a device, as consumers pass it.
pub(crate) fn address(device: &DeviceRef) -> Passed<bindings::ib_device> {
    // SAFETY: The address is not dereferenced.
    unsafe { Passed::from_c(device.raw()) }
}

/// Gives a reference to the consumer, with the ID. A [`Given`] takes it back.
pub(crate) fn give(conn: Arc<Conn>) -> *mut bindings::ib_cm_id {
    Arc::into_raw(conn).cast_mut().cast()
}

/// The consumer's reference to an ID, which it gives up with the call.
pub(crate) struct Given(pub(crate) Arc<Conn>);

// SAFETY: The contract of `from_c` is that the consumer passes an ID that it got from `give`, for
// the last time.
unsafe impl FromC for Given {
    type C = *mut bindings::ib_cm_id;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: From `Arc::into_raw` in `give`; the reference passes to the callee.
        Self(unsafe { Arc::from_raw(c.cast::<Conn>().cast_const()) })
    }
}
// SAFETY: It contains no references.
unsafe impl Within<'_> for Given {}
