// SPDX-License-Identifier: GPL-2.0

//! Datagrams of queries, and the address handle that they are sent with.
//!
//! While a datagram is posted, its `context[0]` has a reference to its query. The handler that is
//! told that it has ended takes the reference; that is once (`ib_post_send_mad` in
//! `include/rdma/ib_mad.h`).

use core::mem::forget;
use core::ptr;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
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
use crate::proto::sa::datagram::DATAGRAM;
use crate::proto::sa::query::Tries;
use crate::verbs;
use crate::verbs::object::Given;
use crate::verbs::object::Owned;
use crate::verbs::tables::Ah;

/// An agent that sends [`Buffer`]s, and nothing else. It keeps its port open.
///
/// # Invariants
///
/// Its handlers are [`on_sent`] and [`on_received`].
pub(in crate::sa) struct Registered(Arc<client::Agent>);

impl Registered {
    /// Registers one. May sleep.
    ///
    /// # Errors
    ///
    /// Those of registration.
    pub(in crate::sa) fn new(device: &Device, port: u32) -> Result<Self> {
        let handlers = Handlers {
            send: Some(on_sent),
            recv: Some(on_received),
        };
        // INVARIANT: Those.
        client::register(device, port, handlers).map(Self)
    }

    /// The agent.
    pub(in crate::sa) fn agent(&self) -> &Arc<client::Agent> {
        &self.0
    }
}

rdma::callback! {
    /// For a [`Registered`].
    fn on_sent(agent: Passed<bindings::ib_mad_agent>, ended: Ended) = query::sent;
    /// For a [`Registered`].
    fn on_received(
        agent: Passed<bindings::ib_mad_agent>, asked: Asked<'_>, answer: Received,
    ) = query::received;
}

/// An address handle of the domain of an agent's port. Dropping it destroys it, without sleeping.
pub(in crate::sa) struct AgentAh {
    /// Empty only while this is dropped.
    ah: Option<Owned<Ah>>,
    /// Keeps the port open, and with it the domain.
    _agent: Arc<client::Agent>,
}

// SAFETY: Address handles belong to no thread.
unsafe impl Send for AgentAh {}
// SAFETY: Nothing is changed through a shared reference.
unsafe impl Sync for AgentAh {}

impl AgentAh {
    /// Makes one. May sleep.
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
            // Whoever drops may not be allowed to sleep.
            let _: Result = verbs::destroy_ah(Given::of(ah), 0, None);
        }
    }
}

/// A datagram of a query, and the way that it takes. It keeps the agent registered.
///
/// # Invariants
///
/// The send is of a [`Registered`]. Its context is null, or has a reference to the [`Query`] that
/// this is part of; not null, if it is posted. Its address handle is that of `_manager`.
pub(in crate::sa) struct Buffer {
    // This goes before the send, which keeps the agent registered.
    _manager: Arc<Manager>,
    send: Arc<client::Send>,
}

impl Buffer {
    /// Allocates one of so many bytes of headers and data. The context is that of `gfp`.
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
        // SAFETY: The structure is there (promise of a reference); the field is an aligned word that
        // the consumer sets.
        // INVARIANT: The manager keeps the handle, and does not change.
        unsafe { Atomic::from_ptr(&raw mut (*send.buf().raw()).ah) }.store(ah.into_c(), Relaxed);
        // INVARIANT: The context of a new send is null.
        Ok(Self {
            _manager: manager,
            send,
        })
    }

    /// Writes the datagram, which is not sent yet, and says how often it is sent.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is sent.
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

    /// Cancels the datagram, if it is posted. Any context.
    pub(in crate::sa) fn cancel(&self) {
        client::cancel(&self.send);
    }

    /// Sends the datagram of a query. [`query::sent`] gets a reference to the query. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is posted already; those of the agent. Nobody gets a reference then.
    pub(in crate::sa) fn post(query: &Arc<Query>) -> Result {
        let send = &query.buffer.send;
        let context = context(send.buf());
        let reference = query.clone();
        let raw = Arc::as_ptr(&reference).cast_mut().cast();
        if context.cmpxchg(ptr::null_mut(), raw, Full).is_err() {
            return Err(EINVAL);
        }
        // INVARIANT: The reference is the context's.
        forget(reference);
        client::post(send).inspect_err(|_| drop(take(send.buf())))
    }
}

/// The context of a send: `context[0]`, which is its consumer's.
fn context(buf: &SendBuf) -> &Atomic<*mut c_void> {
    // SAFETY: The structure is there (promise of a reference). The field is an aligned word that
    // mad does not access, and that consumers in Rust access by this only.
    unsafe { Atomic::from_ptr(&raw mut (*buf.raw()).context[0]) }
}

/// Takes the reference to its query out of the context of a [`Buffer`]'s send.
fn take(buf: &SendBuf) -> Option<Arc<Query>> {
    let query = context(buf).xchg(ptr::null_mut(), Full);
    // SAFETY: The context has a reference, if it is not null (`Buffer`), and the exchange gives it
    // to one caller only.
    (!query.is_null()).then(|| unsafe { Arc::from_raw(query.cast::<Query>()) })
}

/// A datagram that has ended.
pub(in crate::sa) struct Ended {
    /// The query that it was of.
    pub(in crate::sa) query: Option<Arc<Query>>,
    /// `enum ib_wc_status`.
    pub(in crate::sa) status: u32,
}

// SAFETY: `from_c` is for what the handler of a `Registered` is told: its sends are of a `Buffer`.
unsafe impl FromC for Ended {
    type C = *mut bindings::ib_mad_send_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The structure is lent for the call. Its send has not been freed: the reference in
        // its context keeps the `Buffer`.
        let (buf, status) = unsafe { (SendBuf::view((*c).send_buf), (*c).status) };
        Self {
            query: take(buf),
            status,
        }
    }
}
// SAFETY: It owns what it refers to.
unsafe impl Within<'_> for Ended {}

/// The query that a message answers, if any.
pub(in crate::sa) struct Asked<'a>(pub(in crate::sa) Option<&'a Query>);

// SAFETY: `from_c` is for null, or the send that a message answers, of a `Registered`: that of a
// `Buffer`, which does not end during the call (`AgentPass::hand`).
unsafe impl FromC for Asked<'_> {
    type C = *mut bindings::ib_mad_send_buf;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Null, or such a send (contract of `from_c`). The reference in its context is taken
        // when it has ended, or if it could not be posted.
        Self(unsafe {
            Option::<&SendBuf>::from_c(c)
                .and_then(|buf| context(buf).load(Acquire).cast::<Query>().as_ref())
        })
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Asked<'a> {}
