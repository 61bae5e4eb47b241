// SPDX-License-Identifier: GPL-2.0

//! Requests: MADs that wait for a response, and may meanwhile be cancelled or given more time.
//!
//! [`Endpoint`] is an agent whose sends are known by a reference, [`Sent`], until they end:
//!
//! ```text
//!   Endpoint::send(Destination, bytes, data) -> Arc<Sent<data>> -- cancel(), extend()
//!                                                  |
//!   Requester::ended(Arc<Sent<data>>, How) <-------+   exactly once
//! ```
//!
//! Sends to the same destination share an address handle, which is kept for a while
//! ([`Endpoint::sweep`]).
//!
//! Context: all functions may sleep. Handlers run in work items of the port, one at a time, or in
//! the task that drops the endpoint.
//!
//! C header: `include/rdma/ib_mad.h`. Only exported functions are called.

use super::handles::Handle;
use super::handles::Handles;
use super::Mad;
use super::Received;
use super::Registered;
use super::Registration;
use super::Route;
use crate::bindings;
use crate::client::DeviceRef;
use crate::edge::mad::MadAgent;
use crate::edge::mad::SendBuf;
use crate::edge::FromC;
use crate::edge::Passed;
use crate::edge::View;
use crate::edge::Within;
use crate::module::Resident;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;

/// Bytes of a MAD.
pub const MAD: usize = size_of::<bindings::ib_mad>();
/// Bytes of its header, without RMPP.
const HEADER: c_int = bindings::IB_MGMT_MAD_HDR as c_int;
/// Bytes of its data, without RMPP.
const DATA: c_int = bindings::IB_MGMT_MAD_DATA as c_int;

const _: () = assert!(HEADER as usize + DATA as usize == MAD);

/// Handlers of an [`Endpoint`]. They may sleep, and may send.
pub trait Requester: Sized + Send + Sync + 'static {
    /// Value that a send carries.
    type Data: Send + Sync + 'static;

    /// Handles a received MAD.
    fn received(this: ArcBorrow<'_, Self>, mad: Received<'_>);

    /// Handles the end of a send.
    fn ended(this: ArcBorrow<'_, Self>, sent: Arc<Sent<Self::Data>>, how: How);
}

/// How a send ended.
#[derive(Clone, Copy)]
pub struct How {
    /// `enum ib_wc_status`.
    pub status: u32,
    /// Number of retransmissions.
    pub retries: u32,
}

/// A send, until it has ended and the last reference is dropped.
///
/// # Invariants
///
/// While `buf` is locked and not `None`, the send is posted, and the core has not called the send
/// handler for it, or the handler waits for the lock. So the buffer exists.
#[pin_data]
pub struct Sent<T> {
    #[pin]
    buf: Mutex<Option<Buf>>,
    data: T,
}

struct Buf {
    raw: NonNull<bindings::ib_mad_send_buf>,
    handle: Arc<Handle>,
    qpn: u32,
    pkey_index: u16,
}

// SAFETY: A send may be changed from any thread.
unsafe impl Send for Buf {}

impl<T> Sent<T> {
    /// Returns the value that the send carries.
    pub const fn data(&self) -> &T {
        &self.data
    }

    /// Ends the send without waiting for the response. [`Requester::ended`] is called later, not from
    /// within this function.
    pub fn cancel(&self) {
        self.modify(0);
    }

    /// Waits this long for a response from now on, in each repetition. Returns whether the send still
    /// waits.
    pub fn extend(&self, timeout_ms: u32) -> bool {
        self.modify(timeout_ms.max(1))
    }

    fn modify(&self, timeout_ms: u32) -> bool {
        let buf = self.buf.lock();
        let Some(Buf { raw, .. }) = &*buf else {
            return false;
        };
        // SAFETY: The buffer exists, because it is there and locked (type invariant).
        unsafe { bindings::ib_modify_mad(raw.as_ptr(), timeout_ms) == 0 }
    }
}

/// Destination of a send.
pub enum Destination<'a> {
    /// Along a route.
    Route(&'a Route),
    /// Back to the sender of a MAD.
    Reply(&'a Received<'a>),
}

/// Time to wait for a response, and repetitions.
#[derive(Clone, Copy, Default)]
pub struct Patience {
    /// Timeout in milliseconds; 0 if there is no response.
    pub timeout_ms: u32,
    /// Maximum number of retransmissions.
    pub retries: u32,
}

/// A registered agent whose sends are [`Sent`]. Drop waits until its handlers have returned and all
/// its sends have ended, so the caller must not hold a lock that a handler takes. Drop may sleep.
///
/// # Invariants
///
/// - Its handlers are [`on_ended`] and [`on_received`] of `U`. Only its own functions post its sends.
/// - Address handles are referred to by `handles` and by posted sends only, and within functions of
///   this type. So none is left when it is unregistered: `drop` clears the table, and sends end
///   before.
pub struct Endpoint<U: Requester> {
    registered: Registered<U>,
    handles: Pin<KBox<Handles>>,
}

impl<U: Requester> Drop for Endpoint<U> {
    fn drop(&mut self) {
        self.handles.clear();
    }
}

impl<U: Requester> Endpoint<U> {
    /// Registers an agent at a port. Its handlers may run before this function returns. `resident` is
    /// [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// As for [`Agent::register`](super::Agent::register).
    pub fn register(
        resident: Resident,
        device: &DeviceRef,
        port: u32,
        how: &Registration,
        user: Arc<U>,
    ) -> Result<Self> {
        let handles = Handles::new()?;
        // SAFETY: These handlers expect a `U`.
        let registered = unsafe {
            Registered::new(
                resident,
                device,
                port,
                how,
                (Some(on_ended::<U>), Some(on_received::<U>)),
                user,
            )
        }?;
        // INVARIANT: Registered with these handlers. Only functions of this type post sends.
        Ok(Self {
            registered,
            handles,
        })
    }

    /// Returns the upper half of the transaction IDs of its requests, by which responses are matched.
    pub fn hi_tid(&self) -> u32 {
        self.registered.hi_tid()
    }

    /// Drops address handles that were not used since the last call. Returns whether others are kept.
    pub fn sweep(&self) -> bool {
        self.handles.sweep()
    }

    /// Returns an address handle for a destination, and the index of the P_Key.
    fn handle(&self, to: &Destination<'_>) -> Result<(Arc<Handle>, u16)> {
        let agent = self.registered.raw.as_ptr();
        let sleepable = bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE;
        // SAFETY: The agent is registered (type invariant), so its device, its queue pair and the
        // protection domain exist. A route's vector and a received message exist while borrowed.
        // Handles are new, and dropped before the agent is unregistered (type invariant).
        unsafe {
            let pd = (*(*agent).qp).pd;
            match to {
                Destination::Route(route) => {
                    if !route.belongs_to((*agent).device) {
                        return Err(EINVAL);
                    }
                    let key = route.key();
                    if let Some(handle) = self.handles.get(&key) {
                        return Ok((handle, route.pkey_index()));
                    }
                    let handle = Handle::own(
                        route.for_mads(|attr| bindings::rdma_create_ah(pd, attr, sleepable)),
                    )?;
                    self.handles.keep(key, handle.clone());
                    Ok((handle, route.pkey_index()))
                }
                Destination::Reply(mad) => {
                    let handle = Handle::own(bindings::ib_create_ah_from_wc(
                        pd,
                        mad.wc().raw(),
                        (*mad.mad.0.as_ptr()).recv_buf.grh,
                        u32::from((*agent).port_num),
                    ))?;
                    Ok((handle, mad.wc().pkey_index()))
                }
            }
        }
    }

    /// Sends a MAD to the queue pair `qpn` of a destination. `write` writes it over zeros.
    /// [`Requester::ended`] is called from a work item, never from within this function, so the caller
    /// may hold a lock that it takes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a route of another device; `ENOMEM`; those of `write`, of the core or the driver.
    /// The handler is not called then.
    pub fn send(
        &self,
        to: &Destination<'_>,
        qpn: u32,
        write: impl FnOnce(&mut [u8; MAD]) -> Result,
        patience: Patience,
        data: U::Data,
    ) -> Result<Arc<Sent<U::Data>>> {
        self.post(self.handle(to)?, qpn, write, patience, data)
    }

    /// Sends the MAD of a send once more, if that has not ended. Nobody waits for an answer: that to the
    /// MAD is one to both. As [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// `ENOENT` if it has ended; `EINVAL` if it was sent by another endpoint; `ENOMEM`; those of the
    /// core or the driver.
    pub fn repeat(&self, sent: &Sent<U::Data>, data: U::Data) -> Result<Arc<Sent<U::Data>>> {
        let buf = sent.buf.lock();
        let Buf {
            raw,
            handle,
            qpn,
            pkey_index,
        } = buf.as_ref().ok_or(ENOENT)?;
        // SAFETY: The buffer exists while it is there and locked (invariant of `Sent`), so its agent
        // and its MAD do.
        let (agent, mad) = unsafe {
            let buf = SendBuf::view(raw.as_ptr());
            (buf.mad_agent().as_ptr(), buf.mad().as_ptr())
        };
        if agent != self.registered.raw.as_ptr() {
            return Err(EINVAL);
        }
        // SAFETY: `post` has allocated so many bytes, and written them; since it has posted them, they
        // are only read, by the core and the device.
        let mad = unsafe { *mad.cast::<[u8; MAD]>() };
        let (to, qpn) = ((handle.clone(), *pkey_index), *qpn);
        // Another send, whose lock is taken below.
        drop(buf);
        let write = |place: &mut [u8; MAD]| {
            *place = mad;
            Ok(())
        };
        self.post(to, qpn, write, Patience::default(), data)
    }

    /// See [`send`](Self::send).
    fn post(
        &self,
        (handle, index): (Arc<Handle>, u16),
        qpn: u32,
        write: impl FnOnce(&mut [u8; MAD]) -> Result,
        patience: Patience,
        data: U::Data,
    ) -> Result<Arc<Sent<U::Data>>> {
        // SAFETY: The agent is registered (type invariant).
        let raw = from_err_ptr(unsafe {
            bindings::ib_create_send_mad(
                self.registered.raw.as_ptr(),
                qpn,
                index,
                0,
                HEADER,
                DATA,
                bindings::GFP_KERNEL,
                // CAST: 1.
                bindings::IB_MGMT_BASE_VERSION as u8,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Created above, not posted.
        let unsent = Unsent(raw);
        // SAFETY: The buffer was created above, and is used by this function alone.
        let buf = unsafe { SendBuf::view(raw.as_ptr()) };
        // SAFETY: Without RMPP the core allocates header and data, `MAD` zeroed bytes (asserted above),
        // which are used by this function alone until the MAD is posted.
        write(unsafe { &mut *buf.mad().as_ptr().cast_mut().cast::<[u8; MAD]>() })?;
        let sent = Arc::pin_init(
            pin_init!(Sent {
                buf <- new_mutex!(None, "Sent::buf"),
                data,
            }),
            GFP_KERNEL,
        )?;
        buf.set_ah(handle.raw());
        // CAST: Numbers of the protocol, below 2^31; the core uses signed ones.
        buf.set_timeout_ms(patience.timeout_ms as c_int);
        // CAST: As above.
        buf.set_retries(patience.retries as c_int);
        let context = Arc::into_raw(sent.clone());
        buf.context().store(context.cast_mut().cast(), Relaxed);
        let mut known = sent.buf.lock();
        // SAFETY: The buffer is not posted, and complete. If the core accepts it, `Ended` takes back
        // buffer and context, and the address handle stays until then.
        let refused = unsafe { bindings::ib_post_send_mad(raw.as_ptr(), ptr::null_mut()) };
        if let Err(e) = to_result(refused) {
            drop(known);
            // SAFETY: From `into_raw` above; the core did not accept the send.
            drop(unsafe { Arc::from_raw(context) });
            return Err(e);
        }
        // INVARIANT: The send is posted; its handler waits for the lock.
        *known = Some(Buf {
            raw,
            handle,
            qpn,
            pkey_index: index,
        });
        drop(known);
        core::mem::forget(unsent);
        Ok(sent)
    }
}

/// A buffer that is not posted.
///
/// # Invariants
///
/// It is owned by this, and not posted.
struct Unsent(NonNull<bindings::ib_mad_send_buf>);

impl Drop for Unsent {
    fn drop(&mut self) {
        // SAFETY: Owned by this, and not posted (type invariant).
        unsafe { bindings::ib_free_send_mad(self.0.as_ptr()) };
    }
}

crate::callback! {
    /// The send handler of an [`Endpoint`].
    fn on_ended<U: Requester>(user: User<'_, U>, end: Ended<U>) = handle_end;
    /// The receive handler of an [`Endpoint`].
    fn on_received<U: Requester>(
        user: User<'_, U>, request: Passed<bindings::ib_mad_send_buf>, mad: Mad,
    ) = received;
}

fn handle_end<U: Requester>(user: User<'_, U>, end: Ended<U>) {
    U::ended(user.user, end.sent, end.how);
}

fn received<U: Requester>(
    user: User<'_, U>,
    _request: Passed<bindings::ib_mad_send_buf>,
    mad: Mad,
) {
    // INVARIANT: Both are arguments of one call of the handler.
    let mad = Received {
        mad,
        agent: user.agent,
    };
    if mad.wc().status() == bindings::ib_wc_status_IB_WC_SUCCESS {
        U::received(user.user, mad);
    }
}

/// The agent whose handler is called, and its user.
struct User<'a, U> {
    agent: &'a MadAgent,
    user: ArcBorrow<'a, U>,
}

// SAFETY: `from_c` is for the first argument of `on_ended` and `on_received`: the C structure of an
// `Endpoint<U>`, whose context is its user (type invariant). Both exist until the handler has
// returned.
unsafe impl<U: Requester> FromC for User<'_, U> {
    type C = *mut bindings::ib_mad_agent;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The agent is registered during the call, and its context is a `U` in an `Arc`
        // (`Endpoint`).
        unsafe {
            let agent = MadAgent::view(c);
            let user = ArcBorrow::from_raw(agent.context().as_ptr().cast::<U>());
            Self { agent, user }
        }
    }
}
// SAFETY: Both references have the lifetime `'a`.
unsafe impl<'a, U: Requester> Within<'a> for User<'a, U> {}

/// A send that has ended. Its buffer is freed.
struct Ended<U: Requester> {
    sent: Arc<Sent<U::Data>>,
    how: How,
}

// SAFETY: `from_c` is for the second argument of `on_ended`: a send of an `Endpoint<U>`, which
// functions of `Endpoint` posted (invariant of `Endpoint`), and which the core does not use any more.
unsafe impl<U: Requester> FromC for Ended<U> {
    type C = *mut bindings::ib_mad_send_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The completion is valid during the call, and the consumer owns the send again
        // (`ib_mad_send_handler` in `ib_mad.h`). `post` set the context, a reference. The status is
        // read before the buffer is freed, because the completion may be part of it. `buf` is
        // emptied first, so nobody uses the buffer any more (invariant of `Sent`).
        unsafe {
            let (status, raw) = ((*c).status, (*c).send_buf);
            let buf = SendBuf::view(raw);
            let sent = Arc::from_raw(
                buf.context()
                    .load(Relaxed)
                    .cast::<Sent<U::Data>>()
                    .cast_const(),
            );
            let known = sent.buf.lock().take();
            // CAST: Not negative.
            let retries = buf.retries() as u32;
            bindings::ib_free_send_mad(raw);
            // After the buffer, which may have its address.
            drop(known);
            Self {
                sent,
                how: How { status, retries },
            }
        }
    }
}
// SAFETY: It contains no references.
unsafe impl<U: Requester> Within<'_> for Ended<U> {}
