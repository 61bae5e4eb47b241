// SPDX-License-Identifier: GPL-2.0

//! Queries: a MAD to a port's SA, possibly after a request to the local service, and the user that
//! gets the response.
//!
//! A query is in an `Arc`. The table holds one reference, the posted MAD another. Whoever removes
//! the query from the table ([`state::take`]) completes it; a worker calls the user once. The
//! buffer is freed with the last reference, so cancelling a query that completes at the same time
//! does not touch freed memory.

use core::ptr;
use kernel::alloc::Flags;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::Passed;

use super::answer::Answer;
use super::answer::Kind;
use super::edge::datagram::Asked;
use super::edge::datagram::Buffer;
use super::edge::datagram::Ended;
use super::edge::user::User;
use super::edge::user::UserSlot;
use super::netlink;
use super::port::Port;
use super::state;
use crate::device::Caps;
use crate::mad::client::Received;
use crate::proto::sa::datagram::Attribute;
use crate::proto::sa::datagram::Fabric;
use crate::proto::sa::datagram::Header;
use crate::proto::sa::datagram::Method;
use crate::proto::sa::local;
use crate::proto::sa::query::Tries;
use crate::proto::sa::record::ClassPortInfo;
use crate::proto::sa::wire::Record;

/// Timeout of the ClassPortInfo query, in milliseconds.
const CLASS_TIMEOUT: u64 = 3_000;

/// A query.
pub(super) struct Query {
    ticket: u64,
    kind: Kind,
    user: UserSlot,
    /// Whether the user has been called.
    told: Atomic<bool>,
    port: Arc<Port>,
    pub(super) buffer: Buffer,
}

/// Content of a query.
pub(super) struct QueryAttr<R> {
    /// Format of the MAD.
    pub(super) fabric: Fabric,
    /// Method of the MAD.
    pub(super) method: Method,
    /// Attribute, the type of the record.
    pub(super) attribute: Attribute,
    /// Component mask: which fields of the record are significant.
    pub(super) mask: u64,
    /// The record.
    pub(super) record: R,
    /// Timeout in milliseconds.
    pub(super) timeout_ms: u64,
}

impl Query {
    /// Creates a query. May sleep as `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the port is being removed; `EAGAIN` if the SA is not known; `ENOMEM`.
    pub(super) fn new<R: Record>(
        port: Arc<Port>,
        attr: QueryAttr<R>,
        user: Option<User>,
        kind: Kind,
        gfp: bindings::gfp_t,
    ) -> Result<Arc<Self>> {
        let inside = port.gate.try_enter().ok_or(ENODEV)?;
        let manager = port.manager().filter(|manager| manager.is_there);
        let manager = manager.ok_or(EAGAIN)?;
        let buffer = port.agent().buffer(manager, attr.fabric, gfp)?;
        drop(inside);

        let (ticket, transaction) = state::ticket()?;
        let transaction = u64::from(port.agent().transactions()) << 32 | u64::from(transaction);
        let header = Header::of_query(
            attr.fabric,
            attr.method,
            attr.attribute,
            attr.mask,
            transaction,
        );
        buffer.write(Tries::of(attr.timeout_ms), |datagram| {
            datagram.fill(0);
            let (head, record) = datagram.split_at_mut(Header::LEN);
            header.pack(head);
            attr.record.pack(record);
        })?;
        Ok(Arc::new(
            Self {
                ticket,
                kind,
                user: UserSlot::new(user),
                told: Atomic::new(false),
                port,
                buffer,
            },
            flags(gfp),
        )?)
    }

    /// Number of the query.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Port that the query is sent from.
    pub(super) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Starts the query. The user may be called before this returns. May sleep as `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the agent; the user is not called then.
    pub(super) fn start(self: Arc<Self>, gfp: bindings::gfp_t) -> Result<c_int> {
        let id = state::id(self.ticket);
        let ask = self
            .kind
            .for_local_service()
            .filter(|(_, mask)| local::can_ask(*mask) && netlink::somebody_listens());
        state::enter(&self, ask.is_some(), flags(gfp))?;
        if let Some((path, mask)) = ask {
            let asked = netlink::ask(&self, &path, mask, gfp);
            if asked.is_ok() || !state::was_not_asked(self.ticket) {
                return Ok(id);
            }
        }
        let sent = self.send();
        if sent.is_err() {
            drop(state::take(self.ticket));
        }
        sent.map(|()| id)
    }

    /// Posts the MAD. Any context.
    fn send(self: &Arc<Self>) -> Result {
        Buffer::post(self)?;
        if state::was_sent(self.ticket) {
            self.buffer.cancel();
        }
        Ok(())
    }

    /// Posts the MAD of a query in the table; on failure, completes the query with `failed`. Called
    /// by a worker.
    pub(super) fn send_or_complete(self: Arc<Self>, failed: Error) {
        if self.send().is_err() && state::take(self.ticket).is_some() {
            self.complete(Err(failed));
        }
    }

    /// Cancels the MAD. Any context.
    pub(super) fn cancel(&self) {
        self.buffer.cancel();
    }

    /// Calls the user, unless it has been called. May sleep.
    fn tell(&self, answer: Result<Answer<'_>>) {
        if !self.told.xchg(true, Full) {
            self.kind.tell(&self.port, answer);
        }
    }

    /// Calls the user, unless it has been called, and releases the use of the client. Called once,
    /// by whoever removed the query from the table. May sleep.
    pub(super) fn complete(&self, answer: Result<Answer<'_>>) {
        self.tell(answer);
        self.user.release();
    }
}

/// Maps a caller's `gfp_t` to allocation flags of the kernel crate.
pub(super) fn flags(gfp: bindings::gfp_t) -> Flags {
    let has = |all: bindings::gfp_t| gfp & all == all;
    if has(bindings::GFP_KERNEL) {
        GFP_KERNEL
    } else if has(bindings::GFP_ATOMIC) {
        GFP_ATOMIC
    } else {
        // The kernel crate has no name for other combinations of reclaim flags: do not reclaim.
        GFP_NOWAIT
    }
}

/// Queries the capabilities of the SA; [`Port::class_is`] gets the result. May sleep.
///
/// # Errors
///
/// Those of a query.
pub(super) fn ask_class(port: &Arc<Port>) -> Result {
    let is_opa = Caps::of(port.device(), port.number()).is_opa();
    let attr = QueryAttr {
        fabric: if is_opa { Fabric::Opa } else { Fabric::Ib },
        method: Method::Get,
        attribute: Attribute::ClassPortInfo,
        mask: 0,
        record: ClassPortInfo::default(),
        timeout_ms: CLASS_TIMEOUT,
    };
    let gfp = bindings::GFP_KERNEL;
    let query = Query::new(port.clone(), attr, None, Kind::Class, gfp)?;
    query.start(gfp).map(|_: c_int| ())
}

/// Send handler: completes the query of a send that has ended.
pub(super) fn sent(_agent: Passed<bindings::ib_mad_agent>, ended: Ended) {
    let Some(query) = ended.query else { return };
    let outcome = match ended.status {
        // The response was received before and has been delivered.
        bindings::ib_wc_status_IB_WC_SUCCESS => EIO,
        bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR => ETIMEDOUT,
        bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR => EINTR,
        _ => EIO,
    };
    drop(state::take(query.ticket));
    query.complete(Err(outcome));
}

/// Receive handler: delivers a response.
pub(super) fn received(
    _agent: Passed<bindings::ib_mad_agent>,
    Asked(query): Asked<'_>,
    answer: Received,
) {
    if let Some(query) = query {
        query.tell(Answer::received(&answer));
    }
}

/// Handle by which users know a query.
pub(super) fn handle(query: &Arc<Query>) -> *mut bindings::ib_sa_query {
    Arc::as_ptr(query).cast_mut().cast()
}

/// Cancels a query if `id` and `query` match; the user is called with `EINTR`, unless it has been
/// called. Any context.
pub(super) fn cancel(id: c_int, query: *const bindings::ib_sa_query) {
    state::cancel(id, query.cast());
}

/// Null handle.
pub(super) const NONE: *mut bindings::ib_sa_query = ptr::null_mut();
