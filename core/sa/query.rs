// SPDX-License-Identifier: GPL-2.0

//! Queries: a datagram to a port's administrator, or before that a question to the local
//! service, and who is told of the answer.
//!
//! A query is in an `Arc`. The table has one reference, the datagram on its way another. Who
//! takes the query out of the table ([`state::take`]) completes it; the user is told once, by a
//! worker. The buffer goes with the last reference, so that cancelling a query that is
//! complete already finds memory that is there.

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

/// How long the administrator's answer of itself is awaited, in milliseconds.
const CLASS_TIMEOUT: u64 = 3_000;

/// A query.
pub(super) struct Query {
    ticket: u64,
    kind: Kind,
    user: UserSlot,
    /// Whether the user was told.
    told: Atomic<bool>,
    port: Arc<Port>,
    pub(super) buffer: Buffer,
}

/// What is asked.
pub(super) struct Question<R> {
    /// By what kind of datagram.
    pub(super) fabric: Fabric,
    /// What is done.
    pub(super) method: Method,
    /// Of what kind the record is.
    pub(super) attribute: Attribute,
    /// Which fields of it count.
    pub(super) mask: u64,
    /// The record.
    pub(super) record: R,
    /// How long is waited for an answer, in milliseconds.
    pub(super) timeout_ms: u64,
}

impl Query {
    /// Makes a query. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the port goes; `EAGAIN` if the administrator is not known; `ENOMEM`.
    pub(super) fn new<R: Record>(
        port: Arc<Port>,
        question: Question<R>,
        user: Option<User>,
        kind: Kind,
        gfp: bindings::gfp_t,
    ) -> Result<Arc<Self>> {
        let inside = port.gate.try_enter().ok_or(ENODEV)?;
        let manager = port.manager().filter(|manager| manager.is_there);
        let manager = manager.ok_or(EAGAIN)?;
        let buffer = port.agent().buffer(manager, question.fabric, gfp)?;
        drop(inside);

        let (ticket, transaction) = state::ticket()?;
        let transaction = u64::from(port.agent().transactions()) << 32 | u64::from(transaction);
        let header = Header::question(
            question.fabric,
            question.method,
            question.attribute,
            question.mask,
            transaction,
        );
        buffer.write(Tries::of(question.timeout_ms), |datagram| {
            datagram.fill(0);
            let (head, record) = datagram.split_at_mut(Header::LEN);
            header.pack(head);
            question.record.pack(record);
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

    /// Its number.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The port that it is of.
    pub(super) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Begins it. The user may have been told before this returns. Sleeps as `gfp` says.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the agent; then nobody is told.
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

    /// Sends the datagram. Any context.
    fn send(self: &Arc<Self>) -> Result {
        Buffer::post(self)?;
        if state::was_sent(self.ticket) {
            self.buffer.cancel();
        }
        Ok(())
    }

    /// Sends the datagram of a query that is in the table; if that fails, it is complete. In a
    /// worker.
    pub(super) fn send_or_complete(self: Arc<Self>, failed: Error) {
        if self.send().is_err() && state::take(self.ticket).is_some() {
            self.complete(Err(failed));
        }
    }

    /// Cancels the datagram. Any context.
    pub(super) fn cancel(&self) {
        self.buffer.cancel();
    }

    /// Tells the user, unless he has been told. May sleep.
    fn tell(&self, answer: Result<Answer<'_>>) {
        if !self.told.xchg(true, Full) {
            self.kind.tell(&self.port, answer);
        }
    }

    /// Tells the user, unless he has been told; he is not waited for any more. Once, by who took
    /// the query out of the table. May sleep.
    pub(super) fn complete(&self, answer: Result<Answer<'_>>) {
        self.tell(answer);
        self.user.release();
    }
}

/// The flags of an allocation of ours for those of a caller.
pub(super) fn flags(gfp: bindings::gfp_t) -> Flags {
    let has = |all: bindings::gfp_t| gfp & all == all;
    if has(bindings::GFP_KERNEL) {
        GFP_KERNEL
    } else if has(bindings::GFP_ATOMIC) {
        GFP_ATOMIC
    } else {
        // Some reclaim that the kernel crate has no name for: do without.
        GFP_NOWAIT
    }
}

/// Asks what the administrator can do; [`Port::class_is`] is told. May sleep.
///
/// # Errors
///
/// Those of a query.
pub(super) fn ask_class(port: &Arc<Port>) -> Result {
    let is_opa = Caps::of(port.device(), port.number()).is_opa();
    let question = Question {
        fabric: if is_opa { Fabric::Opa } else { Fabric::Ib },
        method: Method::Get,
        attribute: Attribute::ClassPortInfo,
        mask: 0,
        record: ClassPortInfo::default(),
        timeout_ms: CLASS_TIMEOUT,
    };
    let gfp = bindings::GFP_KERNEL;
    let query = Query::new(port.clone(), question, None, Kind::Class, gfp)?;
    query.start(gfp).map(|_: c_int| ())
}

/// A datagram was sent, or was not: its query is complete.
pub(super) fn sent(_agent: Passed<bindings::ib_mad_agent>, ended: Ended) {
    let Some(query) = ended.query else { return };
    let outcome = match ended.status {
        // The answer was received before.
        bindings::ib_wc_status_IB_WC_SUCCESS => EIO,
        bindings::ib_wc_status_IB_WC_RESP_TIMEOUT_ERR => ETIMEDOUT,
        bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR => EINTR,
        _ => EIO,
    };
    drop(state::take(query.ticket));
    query.complete(Err(outcome));
}

/// An answer was received.
pub(super) fn received(
    _agent: Passed<bindings::ib_mad_agent>,
    Asked(query): Asked<'_>,
    answer: Received,
) {
    if let Some(query) = query {
        query.tell(Answer::received(&answer));
    }
}

/// The pointer by which users know a query.
pub(super) fn handle(query: &Arc<Query>) -> *mut bindings::ib_sa_query {
    Arc::as_ptr(query).cast_mut().cast()
}

/// Cancels a query, if this is the number that goes with it: the user is told `EINTR`, if he
/// has not been told yet. Any context.
pub(super) fn cancel(id: c_int, query: *const bindings::ib_sa_query) {
    state::cancel(id, query.cast());
}

/// No handle.
pub(super) const NONE: *mut bindings::ib_sa_query = ptr::null_mut();
