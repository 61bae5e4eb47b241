// SPDX-License-Identifier: GPL-2.0

//! Delivery of events to consumers, and what follows: the end of IDs.

use crate::device;
use crate::edge::event::Event;
use crate::edge::id::HandlerGuard;
use crate::edge::id::Id;
use crate::edge::id::Kind;
use crate::edge::trace;
use crate::edge::trace::Step;
use crate::listen;
use crate::mcast;
use crate::news;
use crate::ports;
use crate::proto::event::Kind as Told;
use crate::proto::event::Status;
use crate::proto::state::After;
use crate::proto::state::Answer;
use crate::proto::state::Cause;
use crate::proto::state::Pending;
use crate::proto::state::Turn;
use kernel::ffi::c_int;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// How a delivery ended.
pub(crate) enum Delivered<'a> {
    /// The ID stays; its lock is still held.
    Kept(HandlerGuard<'a>),
    /// The consumer wants the ID destroyed. Its answer, and what to call without locks.
    Ended(c_int, End),
}

/// An ID that must be finished.
#[must_use = "the ID must be finished"]
pub(crate) struct End(Pending);

impl End {
    /// Destroys the ID. May sleep; without locks, and not by a user of the ID's transport.
    pub(crate) fn finish(self, id: &Arc<Id>) {
        finish(id, self.0);
    }
}

/// Begins to destroy an ID, of which its consumer is told nothing any more. `None`: it is being
/// destroyed already.
pub(crate) fn begin_end(id: &Id, _held: &HandlerGuard<'_>) -> Option<End> {
    id.with(|inner| inner.life.destroy()).map(End)
}

/// Delivers an event, if the state allows it.
pub(crate) fn deliver<'a>(
    id: &'a Id,
    guard: HandlerGuard<'a>,
    cause: Cause,
    event: &mut Event,
    status: Status,
) -> Delivered<'a> {
    let delivery = match id.with(|inner| inner.life.begin(cause)) {
        Turn::Deliver(delivery) => delivery,
        Turn::Drop | Turn::Busy => return Delivered::Kept(guard),
    };
    event.set(delivery.kind, status.raw());
    let answer = id.call(event, &guard);
    let said = if answer == 0 {
        Answer::Keep
    } else {
        Answer::Destroy
    };
    match id.with(|inner| inner.life.over(delivery, said)) {
        // Only a removal, which is not delivered here, is answered by the latter.
        After::Keep | After::Removed(_) => Delivered::Kept(guard),
        After::Destroy(pending) => {
            drop(guard);
            Delivered::Ended(answer, End(pending))
        }
    }
}

/// Delivers the result of a call that is known when the call returns. A program's ID is told at once:
/// `rdma_ucm` queues what it is told, and its calls hold no lock that its handler takes. Modules are told
/// by the work item, and so are IDs that joined groups, which the work item may still have to tell of
/// that. May sleep; without locks.
pub(crate) fn result(id: &Arc<Id>, cause: Cause, status: Status) {
    match id.kind {
        Kind::Program if id.groups.lock().is_empty() => {
            let _stays = tell(id, cause, status);
        }
        Kind::Plain | Kind::Program | Kind::Request | Kind::Internal(_) => {
            Id::queue(id, cause, status)
        }
    }
}

/// Delivers an event without data. May sleep; without locks. Returns whether the ID stays.
fn tell(id: &Arc<Id>, cause: Cause, status: Status) -> bool {
    match deliver(id, id.lock(), cause, &mut Event::new(), status) {
        Delivered::Kept(guard) => {
            drop(guard);
            true
        }
        Delivered::Ended(_, end) => {
            end.finish(id);
            false
        }
    }
}

/// Delivers the events of the work item.
pub(crate) fn queued(id: &Arc<Id>) {
    mcast::tell(id);
    let queued = id.with(|inner| inner.queued.take());
    let news = [
        queued,
        id.moved
            .xchg(false, Relaxed)
            .then_some((Cause::Around(Told::AddrChange), Status::Ok)),
        id.lost
            .xchg(false, Relaxed)
            .then_some((Cause::Around(Told::Unreachable), Status::TimedOut)),
    ];
    for (cause, status) in news.into_iter().flatten() {
        if !tell(id, cause, status) {
            return;
        }
    }
}

/// Tells the consumer that the device is being removed.
pub(crate) fn removal(id: &Arc<Id>) {
    let guard = id.lock();
    let delivery = match id.with(|inner| inner.life.remove()) {
        Turn::Deliver(delivery) => delivery,
        // It is being destroyed.
        Turn::Drop | Turn::Busy => return,
    };
    let mut event = Event::new();
    event.set(delivery.kind, 0);
    let said = if id.call(&mut event, &guard) == 0 {
        Answer::Keep
    } else {
        Answer::Destroy
    };
    let after = id.with(|inner| inner.life.over(delivery, said));
    drop(guard);
    match after {
        After::Keep => {}
        After::Removed(pending) => cancel(id, pending),
        After::Destroy(pending) => finish(id, pending),
    }
}

/// Destroys an ID. May sleep; not from its callback.
pub(crate) fn destroy(id: &Arc<Id>) {
    let guard = id.lock();
    let end = begin_end(id, &guard);
    drop(guard);
    if let Some(end) = end {
        end.finish(id);
    }
}

/// Cancels what is in progress. May sleep.
fn cancel(id: &Arc<Id>, pending: Pending) {
    match pending {
        Pending::Nothing => {}
        Pending::Route | Pending::Service => {
            if let Some(query) = id.with(|inner| inner.query.take()) {
                query.cancel();
            }
        }
        Pending::Addr => id.cancel_resolve_ip(),
        Pending::Listen => listen::close(id),
    }
}

/// Ends an ID, whose state is `Destroying`. May sleep.
fn finish(id: &Arc<Id>, pending: Pending) {
    trace::step(id, Step::Destroy);
    cancel(id, pending);
    id.untrack();
    news::remove(id);
    // Waits for users of the transport's ID and for its handler.
    drop(id.take_transport());
    mcast::leave_all(id);
    device::detach(id);
    ports::release(id);
    drop(id.reclaim());
}

/// The transport destroys its ID, because its handler will not return 0.
pub(crate) fn give_up_transport(id: &Id) {
    if let Some(transport) = id.take_transport() {
        transport.give_up();
    }
}
