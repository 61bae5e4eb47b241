// SPDX-License-Identifier: GPL-2.0

//! Connections: identifiers of the RDMA connection manager (`rdma_cm`), for consumers in other
//! modules.
//!
//! ```text
//!   CmId::create(user) --bind, resolve, listen, connect--> calls of the user's handlers:
//!        |                                                   CmUser::event(CmEvent)
//!        |                                                   CmUser::request(Request) -> Answered
//!        +- drop, end_and_wait: destroys it                   take(user) -> a new CmId
//! ```
//!
//! | type | what |
//! |---|---|
//! | [`CmId`] | an owned identifier; what changes it takes `&mut`, so calls do not race |
//! | [`Locked`] | the identifier while none of its handlers runs |
//! | [`CmEvent`] | an event, during the handler; private data are slices |
//! | [`Request`] | a connection request, with the identifier that was made for it |
//!
//! Handlers of an identifier run one at a time, under its handler lock, and may sleep. Those of a listener
//! on a wildcard address are an exception: it listens by a hidden identifier for each device, and its
//! handlers run under the locks of these, so that several run at a time, and [`CmId::lock`] does not
//! keep them from running. An identifier may be dropped anywhere, also in its own handler: a work item
//! destroys it. [`CmId::end_and_wait`] waits for its handlers. For a request, the answer is whether somebody took
//! the new identifier ([`Answered`]).
//!
//! `kernel_user` has what only kernel consumers need: identifiers of a network namespace, queue pairs,
//! requests that are accepted at once. `event` has the events as an enum.
//!
//! Calls that need a device answer `EINVAL` for an identifier that is not bound to one: the C
//! module would follow a null pointer in some of them.
//!
//! C header: `include/rdma/rdma_cm.h`. Only exported functions are called, so the connection
//! manager may be the C one.

mod address;
mod context;
mod event;
mod kernel_user;
mod locked;

pub use self::address::SocketAddress;
pub use self::address::ADDRESS;
pub use self::address::IB;
use self::context::Context;
use self::context::Ended;
pub use self::event::What;
pub use self::locked::Locked;

use core::marker::PhantomData;
use core::mem;
use core::ptr;
use core::ptr::NonNull;

use crate::bindings;
use crate::edge::cm::Conn;
use crate::edge::cm::Event;
use crate::edge::cm::Id;
use crate::edge::cm::Ud;
use crate::edge::View;
use crate::module::Resident;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::NotThreadSafe;

/// Bytes of a record of a service.
pub const SERVICE: usize = size_of::<bindings::sa_service_rec>();
const _: () = assert!(SERVICE == size_of::<bindings::ib_user_service_rec>());

/// Handlers of identifiers.
pub trait CmUser: Sized + Send + Sync + 'static {
    /// Returns [`resident!()`](crate::resident): the handlers are the module's code.
    fn resident() -> Resident;

    /// What [`event`](Self::event) returns: [`After`], or `()` if identifiers stay after each event.
    type After: Outcome<Self>;

    /// Handles an event that is not a connection request.
    fn event(this: ArcBorrow<'_, Self>, event: &CmEvent<'_>) -> Self::After;

    /// Handles a connection request that the listener `this` has got. May run concurrently for a
    /// listener, and without its handler lock.
    fn request<'a>(
        this: ArcBorrow<'_, Self>,
        request: Request<'a, Self>,
        event: &CmEvent<'_>,
    ) -> Answered<'a>;
}

/// What becomes of an identifier after one of its events.
pub enum After<U: CmUser> {
    /// It stays.
    Keep,
    /// It is dropped. A work item destroys it and its queue pair, which must not wait for the end of a
    /// connection in a handler. Meanwhile further events may come.
    Destroy(CmId<U>),
}

/// What becomes of identifiers after their events.
pub trait Outcome<U: CmUser>: outcome::Sealed {
    /// Whether they may be dropped then. What that takes is allocated with each of them.
    const MAY_DESTROY: bool;

    /// Returns the identifier that is to be dropped.
    fn destroyed(self) -> Option<CmId<U>>;
}

impl<U: CmUser> Outcome<U> for () {
    const MAY_DESTROY: bool = false;

    fn destroyed(self) -> Option<CmId<U>> {
        None
    }
}

impl<U: CmUser> Outcome<U> for After<U> {
    const MAY_DESTROY: bool = true;

    fn destroyed(self) -> Option<CmId<U>> {
        match self {
            Self::Keep => None,
            Self::Destroy(id) => Some(id),
        }
    }
}

mod outcome {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<U: super::CmUser> Sealed for super::After<U> {}
}

/// Parameters of an event.
pub enum Params<'a> {
    /// Of a connection, with the peer's private data.
    Conn(&'a Conn, &'a [u8]),
    /// Of a datagram queue pair, with the peer's private data.
    Ud(&'a Ud, &'a [u8]),
}

/// An event, during the handler.
pub struct CmEvent<'a> {
    id: &'a Id,
    event: &'a Event,
}

impl CmEvent<'_> {
    /// Returns the type (`enum rdma_cm_event_type`).
    pub fn kind(&self) -> u32 {
        self.event.kind()
    }

    /// Returns 0, a negative errno, or the reason of a rejection.
    pub fn status(&self) -> i32 {
        self.event.status()
    }

    /// Returns vendor and attributes of the enhanced connection establishment.
    pub fn ece(&self) -> (u32, u32) {
        (self.event.vendor_id(), self.event.attr_mod())
    }

    /// Returns the parameters, which depend on the type of the identifier.
    pub fn params(&self) -> Params<'_> {
        // SAFETY: By the contract of the connection manager, the type of the identifier tells which
        // member of the union it has written.
        unsafe {
            if self.id.is_datagram() {
                Params::Ud(self.event.ud(), self.event.ud_private())
            } else {
                Params::Conn(self.event.conn(), self.event.conn_private())
            }
        }
    }

    /// Returns what [`CmId::join`] was called with, for an event about a multicast group.
    pub fn join(&self) -> Option<usize> {
        matches!(
            self.kind(),
            bindings::rdma_cm_event_type_RDMA_CM_EVENT_MULTICAST_JOIN
                | bindings::rdma_cm_event_type_RDMA_CM_EVENT_MULTICAST_ERROR
        )
        .then(|| self.event.join())
    }

    /// Returns the device, or null. It exists during the handler.
    pub fn device(&self) -> *mut bindings::ib_device {
        self.id.device()
    }
}

/// A connection request, with the identifier that was made for it. Without [`take`](Self::take), the
/// connection manager destroys it.
pub struct Request<'a, U: CmUser> {
    id: NonNull<bindings::rdma_cm_id>,
    _user: PhantomData<U>,
    _of_call: PhantomData<fn(&'a ()) -> &'a ()>,
}

/// The answer to the request of the call `'a`.
pub struct Answered<'a>(c_int, PhantomData<fn(&'a ()) -> &'a ()>);

/// A request that was not accepted.
pub struct NotAccepted<'a> {
    /// The answer that rejects.
    pub answered: Answered<'a>,
    /// The queue pair, if it was made before something has failed. Its drop waits for its handlers, so
    /// drop it when no lock is held that they take.
    pub qp: Option<Arc<dyn Send + Sync>>,
}

/// How a request is refused.
pub enum Refusal {
    /// The peer is told.
    Reject,
    /// The peer is not told, and may try again.
    Silent,
}

impl<'a, U: CmUser> Request<'a, U> {
    /// Takes the identifier. Its events go to `user`. A caller that may have to give it up again must
    /// use `accept`, or refuse the request: if the identifier is dropped, the peer is told only after
    /// this handler has returned.
    ///
    /// # Errors
    ///
    /// The answer that rejects, without memory. None, if identifiers of `U` stay after each event.
    pub fn take(self, user: Arc<U>) -> Result<(CmId<U>, Answered<'a>), Answered<'a>> {
        let Ok(context) = Context::new(user) else {
            return Err(self.refuse(Refusal::Reject));
        };
        // Until `handler` is over.
        context.begin();
        // SAFETY: The identifier exists during the handler, whose request this is.
        let id = unsafe { Id::view(self.id.as_ptr()) };
        id.set_context(context.place());
        // SAFETY: The handler returns 0 (`Answered`), so the identifier is ours, with the handler of
        // the listener, and the context that was just set. It is new.
        let taken = unsafe { CmId::own(self.id, context) };
        Ok((taken, Answered(0, PhantomData)))
    }

    /// Refuses the connection, with a reason (`enum ib_cm_rej_reason`, not on iWARP) and private data.
    /// If these are too long for the transport, the peer is told without them. May sleep.
    pub fn reject(self, private: &[u8], reason: u8) -> Answered<'a> {
        if let Ok(len) = u8::try_from(private.len()) {
            // SAFETY: The identifier exists during the handler, whose request this is, and has a
            // device. The private data are borrowed. If this fails, the handler's return value
            // rejects the request.
            let _: c_int = unsafe {
                bindings::rdma_reject(self.id.as_ptr(), private.as_ptr().cast(), len, reason)
            };
        }
        self.refuse(Refusal::Reject)
    }

    /// Refuses the connection.
    pub fn refuse(self, how: Refusal) -> Answered<'a> {
        let error = match how {
            Refusal::Reject => EINVAL,
            Refusal::Silent => ENOMEM,
        };
        Answered(error.to_errno(), PhantomData)
    }
}

/// An identifier. Drop has it destroyed by a work item, and does not wait: it may be dropped in its
/// handlers and under locks that they take. They may still run afterwards. [`end_and_wait`](Self::end_and_wait)
/// waits for them. Drop may sleep.
///
/// # Invariants
///
/// `raw` exists as long as `handle`, which owns it. It was made with [`handler`] of `U` as its handler,
/// and has the place of `context` as its context. Its queue pair is null or that of `qp`.
pub struct CmId<U: CmUser> {
    raw: NonNull<bindings::rdma_cm_id>,
    /// None when the identifier has ended. Ends before what follows, which the connection manager
    /// uses.
    handle: Option<Handle>,
    qp: Option<Arc<dyn Send + Sync>>,
    context: Context<U>,
    /// The handler is the module's code.
    _resident: Resident,
}

impl<U: CmUser> Drop for CmId<U> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.context.end_later(Ended {
                handle,
                qp: self.qp.take(),
                resident: U::resident(),
            });
        }
    }
}

/// An identifier, destroyed on drop.
///
/// # Invariants
///
/// This owns it.
struct Handle(NonNull<bindings::rdma_cm_id>);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: The identifier is owned by this (type invariant).
        unsafe { bindings::rdma_destroy_id(self.0.as_ptr()) };
    }
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl Send for Handle {}

// SAFETY: Identifiers may be used from any thread; the user is `Send` and `Sync`.
unsafe impl<U: CmUser> Send for CmId<U> {}
// SAFETY: As for `Send`: functions that take a shared reference may be called concurrently.
unsafe impl<U: CmUser> Sync for CmId<U> {}

/// Parameters of a connection that we make or accept.
#[derive(Default)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub struct ConnParam<'a> {
    pub private: &'a [u8],
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
    pub qkey: u32,
}

impl ConnParam<'_> {
    fn to_c(&self) -> Result<bindings::rdma_conn_param> {
        Ok(bindings::rdma_conn_param {
            private_data: self.private.as_ptr().cast(),
            private_data_len: u8::try_from(self.private.len())?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: self.srq,
            qp_num: self.qp_num,
            qkey: self.qkey,
        })
    }
}

/// Vendor and attributes of an enhanced connection establishment.
pub type Ece = (u32, u32);

fn ece((vendor_id, attr_mod): Ece) -> bindings::rdma_ucm_ece {
    bindings::rdma_ucm_ece {
        vendor_id,
        attr_mod,
    }
}

impl<U: CmUser> CmId<U> {
    /// Creates an identifier in the network namespace of the current task, for a program. May sleep.
    ///
    /// [`resolve_addr`](Self::resolve_addr) and [`resolve_route`](Self::resolve_route) may call its
    /// handler themselves, before they return: hold no lock there that `event` takes. Identifiers whose
    /// events may destroy them are not made so, as the caller of the call still uses the identifier.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn create_for_program(user: Arc<U>, space: u32, qp_type: u32) -> Result<Self>
    where
        U: CmUser<After = ()>,
    {
        let context = Context::new(user)?;
        // SAFETY: The context stays as long as the identifier (`CmId`); `handler` expects it.
        unsafe {
            let raw =
                bindings::rdma_create_user_id(Some(handler::<U>), context.place(), space, qp_type);
            Self::made(raw, context)
        }
    }

    /// Takes over an identifier, or the error of its creation.
    ///
    /// # Errors
    ///
    /// That one.
    ///
    /// # Safety
    ///
    /// As for [`own`](Self::own), unless `raw` is an error.
    unsafe fn made(raw: *mut bindings::rdma_cm_id, context: Context<U>) -> Result<Self> {
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // SAFETY: Contract of this function.
        Ok(unsafe { Self::own(raw, context) })
    }

    /// Takes over an identifier.
    ///
    /// # Safety
    ///
    /// Nobody else owns it. It has [`handler`] of `U` as its handler, the place of `context` as its
    /// context, and no queue pair.
    unsafe fn own(raw: NonNull<bindings::rdma_cm_id>, context: Context<U>) -> Self {
        // INVARIANT: Contract of this function.
        Self {
            raw,
            handle: Some(Handle(raw)),
            qp: None,
            context,
            _resident: U::resident(),
        }
    }

    /// Destroys it, waits for its handlers, and drops its queue pair. Hold no lock that handlers of
    /// either take. May sleep.
    ///
    /// # Errors
    ///
    /// `EDEADLK` in a handler of its own: then it is dropped. Identifiers of
    /// [`create_for_program`](Self::create_for_program) do not know that, and wait for ever; so may a
    /// listener on a wildcard address.
    pub fn end_and_wait(mut self) -> Result {
        self.context.may_wait()?;
        drop(self.handle.take());
        drop(self.qp.take());
        Ok(())
    }

    /// Gives up the identifier, which the connection manager destroys when its handler, which is
    /// running, has returned. Returns its queue pair.
    fn give_up(mut self) -> Option<Arc<dyn Send + Sync>> {
        // The module is kept by the listener, whose handler this is.
        mem::forget(self.handle.take());
        self.qp.take()
    }

    fn raw(&self) -> *mut bindings::rdma_cm_id {
        self.raw.as_ptr()
    }

    fn view(&self) -> &Id {
        // SAFETY: The identifier exists as long as this (type invariant).
        unsafe { Id::view(self.raw()) }
    }

    /// Returns whether it is bound to a device.
    pub fn has_device(&self) -> bool {
        !self.view().device().is_null()
    }

    fn with_device(&self) -> Result<*mut bindings::rdma_cm_id> {
        if self.has_device() {
            Ok(self.raw())
        } else {
            Err(EINVAL)
        }
    }

    /// Waits until none of its handlers runs, and keeps them from running. May sleep.
    ///
    /// # Errors
    ///
    /// `EDEADLK` in a handler of its own, which an identifier of
    /// [`create_for_program`](Self::create_for_program) does not know.
    pub fn lock(&self) -> Result<Locked<'_, U>> {
        self.context.may_wait()?;
        // SAFETY: The identifier exists (type invariant).
        unsafe { bindings::rdma_lock_handler(self.raw()) };
        // INVARIANT: Just locked.
        Ok(Locked {
            id: self,
            _not_send: NotThreadSafe,
        })
    }

    /// Binds it to an address. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_bind_addr`.
    pub fn bind(&mut self, mut address: SocketAddress) -> Result {
        // SAFETY: The identifier exists (type invariant); the address has the size of all families.
        to_result(unsafe { bindings::rdma_bind_addr(self.raw(), address.raw()) })
    }

    /// Resolves an address; an event follows. For an identifier of
    /// [`create_for_program`](Self::create_for_program), the handler may be called within the call, by
    /// the calling task; hold no lock that it takes. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_resolve_addr`.
    pub fn resolve_addr(
        &mut self,
        mut from: SocketAddress,
        mut to: SocketAddress,
        timeout_ms: u32,
    ) -> Result {
        // SAFETY: The identifier exists (type invariant); the addresses have the size of all
        // families.
        to_result(unsafe {
            bindings::rdma_resolve_addr(self.raw(), from.raw(), to.raw(), timeout_ms as c_ulong)
        })
    }

    /// Resolves a service of InfiniBand; an event follows. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_resolve_ib_service`.
    pub fn resolve_service(&mut self, mut service: bindings::rdma_ucm_ib_service) -> Result {
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_resolve_ib_service(self.raw(), &mut service) })
    }

    /// Resolves the route; an event follows, for an identifier of a program maybe within the call, as
    /// for [`resolve_addr`](Self::resolve_addr). May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_resolve_route`.
    pub fn resolve_route(&mut self, timeout_ms: u32) -> Result {
        let raw = self.with_device()?;
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_resolve_route(raw, timeout_ms as c_ulong) })
    }

    /// Sets the path that the subnet administrator would resolve, as it sends it. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_set_ib_path`.
    pub fn set_path(&mut self, mut record: [u8; 64]) -> Result {
        let raw = self.with_device()?;
        // SAFETY: The identifier exists (type invariant) and has a device, which stays: only calls
        // that take `&mut self` release it. A record has so many bytes.
        to_result(unsafe { bindings::rdma_helper_cm_set_path(raw, record.as_mut_ptr()) })
    }

    /// Listens for connection requests. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_listen`.
    pub fn listen(&mut self, backlog: u32) -> Result {
        let backlog = c_int::try_from(backlog)?;
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_listen(self.raw(), backlog) })
    }

    /// Connects. May sleep.
    ///
    /// # Errors
    ///
    /// `EDEADLK` as for [`lock`](Self::lock); `EINVAL` without a device; those of `rdma_connect_ece`.
    pub fn connect(&mut self, param: &ConnParam<'_>, extra: Ece) -> Result {
        self.context.may_wait()?;
        let (raw, mut param, mut extra) = (self.with_device()?, param.to_c()?, ece(extra));
        // SAFETY: The identifier exists (type invariant); the private data are borrowed.
        to_result(unsafe { bindings::rdma_connect_ece(raw, &mut param, &mut extra) })
    }

    /// Rejects a connection request. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_reject`.
    pub fn reject(&mut self, private: &[u8], reason: u8) -> Result {
        let (raw, len) = (self.with_device()?, u8::try_from(private.len())?);
        // SAFETY: The identifier exists (type invariant); the private data are borrowed.
        to_result(unsafe { bindings::rdma_reject(raw, private.as_ptr().cast(), len, reason) })
    }

    /// Disconnects. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_disconnect`.
    pub fn disconnect(&mut self) -> Result {
        let raw = self.with_device()?;
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_disconnect(raw) })
    }

    /// Passes an event of the queue pair (`enum ib_event_type`). May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_notify`.
    pub fn notify(&mut self, event: u32) -> Result {
        let raw = self.with_device()?;
        // SAFETY: The identifier exists (type invariant); the function checks the event.
        to_result(unsafe { bindings::rdma_notify(raw, event) })
    }

    /// Joins a multicast group; an event with the `cookie` follows. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device, or with a queue pair of [`create_qp`](Self::create_qp), which is for
    /// connections; those of `rdma_join_multicast`.
    pub fn join(&mut self, mut group: SocketAddress, state: u8, cookie: usize) -> Result {
        let raw = self.with_device()?;
        if self.qp.is_some() {
            return Err(EINVAL);
        }
        // SAFETY: The identifier exists (type invariant). The context of a join comes back in
        // events, and is a number for us.
        to_result(unsafe {
            bindings::rdma_join_multicast(
                raw,
                group.raw(),
                state,
                ptr::without_provenance_mut(cookie),
            )
        })
    }

    /// Leaves a multicast group that was joined: the newest join of the address. May sleep.
    pub fn leave(&mut self, mut group: SocketAddress) {
        // SAFETY: The identifier exists (type invariant).
        unsafe { bindings::rdma_leave_multicast(self.raw(), group.raw()) };
    }

    /// Sets the type of service.
    pub fn set_service_type(&mut self, tos: u8) {
        // SAFETY: The identifier exists (type invariant).
        unsafe { bindings::rdma_set_service_type(self.raw(), tos.into()) };
    }

    /// Sets whether others may have the same address.
    ///
    /// # Errors
    ///
    /// Those of `rdma_set_reuseaddr`.
    pub fn set_reuseaddr(&mut self, reuse: bool) -> Result {
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_set_reuseaddr(self.raw(), reuse.into()) })
    }

    /// Sets whether an IPv6 address is not for IPv4, too.
    ///
    /// # Errors
    ///
    /// Those of `rdma_set_afonly`.
    pub fn set_afonly(&mut self, only: bool) -> Result {
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_set_afonly(self.raw(), only.into()) })
    }

    /// Sets the acknowledgement timeout, an exponent.
    ///
    /// # Errors
    ///
    /// Those of `rdma_set_ack_timeout`.
    pub fn set_ack_timeout(&mut self, timeout: u8) -> Result {
        // SAFETY: The identifier exists (type invariant).
        to_result(unsafe { bindings::rdma_set_ack_timeout(self.raw(), timeout) })
    }

    /// Returns the attributes that bring the queue pair of the connection into a state, and their
    /// mask. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of `rdma_init_qp_attr`.
    pub fn qp_attr(&mut self, state: u32, attr: &mut bindings::ib_qp_attr) -> Result<u32> {
        let raw = self.with_device()?;
        attr.qp_state = state;
        let mut mask = 0;
        // SAFETY: The identifier exists (type invariant) and has a device, which stays: only calls
        // that take `&mut self` release it.
        to_result(unsafe { bindings::rdma_init_qp_attr(raw, attr, &mut mask) })?;
        // CAST: A mask.
        Ok(mask as u32)
    }

    /// Accepts a connection request.
    ///
    /// # Errors
    ///
    /// As for [`Locked::accept`].
    ///
    /// # Safety
    ///
    /// The handler lock is held by this thread.
    unsafe fn accept(&self, param: Option<&ConnParam<'_>>, extra: Ece) -> Result {
        let (raw, mut extra) = (self.with_device()?, ece(extra));
        let mut param = param.map(ConnParam::to_c).transpose()?;
        let place = param.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: The identifier exists (type invariant), and its handler lock is held (contract of
        // this function). The private data are borrowed.
        to_result(unsafe { bindings::rdma_accept_ece(raw, place, &mut extra) })
    }

    /// Returns the device, or null. It stays as long as `self` is borrowed, if it is there.
    pub fn device(&mut self) -> *mut bindings::ib_device {
        self.view().device()
    }
}

/// What an identifier knows of its ends.
pub type Route = bindings::rdma_helper_cm_route;

/// How the port of an identifier routes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// By a subnet administrator.
    Ib,
    /// RoCE.
    Roce,
    /// iWARP.
    Iwarp,
    /// Not known.
    Other,
}

/// Returns how the port of an identifier routes.
pub fn link(route: &Route) -> Link {
    match u32::from(route.link) {
        bindings::RDMA_HELPER_CM_IB => Link::Ib,
        bindings::RDMA_HELPER_CM_ROCE => Link::Roce,
        bindings::RDMA_HELPER_CM_IWARP => Link::Iwarp,
        _ => Link::Other,
    }
}

/// The handler of identifiers with the user `U`.
///
/// # Safety
///
/// For the connection manager only, with an identifier of `U` and an event of it. For a connection
/// request, the identifier is new, and its context that of the listener.
unsafe extern "C" fn handler<U: CmUser>(
    raw: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    let Some(place) = NonNull::new(raw) else {
        return 0;
    };
    // SAFETY: Both exist during the call (contract of this function).
    let (id, event) = unsafe { (Id::view(raw), Event::view(event)) };
    // SAFETY: The context is that of the owner of the identifier, or of the listener, which keeps it until
    // its handlers have returned (invariant of `CmId`).
    let (user, shared) = unsafe { context::of::<U>(id.context()) };
    if let Some(shared) = shared {
        shared.begin();
    }
    let told = CmEvent { id, event };
    if told.kind() == bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
        let request = Request {
            id: place,
            _user: PhantomData,
            _of_call: PhantomData,
        };
        let Answered(answer, _) = U::request(user, request, &told);
        if answer == 0 {
            // SAFETY: Someone has taken the identifier (`Answered`), and so has set its context. It is
            // destroyed, if at all, when this handler has returned, and its context is kept until then.
            if let (_, Some(taken)) = unsafe { context::of::<U>(id.context()) } {
                taken.over();
            }
        }
        if let Some(shared) = shared {
            shared.over();
        }
        return answer;
    }
    drop(U::event(user, &told).destroyed());
    if let Some(shared) = shared {
        shared.over();
    }
    0
}
