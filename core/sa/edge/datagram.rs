// SPDX-License-Identifier: GPL-2.0

//! MADs of queries, and the address handle that they are sent with.
//!
//! While a MAD is posted, `context[0]` of its send owns a reference to its query. The send handler
//! takes the reference. It is called once for each post (`ib_post_send_mad` in
//! `include/rdma/ib_mad.h`).

use core::mem::forget;
use core::ptr;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::verbs::AhAttr;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;

use super::super::query;
use super::super::query::Query;
use super::super::sm_ah::Manager;
use crate::device::Device;
use crate::mad::client;
use crate::mad::client::Handlers;
use crate::mad::client::Received;
use crate::mad::client::SendBuf;
use crate::object::tables::Ah;
use crate::object::Given;
use crate::object::Owned;
use crate::proto::sa::datagram::DATAGRAM;
use crate::proto::sa::query::Tries;
use crate::verbs;

/// An agent that sends [`Buffer`]s only. It keeps its port open until it is dropped.
///
/// # Invariants
///
/// Its handlers are [`on_sent`] and [`on_received`].
pub(in crate::sa) struct Registered(Arc<client::Agent>);

impl Registered {
    /// Registers an agent. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the registration.
    pub(in crate::sa) fn new(device: &Device, port: u32) -> Result<Self> {
        // SAFETY: Both handlers are for agents that send `Buffer`s only, as this one does.
        let handlers = unsafe { Handlers::new(Some(on_sent), Some(on_received)) };
        // INVARIANT: These are the required handlers.
        client::register(device, port, handlers).map(Self)
    }

    /// The agent.
    pub(in crate::sa) fn agent(&self) -> &Arc<client::Agent> {
        &self.0
    }
}

rdma::callback! {
    /// Send handler of a [`Registered`].
    fn on_sent(agent: Passed<bindings::ib_mad_agent>, ended: Ended) = query::sent;
    /// Receive handler of a [`Registered`].
    fn on_received(
        agent: Passed<bindings::ib_mad_agent>, asked: Asked<'_>, answer: Received,
    ) = query::received;
}

/// An address handle in the protection domain of an agent's port. Dropping it destroys the handle;
/// the driver is told that it must not sleep.
pub(in crate::sa) struct AgentAh {
    /// `None` only while this is dropped.
    ah: Option<Owned<Ah>>,
    /// Keeps the port open, and with it the protection domain.
    _agent: Arc<client::Agent>,
}

// SAFETY: Address handles are not bound to a thread.
unsafe impl Send for AgentAh {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for AgentAh {}

impl AgentAh {
    /// Creates an address handle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `rdma_create_ah`.
    pub(in crate::sa) fn new(agent: &Registered, attr: &AhAttr) -> Result<Self> {
        let agent = agent.agent();
        let pd = client::pd(agent).ok_or(EINVAL)?;
        let flags = bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE;
        Ok(Self {
            ah: Some(verbs::create_ah(pd, attr, flags)?),
            _agent: agent.clone(),
        })
    }
}

impl Drop for AgentAh {
    fn drop(&mut self) {
        if let Some(ah) = self.ah.take() {
            // No `RDMA_DESTROY_AH_SLEEPABLE`: the last reference may be dropped in any context.
            let _: Result = verbs::destroy_ah(Given::of(ah), 0, None);
        }
    }
}

/// The MAD of a query, and the address handle that it is sent with. It keeps the agent registered.
///
/// # Invariants
///
/// - The send belongs to a [`Registered`]. Its address handle is that of `_manager`.
/// - Its context is null or owns a reference to the [`Query`] that this is part of. It is not null
///   while the send is posted.
pub(in crate::sa) struct Buffer {
    // Dropped before the send, which keeps the agent registered.
    _manager: Arc<Manager>,
    send: Arc<client::SendRequest>,
}

impl Buffer {
    /// Allocates a MAD; `lengths` are the sizes of headers and data in bytes. May sleep as `gfp`
    /// permits.
    ///
    /// # Errors
    ///
    /// Those of [`client::allocate`].
    pub(in crate::sa) fn new(
        agent: &Registered,
        manager: Arc<Manager>,
        lengths: (usize, usize),
        base_version: u8,
        gfp: bindings::gfp_t,
    ) -> Result<Self> {
        let at = manager.pkey_index;
        let send = client::allocate(agent.agent(), at, lengths, base_version, gfp)?;
        let ah = manager.ah().ah.as_deref();
        // INVARIANT: `manager` owns the handle, and does not change.
        send.buf().set_ah(ah.into_c());
        // INVARIANT: The context of a new send is null.
        Ok(Self {
            _manager: manager,
            send,
        })
    }

    /// Writes the MAD, its timeout and its number of retries. The MAD must not be posted.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is posted.
    pub(in crate::sa) fn write(
        &self,
        tries: Tries,
        write: impl FnOnce(&mut [u8; DATAGRAM]),
    ) -> Result {
        client::write(&self.send, |mad| {
            mad.first_chunk_mut().map(write).ok_or(EINVAL)
        })??;
        self.send.buf().set_timeout_ms(tries.timeout_ms);
        self.send.buf().set_retries(tries.retries);
        Ok(())
    }

    /// Cancels the send, if it is posted. Any context.
    pub(in crate::sa) fn cancel(&self) {
        client::cancel(&self.send);
    }

    /// Posts the MAD of a query. [`query::sent`] gets a reference to the query when the send has
    /// ended. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is posted already; those of the agent. [`query::sent`] is not called then.
    pub(in crate::sa) fn post(query: &Arc<Query>) -> Result {
        let send = &query.buffer.send;
        let context = send.buf().context();
        let reference = query.clone();
        let raw = Arc::as_ptr(&reference).cast_mut().cast();
        if context.cmpxchg(ptr::null_mut(), raw, Full).is_err() {
            return Err(EINVAL);
        }
        // INVARIANT: The context owns the reference.
        forget(reference);
        client::post(send).inspect_err(|_| drop(take(send.buf())))
    }
}

/// Takes the reference to its query from the context of a [`Buffer`]'s send.
fn take(buf: &SendBuf) -> Option<Arc<Query>> {
    let query = buf.context().xchg(ptr::null_mut(), Full);
    // SAFETY: The context owns a reference if it is not null (`Buffer`). The exchange hands it to
    // one caller only.
    (!query.is_null()).then(|| unsafe { Arc::from_raw(query.cast::<Query>()) })
}

/// A send that has ended.
pub(in crate::sa) struct Ended {
    /// Query of the send.
    pub(in crate::sa) query: Option<Arc<Query>>,
    /// `enum ib_wc_status`.
    pub(in crate::sa) status: u32,
}

// SAFETY: `from_c` is for the argument of the send handler of a `Registered`, whose sends belong to
// a `Buffer`.
unsafe impl FromC for Ended {
    type C = *mut bindings::ib_mad_send_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The structure is valid for the call (`ib_mad_send_handler` in `ib_mad.h`). The
        // send is not freed: the reference in its context keeps the `Buffer`.
        let (buf, status) = unsafe { (SendBuf::view((*c).send_buf), (*c).status) };
        Self {
            query: take(buf),
            status,
        }
    }
}
// SAFETY: It owns what it refers to.
unsafe impl Within<'_> for Ended {}

/// The query that a received MAD answers, if any.
pub(in crate::sa) struct Asked<'a>(pub(in crate::sa) Option<&'a Query>);

// SAFETY: `from_c` is for the argument of the receive handler of a `Registered`: null, or the send
// that is answered, which belongs to a `Buffer` and does not end during the call
// (`AgentPass::hand`).
unsafe impl FromC for Asked<'_> {
    type C = *mut bindings::ib_mad_send_buf;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Null or a send (contract of `from_c`). The reference in its context is not taken
        // before the send has ended.
        Self(unsafe {
            Option::<&SendBuf>::from_c(c)
                .and_then(|buf| buf.context().load(Acquire).cast::<Query>().as_ref())
        })
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a> Within<'a> for Asked<'a> {}
