// SPDX-License-Identifier: GPL-2.0

//! IDs: the calls of consumers, the events of providers, and the work between them.
//!
//! The consumer owns an ID until it destroys it, or until its handler refuses an event. The provider
//! has references, which may outlive the consumer's: then the ID is only memory.
//!
//! The provider's events come in any context, also under its locks. They wait in the ID, and work
//! on the module's ordered queue delivers them, one event per turn. So handlers of all IDs run one
//! after another, as with the C module, on which consumers rely: events of the ID of a request are
//! delivered after the request.
//!
//! Locks: `Id::inner`, taken in any context, innermost. Methods of the provider and of the consumer
//! are called without it, but for `iw_get_qp` and `iw_add_ref`.
//!
//! End of an ID: its state becomes `Destroyed`, after which no event is accepted. The provider is
//! told; requests that wait are rejected. Then the destruction waits for the turn that is running.

use crate::edge::id::deliver;
use crate::edge::id::Created;
use crate::edge::id::Given;
use crate::edge::id::Which;
use crate::edge::CmEvent;
use crate::edge::CmId;
use crate::edge::ConnParam;
use crate::edge::ConsumerRef;
use crate::edge::Device;
use crate::edge::Handler;
use crate::edge::Held;
use crate::edge::PrivateData;
use crate::edge::Qp;
use crate::event::Event;
use crate::event::Events;
use crate::event::Kind;
use crate::mapper;
use crate::mapper::Registration;
use crate::proto::conn::Conn;
use crate::proto::conn::End;
use crate::proto::conn::Refused;
use crate::proto::conn::Unable;
use crate::proto::message::Names;
use core::mem;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::impl_has_work;
use kernel::new_condvar;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::CondVar;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::edge::verbs::QpAttr;
use rdma::edge::OutParam;
use rdma::edge::Passed;
use rdma::module::Resident;
use rdma::new_spinlock_irq;
use rdma::sync::SpinLockIrq;
use rdma::workqueue::QueueLease;

/// Events of an active connection: reply, disconnection, close, and one more.
const ACTIVE: usize = 4;
/// Events of a passive connection: establishment, disconnection, close.
const PASSIVE: usize = 3;

/// An ID. C knows its first field.
#[pin_data]
#[repr(C)]
pub(crate) struct Id {
    #[pin]
    pub(crate) c: CmId,
    device: Device,
    #[pin]
    inner: SpinLockIrq<Inner>,
    /// Notified when the ID is no longer busy, and when a turn has ended.
    #[pin]
    changed: CondVar,
    #[pin]
    work: Work<Self>,
    /// C may call the functions in the structure as long as it exists.
    _resident: Resident,
}

struct Inner {
    conn: Conn<Qp>,
    /// The queue of the work. `None` after the destruction, because the provider may keep the ID
    /// longer than the module keeps the queue.
    queue: Option<QueueLease>,
    events: Events,
    /// An event is being delivered.
    in_turn: bool,
    /// Registration with the port mapper. `None` after the destruction.
    mapping: Option<Registration>,
}

impl Inner {
    /// Queues the work of `id`, unless it is queued, or destroyed.
    fn schedule(&self, id: Arc<Id>) {
        if let Some(queue) = &self.queue {
            let _: Result<(), Arc<Id>> = queue.enqueue(id);
        }
    }
}

impl_has_work! {
    impl HasWork<Self> for Id { self.work }
}

impl Id {
    fn new(
        device: Device,
        handler: Handler,
        context: Passed<c_void>,
        conn: Conn<Qp>,
    ) -> Result<Arc<Self>> {
        let inner = Inner {
            conn,
            queue: Some(crate::queue().ok_or(ENOMEM)?),
            events: Events::none(),
            in_turn: false,
            mapping: None,
        };
        let c = CmId::new(device, handler, context);
        Arc::pin_init(
            pin_init!(Self {
                c <- c,
                device,
                inner <- new_spinlock_irq!(inner, "Id::inner"),
                changed <- new_condvar!("Id::changed"),
                work <- new_work!("Id::work"),
                _resident: rdma::resident!(),
            }),
            GFP_KERNEL,
        )
    }

    /// Asks the port mapper for mapped addresses. Without a port mapper, they are the real ones.
    ///
    /// # Errors
    ///
    /// `EINVAL` if a name is too long, or an address not of IP; `ENOMEM`.
    fn map(&self, active: bool) -> Result {
        let names = Names::new(
            until_nul(&self.device.name()),
            until_nul(&self.device.interface()),
        )
        .map_err(|_| EINVAL)?;
        let (local, remote) = (self.c.address(Which::Local), self.c.address(Which::Remote));
        self.c.set_address(Which::MappedLocal, &local);
        self.c.set_address(Which::MappedRemote, &remote);

        let peer = active.then_some(&remote);
        let Some(mapped) = mapper::map(&names, self.device.has_no_port_map(), &local, peer)? else {
            return Ok(());
        };
        self.c.mark_mapped();
        self.c.set_address(Which::MappedLocal, &mapped.local);
        if let Some(mapped_remote) = mapped.remote {
            let actual = mapped_remote.unless_wildcard(&mapped_remote, &remote);
            self.c.set_address(Which::MappedRemote, &actual);
        }
        let old = self.inner.lock().mapping.replace(mapped.registration);
        drop(old);
        Ok(())
    }

    /// The provider has refused to connect or to accept.
    fn failed(&self) {
        let qp = self.inner.lock().conn.failed();
        if let Some(qp) = qp {
            drop(qp);
            self.left();
        }
    }

    /// The call that ended the connection's setup is over.
    fn left(&self) {
        self.inner.lock().conn.left();
        self.changed.notify_all();
    }

    /// See [`reject`](fn@reject).
    fn reject(&self, data: PrivateData, len: u8) -> Result {
        let begun = self.inner.lock().conn.reject();
        begun.map_err(|Refused(())| EINVAL)?;
        let result = self.device.reject(&self.c, data, len);
        self.left();
        result
    }

    /// Takes the oldest event and its steps. `None` if there is none.
    fn begin(&self) -> Option<Turn> {
        let mut inner = self.inner.lock();
        let mut event = inner.events.pop()?;
        inner.in_turn = true;
        let Some(happened) = event.of_connection() else {
            return Some(Turn::Request(event));
        };
        let step = inner.conn.event(happened);
        if step.deliver && event.kind == Kind::Reply && event.status == 0 {
            // The provider knows the mapped addresses, the consumer the real ones.
            self.c.set_address(Which::MappedLocal, &event.local);
            self.c.set_address(Which::MappedRemote, &event.remote);
            event.local = self.c.address(Which::Local);
            event.remote = self.c.address(Which::Remote);
        }
        Some(Turn::Event {
            event,
            deliver: step.deliver,
            unused: step.unused,
        })
    }

    /// Ends a turn, and queues the next one if more events wait.
    fn end_turn(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.in_turn = false;
        if !inner.events.is_empty() {
            inner.schedule(self.clone());
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// Delivers a request to a listener's consumer, with a new ID.
    ///
    /// If the ID cannot be created, the request is dropped.
    fn request(&self, mut event: Event) {
        // A request has no status.
        if event.status != 0 {
            return;
        }
        let Ok(id) = self.id_of(&mut event) else {
            return;
        };
        let events = Events::new(PASSIVE);
        let listening = self.inner.lock().conn.is_listening();
        match events {
            Ok(events) if listening => id.inner.lock().events = events,
            _ => {
                finish(&id, Waits::No);
                return;
            }
        }
        ConsumerRef::lend(id.clone());
        if let Some(consumer) = deliver(&id, &mut event) {
            refuse(&id, consumer);
        }
    }

    /// Creates the ID of a request.
    fn id_of(&self, event: &mut Event) -> Result<Arc<Self>> {
        let c = &self.c;
        let id = Self::new(self.device, c.handler(), c.context(), Conn::requested())?;
        id.c.set_provider_data(event.provider_data);
        id.c.set_address(Which::MappedLocal, &event.local);
        id.c.set_address(Which::MappedRemote, &event.remote);

        let mapped = c.address(Which::MappedLocal);
        let mut local = c.address(Which::Local);
        if let Some(remote) = mapper::take_remote(&mapped, &event.remote) {
            local = local.unless_wildcard(&mapped, &event.local);
            event.local = local;
            event.remote = remote;
        }
        id.c.set_address(Which::Local, &local);
        id.c.set_address(Which::Remote, &event.remote);
        Ok(id)
    }
}

/// What a turn does.
enum Turn {
    /// A connection request.
    Request(Event),
    /// Another event, whose steps were taken.
    Event {
        event: Event,
        deliver: bool,
        unused: Option<Qp>,
    },
}

impl WorkItem for Id {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let Some(turn) = this.begin() else {
            return;
        };
        match turn {
            Turn::Request(event) => this.request(event),
            Turn::Event {
                mut event,
                deliver: told,
                unused,
            } => {
                drop(unused);
                if told {
                    if let Some(consumer) = deliver(&this, &mut event) {
                        refuse(&this, consumer);
                    }
                }
            }
        }
        this.end_turn();
    }
}

/// The consumer's handler has refused an event: destroys the ID. For a turn.
fn refuse(id: &Arc<Id>, consumer: ConsumerRef) {
    match finish(id, Waits::No) {
        true => drop(consumer),
        // The consumer destroys it itself, and waits for the turn.
        false => consumer.leave(),
    }
}

/// Whether the destruction waits for a running turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// It does.
    Yes,
    /// It is part of a turn, or the ID has none.
    No,
}

/// Destroys an ID. Returns false if another caller does. May sleep.
fn finish(id: &Id, waits: Waits) -> bool {
    let mut inner = id.inner.lock();
    let end = loop {
        let end = match waits {
            Waits::Yes => inner.conn.destroy(),
            // Events of the setup could not be delivered before this turn has ended.
            Waits::No => inner.conn.abandon(),
        };
        match end {
            Ok(end) => break end,
            Err(Unable::Busy) => id.changed.wait(&mut inner),
            Err(Unable::Begun) => return false,
        }
    };
    let mapping = inner.mapping.take();
    drop(inner);

    match end {
        End::Quiet(qp) => drop(qp),
        End::Unlisten => id.device.unlisten(&id.c),
        End::Reject => {
            let _: Result = id.device.reject(&id.c, PrivateData::NONE, 0);
        }
        End::Abort(qp) => qp.abort(),
    }
    // No event is accepted any more. Those that wait are not delivered, but the provider must learn
    // that a request is rejected.
    let (mut events, lease) = {
        let mut inner = id.inner.lock();
        let events = mem::replace(&mut inner.events, Events::none());
        (events, inner.queue.take())
    };
    drop(lease);
    while let Some(mut event) = events.pop() {
        if event.kind == Kind::Request && event.status == 0 {
            if let Ok(request) = id.id_of(&mut event) {
                finish(&request, Waits::No);
            }
        }
    }
    if waits == Waits::Yes {
        let mut inner = id.inner.lock();
        while inner.in_turn {
            id.changed.wait(&mut inner);
        }
    }
    drop(mapping);
    true
}

/// Handles an event of the provider. Any context.
///
/// # Errors
///
/// `ENOMEM` if there is no memory, or no place for one more event: the provider must reject a
/// request. `EINVAL` for an unknown type.
pub(crate) fn event(id: Held<'_>, event: &CmEvent) -> Result {
    let event = Event::copy(event)?;
    let mut inner = id.inner.lock();
    let kind = event.kind;
    let refused = match inner.conn.is_destroyed() {
        true => Err(event),
        false => inner.events.push(event),
    };
    let destroyed = inner.conn.is_destroyed();
    if refused.is_ok() {
        inner.schedule(id.own());
    }
    drop(inner);
    match refused {
        Ok(()) => Ok(()),
        // Nobody is left to be told.
        Err(_) if destroyed && kind != Kind::Request => Ok(()),
        Err(_) => Err(ENOMEM),
    }
}

/// Creates an ID. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn create(device: Device, handler: Handler, context: Passed<c_void>) -> Result<Created> {
    Id::new(device, handler, context, Conn::Idle).map(Created)
}

/// Destroys an ID. Waits until it is not busy, and until no handler of it runs. Not from its own
/// handler. May sleep.
pub(crate) fn destroy(Given(id): Given) {
    finish(&id, Waits::Yes);
}

/// Listens for requests, of which `backlog` may wait. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` unless idle; errors of the provider.
pub(crate) fn listen(id: Held<'_>, backlog: c_int) -> Result {
    let backlog = match backlog {
        0 => crate::DEFAULT_BACKLOG.get(),
        backlog => backlog,
    };
    let mut events = Events::new(usize::try_from(backlog).map_err(|_| ENOMEM)?)?;
    {
        let mut inner = id.inner.lock();
        inner.conn.listen().map_err(|Refused(())| EINVAL)?;
        mem::swap(&mut inner.events, &mut events);
    }
    drop(events);
    let result = id
        .map(false)
        .and_then(|()| id.device.listen(&id.c, backlog));
    id.inner.lock().conn.listened(result.is_ok());
    id.changed.notify_all();
    result
}

/// Accepts a request. An event follows, until which the ID is busy. May sleep.
///
/// # Errors
///
/// `EINVAL` if there is no request, or no such queue pair; errors of the provider.
pub(crate) fn accept(id: Held<'_>, param: &ConnParam) -> Result {
    {
        let mut inner = id.inner.lock();
        if !inner.conn.is_requested() {
            return Err(EINVAL);
        }
        let qp = id.device.qp(param.qpn()).ok_or(EINVAL)?;
        inner.conn.accept(qp).map_err(|Refused(_)| EINVAL)?;
    }
    id.device.accept(&id.c, param).inspect_err(|_| id.failed())
}

/// Rejects a request. No event follows. May sleep.
///
/// # Errors
///
/// `EINVAL` if there is no request, or if it was accepted; errors of the provider.
pub(crate) fn reject(id: Held<'_>, data: PrivateData, len: u8) -> Result {
    id.reject(data, len)
}

/// Requests a connection. A reply follows, until which the ID is busy. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` unless idle, or if there is no such queue pair; errors of the provider.
pub(crate) fn connect(id: Held<'_>, param: &ConnParam) -> Result {
    let mut events = Events::new(ACTIVE)?;
    {
        let mut inner = id.inner.lock();
        if !inner.conn.is_idle() {
            return Err(EINVAL);
        }
        let qp = id.device.qp(param.qpn()).ok_or(EINVAL)?;
        inner.conn.connect(qp).map_err(|Refused(_)| EINVAL)?;
        mem::swap(&mut inner.events, &mut events);
    }
    drop(events);
    id.map(true)
        .and_then(|()| id.device.connect(&id.c, param))
        .inspect_err(|_| id.failed())
}

/// Disconnects, once the ID is not busy. Nothing happens if it is not connected. May sleep.
///
/// # Errors
///
/// `EINVAL` for a listener.
pub(crate) fn disconnect(id: Held<'_>, abrupt: c_int) -> Result {
    let qp = {
        let mut inner = id.inner.lock();
        while inner.conn.delays_disconnect() {
            id.changed.wait(&mut inner);
        }
        let qp = inner.conn.disconnect().map_err(|Refused(())| EINVAL)?;
        qp.cloned()
    };
    match qp {
        Some(qp) if abrupt != 0 => qp.abort(),
        Some(qp) => qp.finish(),
        None => (),
    }
    Ok(())
}

/// Returns the attributes for the transition of a queue pair to the state that `attr` names.
///
/// # Errors
///
/// `EINVAL` for other states than `INIT`, `RTR` and `RTS`, for a listener, and after a
/// disconnection.
pub(crate) fn init_qp_attr(id: Held<'_>, attr: &QpAttr, mut mask: OutParam<'_, c_int>) -> Result {
    let with_access = match attr.qp_state() {
        bindings::ib_qp_state_IB_QPS_INIT | bindings::ib_qp_state_IB_QPS_RTR => true,
        bindings::ib_qp_state_IB_QPS_RTS => false,
        _ => return Err(EINVAL),
    };
    if !id.inner.lock().conn.gives_attributes() {
        return Err(EINVAL);
    }
    // CAST: Small numbers.
    if with_access {
        mask.set(
            (bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS)
                as c_int,
        );
        attr.set_qp_access_flags(
            (bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ) as c_int,
        );
    } else {
        mask.set(0);
    }
    Ok(())
}

/// Returns the text for the status of a reply.
pub(crate) fn reject_msg(reason: c_int) -> *const c_char {
    // CAST: Small numbers.
    const RESET: c_int = bindings::ECONNRESET as c_int;
    const REFUSED: c_int = bindings::ECONNREFUSED as c_int;
    const TIMED_OUT: c_int = bindings::ETIMEDOUT as c_int;
    let text = match reason.checked_neg() {
        Some(RESET) => c"reset by remote host",
        Some(REFUSED) => c"refused by remote application",
        Some(TIMED_OUT) => c"setup timeout",
        _ => c"unrecognized reason",
    };
    text.as_char_ptr()
}

/// The bytes before the first NUL, or all.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}
