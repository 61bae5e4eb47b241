// SPDX-License-Identifier: GPL-2.0

//! An ID and its connection: the engine, what belongs to its state, delivery of events, the end.
//!
//! A [`Conn`] begins with the `struct ib_cm_id` that the consumer has. It is in an `Arc`: the consumer
//! has a reference until it destroys the ID; tables, sends and the work item have others. When it is
//! destroyed, the engine says what is sent, the tables forget it, and its events are dropped; only a
//! handler that runs at that time is waited for.
//!
//! Events are delivered by a work item, in order. It is also the timer: it runs at once if there is
//! an event, else at the deadline.
//!
//! ```text
//!   message, call, end of a send --- step of the engine, under `state` ---> sends, tables, timer
//!                                                 |
//!                                                 +--> `events` --> work item --> handler
//! ```
//!
//! Locks: `state`, then `Port::live` (which has more inside, see [`crate::port`]), a shard of a table, or the
//! lock of a send. The states of two IDs are not locked at a time. Handlers are called without a lock.
//! [`Conn::notify`] is called in any context, so it only leaves a note, which the next one who locks
//! the state handles first.

mod deliver;
mod removal;

use crate::edge::id::address;
use crate::edge::id::Handler;
use crate::edge::id::IbCmId;
use crate::edge::trace;
use crate::edge::trace::OfId;
use crate::edge::trace::OfMessage;
use crate::index::Service;
use crate::port::Port;
use crate::proto::conn::Actions;
use crate::proto::conn::Agent;
use crate::proto::conn::Call;
use crate::proto::conn::CallError;
use crate::proto::conn::Destroy;
use crate::proto::conn::Event;
use crate::proto::conn::Keep;
use crate::proto::conn::Policy;
use crate::proto::conn::Refused;
use crate::proto::conn::SendEnd;
use crate::proto::conn::StateName;
use crate::proto::conn::To;
use crate::proto::counters::Count;
use crate::proto::counters::Group;
use crate::proto::ids::CommId;
use crate::proto::ids::SendId;
use crate::proto::tables;
use crate::proto::wake::Item;
use crate::proto::wire::Body;
use crate::proto::wire::Kind;
use crate::proto::wire::Message;
use crate::proto::wire::Transport;
use crate::send::Ending;
use crate::way;
use crate::way::Ref;
use crate::Cm;
use core::ptr;
use kernel::ffi::c_void;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::sync::MutexGuard;
use kernel::workqueue::new_delayed_work;
use kernel::workqueue::DelayedWork;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::edge::Passed;
use rdma::mad::request::Patience;
use rdma::mad::request::Sent;
use rdma::mad::Mad;
use rdma::mad::Path;
use rdma::mad::Received;
use rdma::module::Resident;
use rdma::workqueue;
use rdma::workqueue::Delayed;
use rdma::workqueue::QueueLease;

/// The engine.
pub(crate) type Engine = crate::proto::conn::Conn<Ref>;

/// Events that need no message, of which there is one each at most: they always have room.
const SPARE: usize = 4;

/// An ID and its connection.
#[pin_data]
#[repr(C)]
pub(crate) struct Conn {
    id: IbCmId,
    /// Notes of [`Conn::notify`]: the queue pair received something, or migrated.
    established: Atomic<bool>,
    migrated: Atomic<bool>,
    /// It has an alternate path, for [`Conn::notify`].
    alternate: Atomic<bool>,
    pub(crate) cm: Arc<Cm>,
    /// Number in the table of IDs.
    number: u32,
    lease: QueueLease,
    _resident: Resident,
    #[pin]
    state: Mutex<State>,
    #[pin]
    work: DelayedWork<Self>,
}

kernel::impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Conn { self.work }
}

/// What changes.
pub(crate) struct State {
    pub(crate) engine: Engine,
    /// The way that requests are sent and received.
    pub(crate) way: Option<Ref>,
    /// Ways that are not used any more. Consumers may still use copies of their address vectors.
    old: [Option<Ref>; 2],
    /// The transport that a REQ asks for.
    pub(crate) transport: Transport,
    /// The send that the state waits for.
    send: Option<(SendId, Arc<Sent<Ending>>)>,
    /// Private data for messages that are sent again.
    kept: Option<KVec<u8>>,
    events: KVec<Queued>,
    item: Item,
    /// The handler runs.
    running: bool,
    /// Somebody waits for the handler, or for `holds`.
    waited: bool,
    /// It is destroyed.
    gone: bool,
    /// Number of users of a listener.
    shares: u32,
    /// Number of requests that a listener has, and whose handlers have not returned yet: those of
    /// the present phase, and those before.
    holds: [u32; 2],
    /// The phase. It changes when one of the users of a listener goes, who waits for the requests
    /// before.
    phase: bool,
    /// A user of a listener waits for the phase before.
    leaving: bool,
}

/// An event that waits to be delivered.
struct Queued {
    event: Event,
    mad: Option<Mad>,
    more: Option<KBox<More>>,
    transport: Transport,
    way: Option<Ref>,
}

/// What requests and LAPs have besides the message.
pub(crate) struct More {
    /// The listener of a request. With it the consumer gets the ID.
    pub(crate) listener: Option<Held>,
    pub(crate) port: u32,
    pub(crate) bth_pkey: u16,
    pub(crate) paths: [Option<Path>; 2],
}

/// A listener whose destruction waits for this, and the phase that it was held in.
pub(crate) struct Held(Arc<Conn>, bool);

impl State {
    fn holds(&mut self, phase: bool) -> &mut u32 {
        let [first, second] = &mut self.holds;
        if phase {
            second
        } else {
            first
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let holds = state.holds(self.1);
        *holds = holds.saturating_sub(1);
        self.0.wake(&mut state);
    }
}

impl Held {
    /// The listener.
    pub(crate) fn conn(&self) -> &Conn {
        &self.0
    }
}

/// The state, locked. Who has changed it shows that by [`leave`](Self::leave).
pub(crate) struct Entered<'a> {
    conn: &'a Arc<Conn>,
    state: MutexGuard<'a, State>,
}

impl Entered<'_> {
    /// Shows what has changed, runs the work item if it is needed, and unlocks.
    pub(crate) fn leave(mut self) {
        self.conn.show(&self.state);
        self.conn.schedule(&mut self.state);
    }

    /// Queues the event of a message, and leaves.
    pub(crate) fn deliver(mut self, event: Event, mad: Mad, more: Option<KBox<More>>) {
        self.conn
            .queue(&mut self.state, Some(event), Some(mad), more);
        self.leave();
    }
}

fn refused(error: CallError<Error>) -> Error {
    match error {
        CallError::NotPosted(error) => error,
        CallError::Refused(Refused::Invalid) => EINVAL,
        CallError::Refused(Refused::Connected) => rdma::errno::eisconn(),
        CallError::Refused(Refused::NoDevice) => ENODEV,
    }
}

impl Conn {
    /// Creates an ID with a number in the table. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        cm: &Arc<Cm>,
        number: u32,
        device: Passed<bindings::ib_device>,
        (handler, context): (Handler, *mut c_void),
    ) -> Result<Arc<Self>> {
        let local = number ^ cm.scramble;
        let events = KVec::with_capacity(SPARE + 1, GFP_KERNEL)?;
        // Made in its place, as it is large.
        let state = init!(State {
            engine: Engine::new(CommId(local)).with_early_repeats(cm.early_repeats),
            way: None,
            old: [None, None],
            transport: Transport::Rc,
            send: None,
            kept: None,
            events,
            item: Item::default(),
            running: false,
            waited: false,
            gone: false,
            shares: 1,
            holds: [0; 2],
            phase: false,
            leaving: false,
        });
        Arc::pin_init(
            pin_init!(Self {
                id: IbCmId::new(device, handler, context, local),
                established: Atomic::new(false),
                migrated: Atomic::new(false),
                alternate: Atomic::new(false),
                cm: cm.clone(),
                number,
                lease: cm.lease.clone(),
                _resident: rdma::resident!(),
                state <- new_mutex!(state, "Conn::state"),
                work <- new_delayed_work!("Conn::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Creates an ID for a request, without a handler yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn unowned(cm: &Arc<Cm>, number: u32, device: &DeviceRef) -> Result<Arc<Self>> {
        Self::new(cm, number, address(device), (None, ptr::null_mut()))
    }

    /// Its number on this side.
    pub(crate) fn local_id(&self) -> CommId {
        CommId(self.number ^ self.cm.scramble)
    }

    /// The consumer's part.
    pub(crate) const fn id(&self) -> &IbCmId {
        &self.id
    }

    /// The address of the device, for comparisons.
    pub(crate) fn device(&self) -> usize {
        self.id.device().as_ptr().addr()
    }

    /// Locks the state, to change it. Notes are handled before.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered<'_> {
        let mut state = self.state.lock();
        self.read_notes(&mut state);
        Entered { conn: self, state }
    }

    /// Changes the state, with notes handled before, and effects shown afterwards.
    pub(crate) fn change<T>(self: &Arc<Self>, f: impl FnOnce(&mut State) -> T) -> T {
        let mut entered = self.enter();
        let result = f(&mut entered.state);
        entered.leave();
        result
    }

    /// Looks at the state.
    pub(crate) fn look<T>(self: &Arc<Self>, f: impl FnOnce(&State) -> T) -> T {
        let mut state = self.state.lock();
        self.read_notes(&mut state);
        f(&state)
    }

    /// Copies what consumers and tracepoints see.
    fn show(&self, state: &State) {
        // CAST: A small number.
        self.id.set_state(state.engine.state() as u32);
        // CAST: A small number.
        self.id.set_lap_state(state.engine.lap() as u32);
        self.id.set_remote_id(state.engine.remote_id().0.to_be());
        self.id.set_service_id(state.engine.service_id().0.to_be());
        let has = state.engine.has_alternate();
        self.alternate.store(has, Relaxed);
    }

    /// Waits until others have left the ID, as `busy` says. May sleep; the lock is given up meanwhile.
    fn wait_while(&self, state: &mut MutexGuard<'_, State>, busy: impl Fn(&mut State) -> bool) {
        while busy(state) {
            state.waited = true;
            self.cm.idle.wait(state);
        }
    }

    fn wake(&self, state: &mut State) {
        if state.waited {
            state.waited = false;
            self.cm.idle.notify_all();
        }
    }

    fn has_notes(&self) -> bool {
        self.established.load(Relaxed) || self.migrated.load(Relaxed)
    }

    fn read_notes(self: &Arc<Self>, state: &mut State) {
        if self.has_notes() {
            self.carry_out_notes(state);
        }
    }

    #[cold]
    fn carry_out_notes(self: &Arc<Self>, state: &mut State) {
        for (note, call) in [
            (&self.established, Call::Established),
            (&self.migrated, Call::Migrated),
        ] {
            if note.load(Relaxed) && note.xchg(false, Full) && !state.gone {
                // The caller of `notify` has gone.
                let _ = self.call_locked(state, &call, None);
            }
        }
        self.show(state);
    }

    /// Leaves a note for the consumer, in any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a wrong state, `EISCONN` if it is established already.
    pub(crate) fn notify(self: &Arc<Self>, established: bool) -> Result {
        let state = self.id.state();
        let is = |names: &[StateName]| names.iter().any(|name| *name as u32 == state);
        let note = if established {
            if is(&[StateName::Established]) {
                return Err(rdma::errno::eisconn());
            }
            if !is(&[StateName::RepSent, StateName::MraRepRcvd]) {
                return Err(EINVAL);
            }
            &self.established
        } else {
            let possible = self.alternate.load(Relaxed) && self.id.lap_state() <= 1;
            if !is(&[StateName::Established]) || !possible {
                return Err(EINVAL);
            }
            &self.migrated
        };
        let before = note.xchg(true, Full);
        workqueue::modify_delayed(self, 0);
        if established && before {
            return Err(rdma::errno::eisconn());
        }
        Ok(())
    }

    /// Remembers the way of a request that is about to be sent.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the ID is not idle.
    pub(crate) fn set_way(self: &Arc<Self>, way: &Ref, transport: Transport) -> Result {
        self.change(|state| {
            state.engine.check_idle().map_err(|_| EINVAL)?;
            state.way = Some(way.clone());
            state.old = [None, None];
            state.transport = transport;
            Ok(())
        })
    }

    /// Carries out a call of the consumer. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the engine, and of sending.
    pub(crate) fn call(self: &Arc<Self>, call: &Call<'_, Ref>) -> Result {
        let kept = match call {
            Call::Rtu { private } | Call::Drep { private } if !private.is_empty() => {
                let mut kept = KVec::new();
                kept.extend_from_slice(private, GFP_KERNEL)?;
                Some(kept)
            }
            _ => None,
        };
        self.change(|state| self.call_locked(state, call, kept))
    }

    fn call_locked(
        self: &Arc<Self>,
        state: &mut State,
        call: &Call<'_, Ref>,
        kept: Option<KVec<u8>>,
    ) -> Result {
        let mut sent = None;
        let mut done = state.engine.call(call, self.cm.now(), |posting| {
            let kind = posting.message.body.kind();
            let (patience, ending, id) = match posting.policy {
                Policy::Once => (
                    Patience::default(),
                    Ending::untracked(kind, Count::Message),
                    None,
                ),
                Policy::Tracked {
                    id,
                    timeout_ms,
                    retries,
                } => (
                    Patience {
                        timeout_ms,
                        retries: retries.into(),
                    },
                    Ending::tracked(kind, self.clone(), id),
                    Some(id),
                ),
            };
            trace::sends(kind, &self.id);
            let qpn = self.id.remote_cm_qpn();
            let handle = posting
                .to
                .send(posting.agent, qpn, posting.message, patience, ending)?;
            sent = id.map(|id| (id, handle));
            Ok(())
        });
        if sent.is_some() {
            state.send = sent;
        }
        // Not taken apart, which would move it.
        let event = self.act(state, &mut done.1, None, kept);
        self.queue(state, event, None, None);
        done.0.map_err(refused)
    }

    /// Carries out what a step says, but for the event, which is returned. `from` is the message that
    /// the step is about, `private` the data of the call.
    pub(crate) fn act(
        self: &Arc<Self>,
        state: &mut State,
        actions: &mut Actions<Ref>,
        from: Option<(&Port, &Received<'_>)>,
        private: Option<KVec<u8>>,
    ) -> Option<Event> {
        let Actions {
            cancel,
            extend,
            release,
            release_sidr,
            keep,
            again,
            send,
            duplicate,
            dropped,
            event,
        } = actions;
        if let Some(id) = *cancel {
            if let Some((_, sent)) = state.send.take_if(|(it, _)| *it == id) {
                sent.cancel();
            }
        }
        if let Some((id, ms)) = *extend {
            if let Some((it, sent)) = &state.send {
                if *it == id {
                    sent.extend(ms);
                }
            }
        }
        if let Some(keys) = release {
            tables::release(&self.cm.ids, &self.cm.qpns, keys, self);
        }
        if let Some(key) = release_sidr {
            self.cm.sidr.delete(key, self);
        }
        match keep {
            Some(Keep::Private) => state.kept = private,
            Some(Keep::Nothing) => state.kept = None,
            None => {}
        }
        if let Some((id, way)) = again {
            if let Some((it, sent)) = &state.send {
                if it == id {
                    way.repeat(sent, self.cm.now());
                }
            }
        }
        if let Some(send) = send {
            let message = send
                .answer
                .message(state.kept.as_deref().unwrap_or_default());
            match &send.to {
                To::Route(way) => {
                    if let Body::Rej(rej) = &message.body {
                        trace::send_rej(&self.id, rej.reason.0.into());
                    }
                    trace::sends(message.body.kind(), &self.id);
                    self.send_once(way, &message, Count::Message);
                }
                to @ (To::Sender | To::Stranger) => {
                    if let Some((port, received)) = from {
                        match message.body.kind() {
                            Kind::Rtu => trace::id(OfId::SendDupRep, &self.id),
                            Kind::Mra | Kind::Rej => trace::id(OfId::SendDupReq, &self.id),
                            _ => {}
                        }
                        // The peer's address is known, so it need not be resolved.
                        let way = match to {
                            To::Sender => state.way.as_ref(),
                            To::Stranger | To::Route(_) => None,
                        };
                        let count = Count::of(send.is_repeat);
                        match way {
                            Some(way) => self.send_once(way, &message, count),
                            None => way::answer(port, received, &message, count),
                        }
                    }
                }
            }
        }
        if let (Some(kind), Some((port, _))) = (duplicate, from) {
            port.counters.add(Group::Duplicates, *kind, 1);
        }
        for (old, new) in state.old.iter_mut().zip(dropped) {
            if new.is_some() {
                *old = new.take();
            }
        }
        *event
    }

    /// Sends a message whose end nobody waits for. It is dropped if it cannot be sent: the peer
    /// repeats itself.
    fn send_once(&self, way: &Ref, message: &Message<'_>, count: Count) {
        let ending = Ending::untracked(message.body.kind(), count);
        let qpn = self.id.remote_cm_qpn();
        let _ = way.send(Agent::Main, qpn, message, Patience::default(), ending);
    }

    /// Queues an event.
    pub(crate) fn queue(
        &self,
        state: &mut State,
        event: Option<Event>,
        mad: Option<Mad>,
        more: Option<KBox<More>>,
    ) {
        let Some(event) = event else {
            return;
        };
        if state.gone {
            return;
        }
        let queued = Queued {
            event,
            mad,
            more,
            transport: state.transport,
            way: state.way.clone(),
        };
        if state.events.push_within_capacity(queued).is_err() {
            pr_warn!("an event is lost\n");
        }
    }

    /// Handles a message for this connection. Returns the state, still locked, and the event, if the
    /// consumer is told of the message. May sleep.
    pub(crate) fn receive(
        self: &Arc<Self>,
        port: &Port,
        received: &Received<'_>,
        message: &Message<'_>,
        step: impl FnOnce(&mut State) -> Actions<Ref>,
    ) -> Option<(Entered<'_>, Event)> {
        let mut entered = self.enter();
        let state = &mut *entered.state;
        // Without memory the message is lost; the peer repeats it.
        if state.gone || state.events.reserve(SPARE + 1, GFP_KERNEL).is_err() {
            entered.leave();
            return None;
        }
        let mut actions = step(state);
        if actions.event.is_none() && actions.send.is_none() && actions.duplicate.is_none() {
            self.ignored(state, message);
        }
        match self.act(state, &mut actions, Some((port, received)), None) {
            Some(event) => Some((entered, event)),
            None => {
                entered.leave();
                None
            }
        }
    }

    /// Traces a message that the state does not accept.
    fn ignored(&self, state: &State, message: &Message<'_>) {
        match &message.body {
            Body::Rep(rep) => trace::rep_unknown(
                rep.local_id.0,
                rep.remote_id.0,
                // CAST: A small number.
                state.engine.state() as u32,
            ),
            Body::Dreq(_) => trace::id(OfId::DreqUnknownErr, &self.id),
            Body::Rej(_) => trace::id(OfId::RejUnknownErr, &self.id),
            Body::Mra(_) => trace::id(OfId::MraUnknownErr, &self.id),
            Body::Req(_)
            | Body::Rtu(_)
            | Body::Drep(_)
            | Body::SidrReq(_)
            | Body::SidrRep(_)
            | Body::Lap(_)
            | Body::Apr(_) => {}
        }
    }

    /// Begins a connection that was requested by a message. Returns the state, still locked: the
    /// consumer gets the ID with the event, before all others.
    pub(crate) fn begin(
        self: &Arc<Self>,
        engine: Engine,
        way: Ref,
        transport: Transport,
    ) -> Entered<'_> {
        let mut entered = self.enter();
        let state = &mut *entered.state;
        state.engine = engine;
        state.way = Some(way);
        state.transport = transport;
        entered
    }

    /// Handles the end of a tracked send. May sleep.
    pub(crate) fn send_ended(self: &Arc<Self>, id: SendId, end: SendEnd) {
        let mut state = self.state.lock();
        let mine = state.send.take_if(|(it, _)| *it == id);
        if mine.is_none() || state.gone {
            // It was cancelled, so nothing waits for it, and nothing changes.
            return;
        }
        self.read_notes(&mut state);
        let mut entered = Entered { conn: self, state };
        let state = &mut *entered.state;
        if let SendEnd::Failed(status) = end {
            // CAST: A small number.
            let name = state.engine.state() as u32;
            trace::message(OfMessage::SendErr, name, status);
        }
        let mut actions = state.engine.send_ended(id, end, self.cm.now());
        let event = self.act(state, &mut actions, None, None);
        self.queue(state, event, None, None);
        entered.leave();
    }

    fn expire(self: &Arc<Self>, state: &mut State) {
        let Some(deadline) = state.engine.deadline() else {
            return;
        };
        let now = self.cm.now();
        if deadline <= now {
            let mut actions = state.engine.timer(now);
            let event = self.act(state, &mut actions, None, None);
            self.queue(state, event, None, None);
            self.show(state);
        }
    }

    /// Counts one more user of a listener; `false` if it is being destroyed.
    pub(crate) fn share(&self) -> bool {
        let mut state = self.state.lock();
        if state.gone {
            return false;
        }
        state.shares = state.shares.saturating_add(1);
        true
    }

    /// Holds a listener, for a request; `None` if it is being destroyed.
    pub(crate) fn hold(self: &Arc<Self>) -> Option<Held> {
        let mut state = self.state.lock();
        if state.gone {
            return None;
        }
        let phase = state.phase;
        let holds = state.holds(phase);
        *holds = holds.saturating_add(1);
        drop(state);
        Some(Held(self.clone(), phase))
    }

    /// The service that a listener has.
    fn service(&self, state: &State) -> Option<Service> {
        (state.engine.state() == StateName::Listen).then(|| Service {
            device: self.device(),
            id: state.engine.service_id().0,
        })
    }

    /// Destroys the ID, for the consumer or one of the users of a listener. Waits for the handler if
    /// it runs. May sleep.
    pub(crate) fn destroy(self: &Arc<Self>, why: Destroy) {
        let mut state = self.state.lock();
        if state.shares > 1 {
            state.shares = state.shares.saturating_sub(1);
            // One at a time, so the other phase has no requests any more.
            self.wait_while(&mut state, |state| state.leaving);
            state.leaving = true;
            let phase = state.phase;
            state.phase = !phase;
            self.wait_while(&mut state, |state| *state.holds(phase) > 0);
            state.leaving = false;
            self.wake(&mut state);
            return;
        }
        self.read_notes(&mut state);
        let service = self.service(&state);
        let mut actions = state.engine.destroy(why);
        // Nobody is told any more.
        let _: Option<Event> = self.act(&mut state, &mut actions, None, None);
        state.gone = true;
        self.show(&state);
        if let Some(service) = service {
            self.cm.services.delete(&service, self);
        }
        drop(self.cm.conns.remove(self.number));
        let events = core::mem::replace(&mut state.events, KVec::new());
        let ways = (state.way.take(), core::mem::take(&mut state.old));
        self.wait_while(&mut state, |state| {
            state.running || state.leaving || state.holds != [0; 2]
        });
        drop(state);
        drop((events, ways));
        // The work item has a reference while it is queued or waits for its timer. If it runs, it finds
        // nothing to do.
        drop(workqueue::withdraw_delayed(self));
    }
}

impl Delayed for Conn {
    fn lease(&self) -> &QueueLease {
        &self.lease
    }
}
