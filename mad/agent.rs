// SPDX-License-Identifier: GPL-2.0

//! Agents: who sends MADs, and gets those it asked for and the answers to its own.
//!
//! An agent's gate counts its users: sends that exist, and MADs that are being handed to
//! it. When it is unregistered, what can be cancelled is, and it waits for the rest, such as
//! sends that the device still has or that the consumer has not freed.
//!
//! Locks: `Agent::inner`, taken in any context; inside it the timer of the work, and
//! nothing else. Handlers are called with no lock held.

use super::port::Port;
use super::port::Tids;
use super::queue::SpecialQp;
use super::send::Send;
use super::trace;
use super::transfer::Transfer;
use crate::device::Device;
use crate::private;
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
use core::ptr;
use kernel::container_of;
use kernel::list::List;
use kernel::list::ListArc;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;
use kernel::workqueue::new_delayed_work;
use kernel::workqueue::new_work;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::Work;
use rdma::bindings;
use rdma::gate::Gate;
use rdma::sync::SpinLockIrq;
use rdma::workqueue;

/// Being a user of an agent.
pub(super) type OwnedPass = rdma::gate::OwnedPass<Agent>;

/// Now, in jiffies.
pub(super) fn now() -> Ticks {
    // SAFETY: It has no requirement.
    unsafe { bindings::rdma_helper_jiffies() as Ticks }
}

/// A time in jiffies, of one in milliseconds as C gives it: what is negative is for ever.
pub(super) fn ticks(ms: i32) -> Ticks {
    // SAFETY: It has no requirement.
    unsafe { bindings::rdma_helper_msecs_to_jiffies(ms as u32) as Ticks }
}

/// What an agent's lock protects.
pub(super) struct Inner {
    /// Closed when it is being unregistered: no more is posted, nor waits for anything.
    flow: Flow,
    backlog: List<Send>,
    sent: List<Send>,
    /// By the time they expire.
    waiting: List<Send>,
    /// When the work is due, if it is queued.
    armed: Option<Ticks>,
    /// Sends that this node has answered itself.
    pub(super) locals: List<super::local::Local>,
    /// Transfers that come in.
    pub(super) transfers: List<Transfer>,
}

/// See the [module](self).
#[pin_data]
pub(crate) struct Agent {
    c: Opaque<private::rdma_mad_agent_info>,
    /// What tracepoints read of it.
    request: bindings::ib_mad_reg_req,
    qp_info: Opaque<private::rdma_mad_qp_info>,
    port_info: Opaque<private::rdma_mad_port_info>,
    port: Arc<Port>,
    rights: AgentRights,
    qp: Special,
    rmpp_version: u8,
    flags: u32,
    recv: bindings::ib_mad_recv_handler,
    send: bindings::ib_mad_send_handler,
    #[pin]
    gate: Gate,
    #[pin]
    inner: SpinLockIrq<Inner>,
    #[pin]
    expiry: DelayedWork<Self, 0>,
    #[pin]
    local: Work<Self, 1>,
}

// SAFETY: The C structure is written before it is anybody's; consumers' contexts and handlers
// may be used by any thread.
unsafe impl core::marker::Send for Agent {}
// SAFETY: As above; the rest has locks.
unsafe impl Sync for Agent {}

kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self, 0> for Agent { self.expiry }
}
kernel::impl_has_work! {
    impl HasWork<Self, 1> for Agent { self.local }
}

/// How many answers an agent may wait for at a time: a part of the receives, by who asks.
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

/// What a new agent is like.
pub(super) struct Wish {
    pub(super) qp: Special,
    pub(super) rule: Option<Rule>,
    pub(super) rmpp_version: u8,
    pub(super) flags: u32,
    pub(super) send: bindings::ib_mad_send_handler,
    pub(super) recv: bindings::ib_mad_recv_handler,
    pub(super) context: *mut kernel::ffi::c_void,
}

impl Agent {
    /// Registers one. May sleep.
    ///
    /// # Errors
    ///
    /// `EPROTONOSUPPORT` if the port has no such queue pair; `EINVAL` if somebody else gets
    /// what it asks for; `EACCES` and others of a security module; `ENOMEM`, `EBUSY`.
    pub(super) fn register(port: &Arc<Port>, wish: Wish) -> Result<Arc<Self>> {
        let special = port.special(wish.qp);
        let qp = special.qp().ok_or_else(crate::errno::eprotonosupport)?;
        let tids: &Tids = port.tids();
        let slot = tids.reserve()?;
        let number = u8::try_from(port.number()).map_err(|_| EINVAL)?;
        let agent = bindings::ib_mad_agent {
            device: port.device(),
            qp,
            recv_handler: wish.recv,
            send_handler: wish.send,
            context: wish.context,
            hi_tid: slot.id(),
            flags: wish.flags,
            security: ptr::null_mut(),
            mad_agent_sec_list: bindings::list_head::default(),
            port_num: number,
            rmpp_version: wish.rmpp_version,
            smp_allowed: false,
        };
        let (class, version) = wish.rule.as_ref().map_or((0, 0), Rule::class);
        let request = bindings::ib_mad_reg_req {
            mgmt_class: class,
            mgmt_class_version: version,
            oui: [0; 3],
            method_mask: [0; 2],
        };
        // SAFETY: Who registers an agent unregisters it before the device.
        let rights = unsafe { AgentRights::new(Device::from_raw(port.device()), number, wish.qp) }?;
        let limit = limit(wish.rule.as_ref(), wish.recv.is_some(), port.receives());
        let this = Arc::pin_init(
            pin_init!(Self {
                c: Opaque::new(private::rdma_mad_agent_info {
                    agent,
                    reg_req: ptr::null_mut(),
                    qp_info: ptr::null_mut(),
                }),
                request,
                qp_info: Opaque::new(private::rdma_mad_qp_info {
                    port_priv: ptr::null_mut(),
                    qp,
                }),
                port_info: Opaque::new(private::rdma_mad_port_info {
                    device: port.device(),
                    port_num: i32::from(number),
                }),
                port: port.clone(),
                rights,
                qp: wish.qp,
                rmpp_version: wish.rmpp_version,
                flags: wish.flags,
                recv: wish.recv,
                send: wish.send,
                gate <- Gate::new(),
                inner <- rdma::new_spinlock_irq!(Inner {
                    flow: Flow::with_limit(limit),
                    backlog: List::new(),
                    sent: List::new(),
                    waiting: List::new(),
                    armed: None,
                    locals: List::new(),
                    transfers: List::new(),
                }, "Agent::inner"),
                expiry <- new_delayed_work!("Agent::expiry"),
                local <- new_work!("Agent::local"),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: Nobody else has it yet; they are places in the same object.
        unsafe {
            let c = this.c.get();
            (*c).reg_req = ptr::from_ref(&this.request).cast_mut();
            (*c).qp_info = this.qp_info.get();
            (*this.qp_info.get()).port_priv = this.port_info.get();
        }
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
        // From now on answers find it.
        slot.publish(this.clone());
        trace::agent(&this, trace::CREATED);
        Ok(this)
    }

    /// Unregisters it: ends what it has sent, and waits until nobody uses it. May sleep; not
    /// from a handler.
    pub(super) fn unregister(this: &Arc<Self>) {
        trace::agent(this, trace::UNREGISTERED);
        this.abandon();
        drop(workqueue::cancel_delayed::<Self, 0>(this));
        this.port.remove_rules(this);
        // SAFETY: It is the number that it was given.
        let tid = unsafe { (*this.as_raw()).hi_tid };
        drop(this.port.tids().remove(tid));
        // What this node answers itself is handed over there.
        workqueue::flush::<Self, 1>(this);
        // Transfers that come in keep nothing but themselves, and are handed no more
        // segments when nobody is inside.
        this.gate.close_and_wait();
        Transfer::end_all(this);
        this.rights.withdraw();
    }

    /// For C.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_mad_agent {
        // SAFETY: Only computed.
        unsafe { &raw mut (*self.c.get()).agent }
    }

    /// With what tracepoints read.
    pub(super) fn traced(&self) -> *mut private::rdma_mad_agent_info {
        self.c.get()
    }

    /// What tracepoints read of its queue pair.
    pub(super) fn traced_qp(&self) -> *mut private::rdma_mad_qp_info {
        self.qp_info.get()
    }

    /// Gives C the agent: with a count, which [`take`](Self::take) takes back.
    pub(super) fn into_raw(this: Arc<Self>) -> *mut bindings::ib_mad_agent {
        let raw = this.as_raw();
        let _ = Arc::into_raw(this);
        raw
    }

    /// The agent that C has.
    ///
    /// # Safety
    ///
    /// It was given by [`into_raw`](Self::into_raw) and is not taken back meanwhile.
    pub(super) unsafe fn borrow(raw: *mut bindings::ib_mad_agent) -> Arc<Self> {
        // SAFETY: By this function's duty.
        unsafe {
            let c = container_of!(raw, private::rdma_mad_agent_info, agent);
            let this = container_of!(Opaque::cast_from(c), Self, c);
            kernel::sync::ArcBorrow::from_raw(this).into()
        }
    }

    /// Takes the agent back from C.
    ///
    /// # Safety
    ///
    /// It was given by [`into_raw`](Self::into_raw), and C forgets it.
    pub(super) unsafe fn take(raw: *mut bindings::ib_mad_agent) -> Arc<Self> {
        // SAFETY: By this function's duty.
        unsafe {
            let c = container_of!(raw, private::rdma_mad_agent_info, agent);
            Arc::from_raw(container_of!(Opaque::cast_from(c), Self, c))
        }
    }

    pub(super) fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// What a security module lets it do, as long as it is registered.
    pub(super) fn rights(&self) -> &AgentRights {
        &self.rights
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) fn inner(&self) -> &SpinLockIrq<Inner> {
        &self.inner
    }

    pub(super) fn special(&self) -> &SpecialQp {
        self.port.special(self.qp)
    }

    pub(super) const fn rmpp_version(&self) -> u8 {
        self.rmpp_version
    }

    /// Whether transfers of its are split and put together here.
    pub(super) const fn does_rmpp(&self) -> bool {
        self.rmpp_version != 0 && self.flags & bindings::IB_MAD_USER_RMPP == 0
    }

    pub(super) const fn receives(&self) -> bool {
        self.recv.is_some()
    }

    pub(super) const fn sends(&self) -> bool {
        self.send.is_some()
    }

    /// The domain of its address handles.
    pub(super) fn pd(&self) -> *mut bindings::ib_pd {
        // SAFETY: The queue pair stays while there are agents.
        unsafe { (*(*self.as_raw()).qp).pd }
    }

    /// Hands it a MAD, with the send that it answers, if any. No lock is held.
    pub(super) fn hand(&self, to: Option<&Send>, message: super::receive::Received) {
        let Some(handler) = self.recv else { return };
        let buf = to.map_or(ptr::null_mut(), Send::buf);
        // SAFETY: The agent is registered while somebody is inside its gate, as the caller
        // is; the handler owns the message from now on.
        unsafe { handler(self.as_raw(), buf, message.into_raw()) };
    }

    /// Tells it that a send has ended. No lock is held.
    pub(super) fn tell(&self, send: &Send, status: bindings::ib_wc_status, vendor: u32) {
        let Some(handler) = self.send else { return };
        let mut wc = bindings::ib_mad_send_wc {
            send_buf: send.buf(),
            status,
            vendor_err: vendor,
        };
        // SAFETY: The send is inside the gate, so the agent is registered; the consumer
        // owns the send again.
        unsafe { handler(self.as_raw(), &mut wc) };
    }

    /// Has the work run when the first of those that wait expires.
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
        workqueue::modify_delayed::<Self, 0>(self.port.queue(), self, delay as usize);
    }

    /// Queues the work that hands over what this node answered itself, and posts what waits
    /// for room. Any context.
    pub(super) fn queue_local(self: &Arc<Self>) {
        let _ = self.port.queue().enqueue::<Arc<Self>, 1>(self.clone());
    }
}

impl Inner {
    /// No more is to be posted.
    pub(super) fn close(&mut self) {
        self.flow.close();
    }

    /// Whether sends are queued for want of room.
    pub(super) fn is_queueing(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The first of a list.
    fn first(list: &mut List<Send>) -> Option<Arc<Send>> {
        list.cursor_front()
            .peek_next()
            .map(|item| Arc::from(item.arc()))
    }

    /// The first of the backlog, if it may go out.
    pub(super) fn first_queued(&mut self) -> Option<Arc<Send>> {
        if self.flow.has_room() {
            Self::first(&mut self.backlog)
        } else {
            None
        }
    }

    fn first_due(&mut self) -> Option<Ticks> {
        self.waiting
            .cursor_front()
            .peek_next()
            .map(|send| send.due())
    }

    /// The first that waits, if it has expired.
    pub(super) fn first_expired(&mut self, now: Ticks) -> Option<Arc<Send>> {
        let due = self.first_due()?;
        if life::is_after(due, now) {
            return None;
        }
        Self::first(&mut self.waiting)
    }

    /// The work runs: it is not queued any more.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// Some send, of those that have not been abandoned yet.
    pub(super) fn any(&mut self) -> Option<Arc<Send>> {
        if let Some(send) = Self::first(&mut self.waiting) {
            return Some(send);
        }
        Self::first(&mut self.backlog)
    }

    /// Those with the queue pair, and those whose answer is being handed over.
    pub(super) fn collect_sent(&mut self) -> List<Send> {
        core::mem::replace(&mut self.sent, List::new())
    }

    /// Puts back what was with the queue pair.
    pub(super) fn put_sent(&mut self, mut sent: List<Send>) {
        self.sent.push_all_back(&mut sent);
    }

    /// The send that somebody asks for: those that wait first, then the backlog, then those
    /// whose completion is late.
    pub(super) fn find(
        &self,
        is_it: impl Fn(&life::Send, &Send, &Self) -> bool,
    ) -> Option<Arc<Send>> {
        [&self.waiting, &self.backlog, &self.sent]
            .into_iter()
            .flat_map(|list| list.iter())
            .find(|send| {
                let life = send.life.access(self);
                life.awaits() && is_it(life, send, self)
            })
            .map(Arc::from)
    }

    /// Has a send take a step, and moves it to the list where it is then.
    pub(super) fn step<R>(
        &mut self,
        send: &Arc<Send>,
        take: impl FnOnce(&mut life::Send, &mut Flow) -> R,
    ) -> R {
        let mut flow = self.flow;
        let life = send.life.access_mut(self);
        let (home, due) = (life.home(), life.deadline());
        let result = take(life, &mut flow);
        let (new_home, new_due) = (life.home(), life.deadline());
        self.flow = flow;
        if home != new_home || (home == Home::Waiting && due != new_due) {
            self.relocate(send, home, new_home, new_due);
        }
        result
    }

    fn list(&mut self, home: Home) -> Option<&mut List<Send>> {
        match home {
            Home::None => None,
            Home::Backlog => Some(&mut self.backlog),
            Home::Sent => Some(&mut self.sent),
            Home::Waiting => Some(&mut self.waiting),
        }
    }

    fn relocate(&mut self, send: &Arc<Send>, from: Home, to: Home, due: Ticks) {
        let item = match self.list(from) {
            // SAFETY: Where a send is says its state, which changes here only.
            Some(list) => unsafe { list.remove(send) },
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
                // Mostly times are equal, so that it goes to the end.
                let mut cursor = self.waiting.cursor_back();
                while cursor
                    .peek_prev()
                    .is_some_and(|other| life::is_after(other.due(), due))
                {
                    cursor.move_prev();
                }
                cursor.insert(item);
            }
        }
    }
}

/// How long a segment waits for its acknowledgement: two seconds.
pub(super) fn ack_timeout() -> life::AckTimeout {
    life::AckTimeout(ticks(2000))
}

/// The window of transfers that come in, in segments.
pub(super) fn window(port: &Port) -> u32 {
    (port.receives() / 8).clamp(1, rmpp::WINDOW_MAX)
}
