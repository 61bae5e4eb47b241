// SPDX-License-Identifier: GPL-2.0

//! Transfers of many MADs (RMPP), for agents that leave them to the core: the host side of
//! [`crate::proto::mad::rmpp`].
//!
//! An incoming transfer is in its agent's list from its first segment on: until it times out, or
//! for some time after the last segment, in which retransmissions are acknowledged. Its work ends
//! it. The sends of an outgoing transfer are those of `transact`.

use super::agent::window;
use super::agent::Agent;
use super::agent::Inner;
use super::edge::agent::Handle;
use super::edge::now;
use super::edge::receive::Received;
use super::edge::send::Claim;
use super::edge::send::For;
use super::edge::send::SendRequest;
use super::edge::ticks;
use super::memory::Memory;
use super::send;
use super::send::Plan;
use super::transact;
use crate::proto::mad::rmpp::flag;
use crate::proto::mad::rmpp::message_len;
use crate::proto::mad::rmpp::status;
use crate::proto::mad::rmpp::Arrival;
use crate::proto::mad::rmpp::Header;
use crate::proto::mad::rmpp::Kind;
use crate::proto::mad::rmpp::Packet;
use crate::proto::mad::rmpp::Phase;
use crate::proto::mad::rmpp::Receiver;
use crate::proto::mad::send::is_after;
use crate::proto::mad::send::AckResult;
use crate::proto::mad::send::End;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::AtomicTracker;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::list::TryNewListArc;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::new_delayed_work;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::WorkItem;
use rdma::list::Tag;
use rdma::sync::Keyed;
use rdma::workqueue;

/// Timeout for all segments, in milliseconds.
const PATIENCE_MS: i32 = 40_000;
/// How long a complete transfer is kept, in milliseconds.
const MEMORY_MS: i32 = 10_000;

/// Identity of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    tid: u64,
    class: u8,
    class_version: u8,
    method: u8,
    src_qp: u32,
    lid: u32,
}

impl Key {
    fn of(message: &Received) -> Option<Self> {
        let header = wire::Header::parse(message.mad())?;
        let wc = message.wc();
        Some(Self {
            tid: header.tid,
            class: header.class,
            class_version: header.class_version,
            method: header.method,
            src_qp: wc.src_qp(),
            lid: wc.slid(),
        })
    }
}

/// State of a transfer, protected by the agent's lock.
struct State {
    receiver: Receiver,
    /// The segments received so far; passed to the consumer when complete.
    message: Option<Received>,
    /// Until when a complete transfer is kept.
    until: Option<Ticks>,
}

impl State {
    /// Returns whether the transfer is complete and still kept: its work is queued or about to be
    /// queued.
    fn is_remembered(&self) -> bool {
        self.receiver.phase() == Phase::Complete
            && self.until.is_none_or(|until| is_after(until, now()))
    }
}

/// An incoming transfer.
#[pin_data]
pub(crate) struct Transfer {
    #[pin]
    links: ListLinks,
    #[pin]
    listed: AtomicTracker,
    tag: Tag,
    key: Key,
    base_version: u8,
    /// Address handle of the sender. Its destruction may sleep: the transfer is dropped by works,
    /// by receive processing, and by unregistering.
    handle: Handle,
    state: Keyed<State>,
    #[pin]
    end: DelayedWork<Self>,
    agent: Arc<Agent>,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Transfer { tracked_by listed: AtomicTracker; }
}
impl_list_item! {
    impl ListItem<0> for Transfer { using ListLinks { self.links }; }
}
rdma::impl_tagged!(impl Tagged<0> for Transfer { self.tag });
kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Transfer { self.end }
}

impl workqueue::Delayed for Transfer {
    fn lease(&self) -> &workqueue::QueueLease {
        self.agent.live().queue()
    }
}

/// Creates an address handle for the sender of a message. May sleep.
fn way_back(agent: &Arc<Agent>, message: &Received) -> Result<Handle> {
    Handle::back(agent, message.wc(), message.grh(), agent.live().number())
}

impl WorkItem for Transfer {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let (listed, message) = {
            let mut inner = this.agent.inner().lock();
            let Some(state) = this.state.access_mut(&mut inner.key) else {
                return;
            };
            if state.is_remembered() {
                return;
            }
            let late = state.receiver.time_out();
            let message = if late { state.message.take() } else { None };
            (this.unlist(&mut inner), message)
        };
        if let Some(message) = message {
            refuse(&this.agent, &message, status::TOO_LONG);
        }
        drop(listed);
    }
}

impl Transfer {
    /// Address handle of the sender.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Removes the transfer from its agent's list, if it is in there.
    fn unlist(self: &Arc<Self>, inner: &mut Inner) -> Option<ListArc<Self>> {
        inner.transfers.remove(self)
    }

    /// Ends all incoming transfers. The agent's gate has no users. May sleep.
    pub(super) fn end_all(agent: &Arc<Agent>) {
        loop {
            let first = agent.inner().lock().transfers.pop_front();
            let Some(transfer) = first else {
                // Those that were ending by themselves hold handles of the protection domain.
                agent.live().flush();
                return;
            };
            let transfer = transfer.into_arc();
            drop(workqueue::cancel_delayed::<Self, 0>(&transfer));
            let message = {
                let mut inner = agent.inner().lock();
                let state = transfer.state.access_mut(&mut inner.key);
                state.and_then(|state| state.message.take())
            };
            drop(message);
        }
    }

    fn find(inner: &Inner, is_it: impl Fn(&Self) -> bool) -> Option<Arc<Self>> {
        inner
            .transfers
            .iter()
            .find(|transfer| is_it(transfer))
            .map(Arc::from)
    }

    /// The send window for a response, which the sender of the request may have opened.
    pub(super) fn reply_window(inner: &Inner, header: &wire::Header, lid: Option<u32>) -> u32 {
        let is_request = |transfer: &Self| {
            let key = transfer.key;
            key.tid == header.tid
                && key.class == header.class
                && key.class_version == header.class_version
                && key.method & wire::method::RESPONSE == 0
                && Some(key.lid) == lid
        };
        if header.method & wire::method::RESPONSE == 0 {
            return 1;
        }
        Self::find(inner, is_request).map_or(1, |transfer| {
            let state = transfer.state.access(&inner.key);
            state.map_or(1, |state| state.receiver.reply_window())
        })
    }

    /// Handles the first segment. May sleep.
    fn start(
        agent: &Arc<Agent>,
        key: Key,
        message: Received,
        last: bool,
    ) -> Result<Option<Received>> {
        let base_version = wire::Header::parse(message.mad()).map_or(0, |h| h.base_version);
        let handle = way_back(agent, &message)?;
        let transfer = Arc::pin_init(
            pin_init!(Self {
                links <- ListLinks::new(),
                listed <- AtomicTracker::new(),
                tag: Tag::new(),
                key,
                base_version,
                handle,
                state: Keyed::new(agent.key(), State {
                    receiver: Receiver::new(window(agent.live().port()), last),
                    message: None,
                    until: None,
                }),
                end <- new_delayed_work!("Transfer::end"),
                agent: agent.clone(),
            }),
            GFP_KERNEL,
        )?;
        let item = ListArc::try_from_arc(transfer.clone()).map_err(|_| EINVAL)?;
        let known = {
            let mut inner = agent.inner().lock();
            let known = Self::find(&inner, |other| other.key == key);
            if known.is_none() {
                inner.transfers.push_back(item);
                None
            } else {
                known.map(|known| (known, item))
            }
        };
        if let Some((known, item)) = known {
            // A retransmission.
            drop(item);
            return Ok(known.arrived(message, 1, last));
        }
        transfer.acknowledge(&message);
        if last {
            return Ok(transfer.complete(message));
        }
        {
            let mut inner = agent.inner().lock();
            let state = transfer.state.access_mut(&mut inner.key).ok_or(EINVAL)?;
            state.message = Some(message);
        }
        transfer.end_in(ticks(PATIENCE_MS));
        Ok(None)
    }

    fn end_in(self: &Arc<Self>, delay: Ticks) {
        // CAST: 64-bit kernels only.
        workqueue::modify_delayed::<Self, 0>(self, delay as usize);
    }

    /// Completes the transfer: returns the whole message, with its length set. `None`, after a
    /// warning, if the agent's key is not the transfer's, which it is by [`start`](Self::start).
    fn complete(self: &Arc<Self>, mut message: Received) -> Option<Received> {
        let segments = {
            let inner = self.agent.inner().lock();
            self.state.access(&inner.key)?.receiver.contiguous()
        };
        let opa = self.agent.live().is_opa() && self.base_version == wire::OPA_VERSION;
        let size = if opa {
            wire::OPA_MAD_SIZE
        } else {
            wire::MAD_SIZE
        };
        let length = message.last_length();
        message.set_len(message_len(self.key.class, segments, length, size).unwrap_or(i32::MAX));
        let mut inner = self.agent.inner().lock();
        let memory = ticks(MEMORY_MS);
        self.state.access_mut(&mut inner.key)?.until = Some(now().wrapping_add(memory));
        self.end_in(memory);
        drop(inner);
        Some(message)
    }

    /// Handles a segment. May sleep.
    fn arrived(self: &Arc<Self>, message: Received, segment: u32, last: bool) -> Option<Received> {
        let mut inner = self.agent.inner().lock();
        let state = self.state.access_mut(&mut inner.key)?;
        let verdict = match state.message {
            // The message was taken by a timeout, or its first segment was lost.
            None if state.receiver.phase() != Phase::Complete => Arrival::Drop,
            _ => state.receiver.arrived(segment, last),
        };
        let mut keep = |message| match &mut state.message {
            Some(all) => all.insert(message),
            None => drop(message),
        };
        match verdict {
            Arrival::Drop => {
                drop(inner);
                drop(message);
                None
            }
            Arrival::Repeat => {
                drop(inner);
                self.acknowledge(&message);
                None
            }
            Arrival::Keep { ack } => {
                let plan = Reply::to(&message);
                keep(message);
                drop(inner);
                if ack {
                    self.acknowledge_to(&plan);
                }
                None
            }
            Arrival::Last(number) => {
                let plan = Reply::to(&message);
                keep(message);
                let whole = state.message.take();
                drop(inner);
                self.acknowledge_to(&plan);
                let mut whole = whole?;
                whole.truncate(number);
                self.complete(whole)
            }
        }
    }

    fn acknowledge(self: &Arc<Self>, message: &Received) {
        self.acknowledge_to(&Reply::to(message));
    }

    fn acknowledge_to(self: &Arc<Self>, reply: &Reply) {
        let (segment, window_end) = {
            let mut inner = self.agent.inner().lock();
            let Some(state) = self.state.access_mut(&mut inner.key) else {
                return;
            };
            state.receiver.acknowledge()
        };
        let header = Header {
            kind: Kind::Ack as u8,
            flags: flag::ACTIVE,
            segment,
            length_or_window: window_end,
            ..reply.rmpp
        };
        reply.send(&self.agent, header, For::Transfer(self.clone()));
    }
}

/// Headers of a received segment, from which a response is built.
struct Reply {
    headers: [u8; 64],
    rmpp: Header,
    remote_qpn: u32,
    pkey_index: u16,
}

impl Reply {
    fn to(message: &Received) -> Self {
        let mut headers = [0; 64];
        for (to, from) in headers.iter_mut().zip(message.mad()) {
            *to = *from;
        }
        let rmpp = Header::parse(&headers).unwrap_or(Header {
            version: 0,
            kind: 0,
            flags: 0,
            status: 0,
            segment: 0,
            length_or_window: 0,
        });
        Self {
            headers,
            rmpp,
            remote_qpn: message.wc().src_qp(),
            pkey_index: message.wc().pkey_index(),
        }
    }

    /// Sends a MAD with this header and without data. If that fails, the other end retries. May
    /// sleep.
    fn send(&self, agent: &Arc<Agent>, header: Header, whom: For) {
        let _: Result = self.try_send(agent, header, whom);
    }

    fn try_send(&self, agent: &Arc<Agent>, header: Header, whom: For) -> Result {
        let class = self.headers.get(1).copied().unwrap_or(0);
        let plan = Plan {
            remote_qpn: self.remote_qpn,
            pkey_index: self.pkey_index,
            rmpp: true,
            header: wire::data_offset(class).max(wire::RMPP_HEADER),
            data: 0,
            base_version: wire::VERSION,
        };
        let send = send::new(agent, &plan, whom, Memory::Kernel)?;
        let mut claim = Claim::new(&send).ok_or(EINVAL)?;
        let mad = claim.mad_mut();
        for (to, from) in mad.iter_mut().zip(&self.headers) {
            *to = *from;
        }
        if let Some(method) = mad.get_mut(3) {
            *method ^= wire::method::RESPONSE;
        }
        header.write(mad);
        drop(claim);
        transact::post(&send)
    }
}

/// Tells the sender of a packet that the transfer is aborted. May sleep.
fn refuse(agent: &Arc<Agent>, message: &Received, why: u8) {
    let reply = Reply::to(message);
    let header = Header {
        version: crate::proto::mad::rmpp::VERSION,
        kind: Kind::Abort as u8,
        flags: flag::ACTIVE,
        status: why,
        segment: 0,
        length_or_window: 0,
    };
    if let Ok(handle) = way_back(agent, message) {
        reply.send(agent, header, For::Nobody(handle));
    }
}

/// Tells the peer that has acknowledged all of a request that its response may begin. May sleep.
fn welcome(agent: &Arc<Agent>, message: &Received) {
    let reply = Reply::to(message);
    let header = Header {
        flags: flag::ACTIVE,
        segment: 0,
        length_or_window: 1,
        ..reply.rmpp
    };
    if let Ok(handle) = way_back(agent, message) {
        reply.send(agent, header, For::Nobody(handle));
    }
}

/// The send that a packet refers to.
fn send_of(agent: &Agent, message: &Received) -> Option<Arc<SendRequest>> {
    let arrived = transact::arrived(agent, message)?;
    agent.inner().lock().answered_by(&arrived)
}

/// Aborts a send, unless it has been received completely.
fn abort(agent: &Agent, message: &Received, why: u8) {
    let Some(send) = send_of(agent, message) else {
        return;
    };
    let received = {
        let inner = agent.inner().lock();
        let life = send.life.access(&inner.key);
        // A plain request is not a transfer and cannot be aborted.
        life.and_then(|life| life.rmpp())
            .is_none_or(|rmpp| rmpp.is_done())
    };
    if !received {
        transact::end(&send, End::Aborted(why));
    }
}

/// Handles a MAD for an agent whose transfers are reassembled here. Returns the message to be
/// delivered, if one is complete. May sleep.
pub(super) fn process(agent: &Arc<Agent>, message: Received) -> Option<Received> {
    let header = match Header::parse(message.mad()) {
        Some(header) if header.is_active() => header,
        _ => return Some(message),
    };
    match Packet::judge(&header) {
        Packet::Data { segment, last } => {
            let key = Key::of(&message)?;
            if segment == 1 {
                return Transfer::start(agent, key, message, last).ok().flatten();
            }
            let transfer = {
                let inner = agent.inner().lock();
                Transfer::find(&inner, |transfer| transfer.key == key)
            };
            transfer?.arrived(message, segment, last)
        }
        Packet::Ack {
            segment,
            window_end,
        } => {
            acked(agent, &message, segment, window_end);
            None
        }
        Packet::Ended(why) => {
            abort(agent, &message, why);
            None
        }
        Packet::Wrong { status, data } => {
            if !data {
                abort(agent, &message, status);
            }
            refuse(agent, &message, status);
            None
        }
    }
}

fn acked(agent: &Arc<Agent>, message: &Received, segment: u32, window_end: u32) {
    let Some(send) = send_of(agent, message) else {
        if segment == 0 {
            open_reply(agent, message, window_end);
        }
        return;
    };
    let Some(result) = transact::acked(&send, segment, window_end) else {
        return;
    };
    match result {
        AckResult::Nothing => {}
        AckResult::Wrong => {
            transact::end(&send, End::Aborted(status::SEGMENT_TOO_BIG));
            refuse(agent, message, status::SEGMENT_TOO_BIG);
        }
        AckResult::Again => welcome(agent, message),
        AckResult::Do(todo) => transact::carry_out(&send, todo),
    }
}

/// Opens the window for the response, as requested by the sender of the request.
fn open_reply(agent: &Agent, message: &Received, window_end: u32) {
    let Some(key) = Key::of(message) else { return };
    let mut inner = agent.inner().lock();
    if let Some(transfer) = Transfer::find(&inner, |transfer| transfer.key == key) {
        if let Some(state) = transfer.state.access_mut(&mut inner.key) {
            state.receiver.open_reply(window_end);
        }
    }
}
