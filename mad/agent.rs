// SPDX-License-Identifier: GPL-2.0

//! Agents: senders of MADs, which receive matching requests and the responses to their own MADs.
//!
//! An agent's gate counts its users: existing sends, and MADs being passed to its handler.
//! Unregistering cancels what can be cancelled and waits for the rest, such as sends that the
//! device still processes or that the consumer has not freed.
//!
//! Locks: `Agent::inner`, taken in any context; the timer of the work is armed under it, and
//! `Port::handing` is taken. Handlers are called without locks.

use super::edge::agent::CAgent;
use super::edge::agent::Handlers;
use super::edge::agent::Make;
use super::edge::now;
use super::edge::port::Live;
use super::edge::port::OpenPort;
use super::edge::send::SendRequest;
use super::edge::ticks;
use super::edge::trace;
use super::local::Local;
use super::port::Port;
use super::queue::SpecialRef;
use super::transfer::Transfer;
use crate::proto::mad::registry::Refused;
use crate::proto::mad::registry::Rule;
use crate::proto::mad::rmpp;
use crate::proto::mad::send as life;
use crate::proto::mad::send::Flow;
use crate::proto::mad::send::Home;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire::class;
use crate::proto::mad::wire::Special;
use crate::security::AgentRights;
use kernel::ffi::c_void;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::workqueue::new_delayed_work;
use kernel::workqueue::new_work;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::Work;
use rdma::bindings;
use rdma::edge::Passed;
use rdma::gate::Gate;
use rdma::list::TaggedList;
use rdma::sync::Key;
use rdma::sync::KeyId;
use rdma::sync::SpinLockIrq;
use rdma::workqueue;

/// State protected by the agent's lock.
pub(super) struct Inner {
    /// Key to the state of sends and transfers that this lock protects.
    pub(super) key: Key,
    /// Closed when the agent is being unregistered: nothing is posted or waits any more.
    flow: Flow,
    backlog: TaggedList<SendRequest>,
    sent: TaggedList<SendRequest>,
    /// Sends waiting for a response, sorted by expiry.
    waiting: TaggedList<SendRequest>,
    /// When the work is due, if it is queued.
    armed: Option<Ticks>,
    /// Sends that this node processed itself.
    pub(super) locals: List<Local>,
    /// Incoming transfers.
    pub(super) transfers: TaggedList<Transfer>,
}

/// See the [module](self).
#[pin_data]
pub(crate) struct Agent {
    #[pin]
    pub(super) c: CAgent,
    handlers: Handlers,
    rights: AgentRights,
    qp: Special,
    tid: u32,
    rmpp_version: u8,
    flags: u32,
    key: KeyId,
    /// Set by the call that unregisters the agent.
    ended: Atomic<bool>,
    #[pin]
    gate: Gate,
    #[pin]
    inner: SpinLockIrq<Inner>,
    #[pin]
    expiry: DelayedWork<Self, 0>,
    #[pin]
    local: Work<Self, 1>,
    // Last: the port may be freed as soon as this is dropped.
    port: OpenPort,
}

kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self, 0> for Agent { self.expiry }
}
impl workqueue::Delayed for Agent {
    fn lease(&self) -> &workqueue::QueueLease {
        self.live().queue()
    }
}

kernel::impl_has_work! {
    impl HasWork<Self, 1> for Agent { self.local }
}

/// Maximum number of responses that an agent may wait for at a time: a share of the receives,
/// depending on the class.
fn limit(rule: Option<&Rule>, answered: bool, receives: u32) -> u32 {
    if !answered {
        return 0;
    }
    match rule.map(|rule| rule.class().0) {
        None | Some(class::CM) => receives / 4,
        Some(class::SA) => receives / 32,
        Some(class::SMI_LID | class::SMI_DIRECTED) => receives.min(512) / 4,
        Some(_) => 0,
    }
}

/// Parameters of a new agent.
pub(super) struct Wish {
    pub(super) qp: Special,
    pub(super) rule: Option<Rule>,
    pub(super) rmpp_version: u8,
    pub(super) flags: u32,
    pub(super) handlers: Handlers,
    /// Opaque context of the consumer.
    pub(super) context: Passed<c_void>,
}

impl Agent {
    /// Registers an agent. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the port is being closed; `EPROTONOSUPPORT` if it has no such queue pair;
    /// `EINVAL` if the request conflicts with another agent; `EACCES` and others of a security
    /// module; `ENOMEM`, `EBUSY`.
    pub(super) fn register(port: Arc<Port>, wish: Wish) -> Result<Arc<Self>> {
        let open = OpenPort::enter(port.clone()).ok_or(ENODEV)?;
        let live = open.live();
        let qp = live.qp(wish.qp).ok_or_else(rdma::errno::eprotonosupport)?;
        let slot = port.tids().reserve()?;
        let tid = slot.tid();
        let number = u8::try_from(port.number()).map_err(|_| EINVAL)?;
        let rights = AgentRights::new(live.device(), number, wish.qp)?;
        let has_recv = wish.handlers.recv.is_some();
        let limit = limit(wish.rule.as_ref(), has_recv, port.receives());
        let c = CAgent::new(&Make {
            live,
            qp,
            port: number,
            handlers: &wish.handlers,
            context: wish.context,
            tid,
            flags: wish.flags,
            rmpp_version: wish.rmpp_version,
            class: wish.rule.as_ref().map_or((0, 0), Rule::class),
        });
        let made = Key::new();
        let this = Arc::pin_init(
            pin_init!(Self {
                c <- c,
                handlers: wish.handlers,
                rights,
                qp: wish.qp,
                tid,
                rmpp_version: wish.rmpp_version,
                flags: wish.flags,
                key: made.id(),
                ended: Atomic::new(false),
                gate <- Gate::new(),
                inner <- rdma::new_spinlock_irq!(Inner {
                    key: made,
                    flow: Flow::with_limit(limit),
                    backlog: TaggedList::new(),
                    sent: TaggedList::new(),
                    waiting: TaggedList::new(),
                    armed: None,
                    locals: List::new(),
                    transfers: TaggedList::new(),
                }, "Agent::inner"),
                expiry <- new_delayed_work!("Agent::expiry"),
                local <- new_work!("Agent::local"),
                port: open,
            }),
            GFP_KERNEL,
        )?;
        this.rights.admit()?;
        if let Some(rule) = wish.rule {
            port.add_rule(rule, &this).map_err(|refused| {
                this.rights.withdraw();
                match refused {
                    None | Some(Refused::Full) => ENOMEM,
                    Some(Refused::Taken | Refused::Invalid) => EINVAL,
                }
            })?;
        }
        slot.publish(this.clone());
        trace::agent(&this, trace::CREATED);
        Ok(this)
    }

    /// Unregisters an agent: ends its sends, and waits until it has no users. Returns false if
    /// another call does or did so, for which it does not wait. May sleep; not from a handler.
    pub(super) fn unregister(this: &Arc<Self>) -> bool {
        if this.ended.xchg(true, Relaxed) {
            return false;
        }
        trace::agent(this, trace::UNREGISTERED);
        this.abandon();
        drop(workqueue::cancel_delayed::<Self, 0>(this));
        this.live().remove_rules(this);
        drop(this.live().tids().remove(this.tid));
        // Locally processed packets are delivered by this work.
        workqueue::flush::<Self, 1>(this);
        // Incoming transfers do not use the gate; they get no more segments once it has no users.
        this.gate.close_and_wait();
        Transfer::end_all(this);
        this.rights.withdraw();
        true
    }

    /// The C structure that consumers and tracepoints read.
    #[inline]
    pub(super) fn c(&self) -> &CAgent {
        &self.c
    }

    /// The consumer's send and receive handlers.
    #[inline]
    pub(super) fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    /// The port, which stays open as long as the agent exists.
    #[inline]
    pub(super) fn live(&self) -> Live<'_> {
        self.port.live()
    }

    /// What a security module permits the agent, as long as it is registered.
    pub(super) fn rights(&self) -> &AgentRights {
        &self.rights
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) fn inner(&self) -> &SpinLockIrq<Inner> {
        &self.inner
    }

    /// Id of the key under the agent's lock.
    pub(super) const fn key(&self) -> KeyId {
        self.key
    }

    pub(super) fn special(&self) -> SpecialRef<'_> {
        self.live().special(self.qp)
    }

    /// Upper half of the agent's transaction ids.
    pub(super) const fn tid(&self) -> u32 {
        self.tid
    }

    /// The agent's queue pair.
    pub(super) const fn which(&self) -> Special {
        self.qp
    }

    pub(super) const fn rmpp_version(&self) -> u8 {
        self.rmpp_version
    }

    /// Returns whether the core segments and reassembles the agent's transfers.
    pub(super) const fn does_rmpp(&self) -> bool {
        self.rmpp_version != 0 && self.flags & bindings::IB_MAD_USER_RMPP == 0
    }

    pub(super) const fn receives(&self) -> bool {
        self.handlers.recv.is_some()
    }

    pub(super) const fn sends(&self) -> bool {
        self.handlers.send.is_some()
    }

    /// Schedules the work for when the first waiting send expires.
    pub(super) fn arm(self: &Arc<Self>, inner: &mut Inner) {
        let Some(due) = inner.first_due() else { return };
        if inner.flow.is_closed() || inner.armed.is_some_and(|armed| !life::is_after(armed, due)) {
            return;
        }
        inner.armed = Some(due);
        let now = now();
        let delay = if life::is_after(due, now) {
            due.wrapping_sub(now)
        } else {
            0
        };
        // CAST: 64-bit kernels only.
        workqueue::modify_delayed::<Self, 0>(self, delay as usize);
    }

    /// Queues the work that delivers locally processed packets and posts sends that wait for queue
    /// space. Any context.
    pub(super) fn queue_local(self: &Arc<Self>) {
        let _ = self.live().queue().enqueue::<Arc<Self>, 1>(self.clone());
    }
}

impl Inner {
    /// Closes the flow control: nothing is posted any more.
    pub(super) fn close(&mut self) {
        self.flow.close();
    }

    /// Returns whether sends are queued for lack of room.
    pub(super) fn is_queueing(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The first send of the backlog, if the flow control has room for it.
    pub(super) fn first_queued(&mut self) -> Option<Arc<SendRequest>> {
        if self.flow.has_room() {
            self.backlog.first().map(Arc::from)
        } else {
            None
        }
    }

    fn first_due(&self) -> Option<Ticks> {
        self.waiting.first().map(|send| send.due())
    }

    /// The first waiting send, if it has expired.
    pub(super) fn first_expired(&mut self, now: Ticks) -> Option<Arc<SendRequest>> {
        let due = self.first_due()?;
        if life::is_after(due, now) {
            return None;
        }
        self.waiting.first().map(Arc::from)
    }

    /// Records that the work runs and is not queued any more.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// Returns any waiting or queued send.
    pub(super) fn any(&mut self) -> Option<Arc<SendRequest>> {
        let send = self.waiting.first().or_else(|| self.backlog.first());
        send.map(Arc::from)
    }

    /// Takes the sends that are posted, and those whose response is being delivered.
    pub(super) fn collect_sent(&mut self) -> TaggedList<SendRequest> {
        core::mem::replace(&mut self.sent, TaggedList::new())
    }

    /// Puts back the sends taken by [`collect_sent`](Self::collect_sent).
    pub(super) fn put_sent(&mut self, mut sent: TaggedList<SendRequest>) {
        while let Some(send) = sent.pop_front() {
            self.sent.push_back(send);
        }
    }

    /// Finds a send that awaits a response: among the waiting sends first, then in the backlog,
    /// then among those whose completion is late.
    pub(super) fn find(
        &self,
        is_it: impl Fn(&SendRequest, &Self) -> bool,
    ) -> Option<Arc<SendRequest>> {
        [&self.waiting, &self.backlog, &self.sent]
            .into_iter()
            .flat_map(|list| list.iter())
            .find(|send| {
                let life = send.life.access(&self.key);
                life.is_some_and(|life| life.awaits() && is_it(send, self))
            })
            .map(Arc::from)
    }

    /// Applies a transition to a send, and moves the send to the list of its new state. `None`,
    /// after a warning, if it is not a send of this agent; callers find it in the agent's lists, or
    /// lock the agent that it names.
    pub(super) fn step<R>(
        &mut self,
        send: &Arc<SendRequest>,
        take: impl FnOnce(&mut life::SendState, &mut Flow) -> R,
    ) -> Option<R> {
        let life = send.life.access_mut(&mut self.key)?;
        let (home, due) = (life.home(), life.deadline());
        let result = take(life, &mut self.flow);
        let (new_home, new_due) = (life.home(), life.deadline());
        if home != new_home || (home == Home::Waiting && due != new_due) {
            self.relocate(send, home, new_home, new_due);
        }
        Some(result)
    }

    fn list(&mut self, home: Home) -> Option<&mut TaggedList<SendRequest>> {
        match home {
            Home::None => None,
            Home::Backlog => Some(&mut self.backlog),
            Home::Sent => Some(&mut self.sent),
            Home::Waiting => Some(&mut self.waiting),
        }
    }

    fn relocate(&mut self, send: &Arc<SendRequest>, from: Home, to: Home, due: Ticks) {
        let item = match self.list(from) {
            Some(list) => list.remove(send),
            None => ListArc::try_from_arc(send.clone()).ok(),
        };
        let Some(item) = item else {
            kernel::warn_on!(true);
            return;
        };
        send.set_due(due);
        match to {
            Home::None => drop(item.into_arc()),
            Home::Backlog => self.backlog.push_back(item),
            Home::Sent => self.sent.push_back(item),
            Home::Waiting => {
                // Timeouts are mostly equal, so it usually goes to the end.
                self.waiting
                    .insert_before(item, |other| life::is_after(other.due(), due));
            }
        }
    }
}

/// Timeout for the acknowledgement of a segment: two seconds.
pub(super) fn ack_timeout() -> life::AckTimeout {
    life::AckTimeout(ticks(2000))
}

/// Window of incoming transfers, in segments.
pub(super) fn window(port: &Port) -> u32 {
    (port.receives() / 8).clamp(1, rmpp::WINDOW_MAX)
}
