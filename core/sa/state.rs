// SPDX-License-Identifier: GPL-2.0

//! The queries that are under way, and those of them that the local service was asked for.
//!
//! A query is in the table from before it is sent until it is complete; who takes it out
//! completes it. What the local service does not answer in time is sent to the administrator,
//! by the worker of this, and so is what is cancelled completed: users are called by workers
//! only.

use core::ptr;
use kernel::alloc::Flags;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::time::Delta;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::sync::SpinLockIrq;
use rdma::timer::impl_has_timer;
use rdma::timer::monotonic_nanos;
use rdma::timer::new_timer;
use rdma::timer::Armed;
use rdma::timer::Timer;
use rdma::timer::TimerCallback;
use rdma::workqueue;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

use super::edge::Published;
use super::port::Port;
use super::query::Query;
use crate::proto::sa::local::Patience;
use crate::proto::sa::query::Cancel;
use crate::proto::sa::query::Phase;
use crate::proto::sa::query::Tickets;
use crate::proto::sa::query::ID_BITS;
use crate::proto::sa::query::SEQ_BITS;

/// A query and where it is.
struct Entry {
    query: Arc<Query>,
    phase: Phase,
}

/// The queries.
struct Table {
    tickets: Tickets,
    live: RBTree<u64, Entry>,
    /// Those that the local service was asked for, and when, in milliseconds. Numbers only
    /// grow, so they are in the order of their age.
    local: RBTree<u64, u64>,
    /// Those of them that were cancelled.
    cancelled: RBTree<u64, u64>,
}

impl Table {
    /// Takes a query out of those that the local service was asked for, to send it.
    fn take_local(&mut self, ticket: u64) -> Option<Arc<Query>> {
        self.local.remove(&ticket)?;
        let entry = self.live.get_mut(&ticket)?;
        entry.phase = Phase::Sending { cancelled: false };
        Some(entry.query.clone())
    }

    /// Takes a query out, to complete it.
    fn take(&mut self, ticket: u64) -> Option<Arc<Query>> {
        self.local.remove(&ticket);
        self.cancelled.remove(&ticket);
        self.live.remove(&ticket).map(|entry| entry.query)
    }

    /// Marks a query of the local service as cancelled.
    fn mark(&mut self, ticket: u64) {
        if let Some(node) = self.local.remove_node(&ticket) {
            self.cancelled.insert(node);
        }
    }
}

/// What the worker does next.
enum Next {
    /// Complete a query that was cancelled.
    Complete(Arc<Query>),
    /// Send one that the local service did not answer.
    Send(Arc<Query>),
    /// Wait so many milliseconds.
    Wait(u64),
    Rest,
}

/// The state of this part, while the module is there.
#[pin_data]
pub(super) struct State {
    #[pin]
    table: SpinLockIrq<Table>,
    /// How long the local service is waited for, in milliseconds.
    patience: Atomic<u32>,
    /// Where transactions begin, so that those of an earlier life of the module are not taken
    /// for ours.
    salt: u32,
    /// The queue of the worker.
    queue: QueueLease,
    #[pin]
    sweep: Work<Self>,
    #[pin]
    alarm: Timer<Self>,
}

impl_has_work! {
    impl HasWork<Self> for State { self.sweep }
}
impl_has_timer! {
    impl HasTimer for State { self.alarm }
}

/// Where the state is, while there is a [`Shared`].
static STATE: Published<State> = Published::new();

/// The state and its queue.
pub(super) struct Shared {
    state: Arc<State>,
    // After the state, which has a lease of it.
    _queue: OwnedQueue,
}

impl Shared {
    /// May sleep. One at a time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let queue = QueueOptions::ordered()
            .mem_reclaim()
            .create(c"ib_nl_sa_wq")?;
        let lease = queue.lease();
        let state = Arc::pin_init(
            pin_init!(State {
                table <- rdma::new_spinlock_irq!(Table {
                    tickets: Tickets::new(),
                    live: RBTree::new(),
                    local: RBTree::new(),
                    cancelled: RBTree::new(),
                }, "Sa::queries"),
                patience: Atomic::new(Patience::DEFAULT.0),
                salt: super::edge::random(),
                queue: lease,
                sweep <- new_work!("Sa::sweep"),
                alarm <- new_timer!("Sa::alarm"),
            }),
            GFP_KERNEL,
        )?;
        STATE.set(Some(state.clone()));
        Ok(Self {
            state,
            _queue: queue,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        Timer::<State>::shutdown(&self.state);
        drop(workqueue::disable::<State, 0>(&self.state));
        kernel::warn_on!(!self.state.table.lock().live.is_empty());
        STATE.set(None);
    }
}

/// The state.
fn state() -> Option<Arc<State>> {
    STATE.get()
}

/// Milliseconds since boot.
fn now() -> u64 {
    monotonic_nanos() / 1_000_000
}

/// The number of a new query, and the lower half of its transaction's.
pub(super) fn ticket() -> Result<(u64, u32)> {
    let state = state().ok_or(ENODEV)?;
    let ticket = state.table.lock().tickets.issue();
    // CAST: The lower bits differ between queries of the same time.
    Ok((ticket, (ticket as u32).wrapping_add(state.salt)))
}

/// How users know a query.
pub(super) fn id(ticket: u64) -> i32 {
    // CAST: So many bits are not negative.
    (ticket & ((1 << ID_BITS) - 1)) as i32
}

/// How the local service knows a query.
pub(super) fn seq(ticket: u64) -> u32 {
    // CAST: Its lower bits.
    ticket as u32
}

/// Puts a query into the table; `local` if the local service is going to be asked.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn enter(query: &Arc<Query>, local: bool, flags: Flags) -> Result {
    let state = state().ok_or(ENODEV)?;
    let ticket = query.ticket();
    let phase = if local {
        Phase::Local
    } else {
        Phase::Sending { cancelled: false }
    };
    let entry = Entry {
        query: query.clone(),
        phase,
    };
    let node = RBTreeNode::new(ticket, entry, flags)?;
    let asked = match local {
        true => Some(RBTreeNode::new(ticket, now(), flags)?),
        false => None,
    };
    let mut table = state.table.lock();
    table.live.insert(node);
    if let Some(asked) = asked {
        table.local.insert(asked);
        drop(table);
        state.arm(Patience(state.patience.load(Relaxed)).0.into());
    }
    Ok(())
}

/// The local service could not be asked: the caller sends the query. Not if somebody else has
/// it already.
#[must_use]
pub(super) fn was_not_asked(ticket: u64) -> bool {
    state().is_some_and(|state| state.table.lock().take_local(ticket).is_some())
}

/// A query was sent. Whether it is to be cancelled now.
#[must_use]
pub(super) fn was_sent(ticket: u64) -> bool {
    state().is_some_and(|state| {
        let mut table = state.table.lock();
        table
            .live
            .get_mut(&ticket)
            .is_some_and(|entry| entry.phase.sent())
    })
}

/// Takes a query out of the table, to complete it. Who gets none does not complete it.
pub(super) fn take(ticket: u64) -> Option<Arc<Query>> {
    state()?.table.lock().take(ticket)
}

/// The local service has answered. `known` takes the query out to complete it; otherwise it is
/// to be sent.
pub(super) fn answered(seq: u32, known: bool) -> Option<Arc<Query>> {
    let state = state()?;
    let mut table = state.table.lock();
    let ticket = table.tickets.by_low(seq, SEQ_BITS)?;
    let query = table.take_local(ticket)?;
    if known {
        table.live.remove(&ticket);
    }
    Some(query)
}

/// Cancels a query, if this is the number that goes with it. Any context.
pub(super) fn cancel(id: i32, query: *const Query) {
    let (Some(state), Ok(id)) = (state(), u32::try_from(id)) else {
        return;
    };
    let mut table = state.table.lock();
    let Some(ticket) = table.tickets.by_low(id, ID_BITS) else {
        return;
    };
    let Some(entry) = table.live.get_mut(&ticket) else {
        return;
    };
    // The pointer may be that of a query that is long gone: it is only compared.
    if !ptr::eq(Arc::as_ptr(&entry.query), query) {
        return;
    }
    let (what, query) = (entry.phase.cancel(), entry.query.clone());
    if what == Cancel::Complete {
        table.mark(ticket);
    }
    drop(table);
    match what {
        Cancel::Nothing => {}
        Cancel::Complete => state.sweep(),
        Cancel::Datagram => query.cancel(),
    }
}

/// Completes what a port waits for from the local service, and waits for that. May sleep.
pub(super) fn abandon(port: &Arc<Port>) {
    let Some(state) = state() else { return };
    let mut table = state.table.lock();
    let mut from = 0;
    loop {
        let next = table
            .local
            .cursor_lower_bound(&from)
            .map(|cursor| *cursor.current().0);
        let Some(ticket) = next else { break };
        from = ticket.saturating_add(1);
        let ours = table
            .live
            .get(&ticket)
            .is_some_and(|entry| Arc::ptr_eq(entry.query.port(), port));
        if ours {
            table.mark(ticket);
        }
    }
    drop(table);
    state.sweep();
    workqueue::flush::<State, 0>(&state);
}

/// Sets how long the local service is waited for, also of what is asked already.
pub(super) fn set_patience(patience: Patience) {
    if let Some(state) = state() {
        state.patience.store(patience.0, Relaxed);
        // It looks at all anew, and waits for the rest.
        state.sweep();
    }
}

impl State {
    /// What is to be done, if anything.
    fn next(&self) -> Next {
        let now = now();
        let patience = Patience(self.patience.load(Relaxed));
        let mut table = self.table.lock();
        let cancelled = table.cancelled.cursor_front().map(|c| *c.current().0);
        if let Some(ticket) = cancelled {
            return match table.take(ticket) {
                Some(query) => Next::Complete(query),
                None => Next::Wait(1),
            };
        }
        let oldest = table.local.cursor_front().map(|cursor| {
            let (ticket, asked) = cursor.current();
            (*ticket, *asked)
        });
        let Some((ticket, asked)) = oldest else {
            return Next::Rest;
        };
        match patience.left(asked, now) {
            Some(left) => Next::Wait(left),
            None => match table.take_local(ticket) {
                Some(query) => Next::Send(query),
                None => Next::Wait(1),
            },
        }
    }
}

/// What is done with the state in an `Arc`.
trait Kept {
    fn sweep(&self);
    fn arm(&self, millis: u64);
}

impl Kept for Arc<State> {
    /// Has the worker look. Any context.
    fn sweep(&self) {
        let _ = self.queue.enqueue::<Arc<State>, 0>(self.clone());
    }

    /// Has the worker look in so many milliseconds, if not earlier. Any context.
    fn arm(&self, millis: u64) {
        let delay = Delta::from_millis(i64::try_from(millis).unwrap_or(i64::MAX / 1_000_000_000));
        let _: Armed =
            Timer::<State>::arm_if_earlier(self.as_arc_borrow(), rdma::timer::after(delay));
    }
}

impl TimerCallback for State {
    fn run(this: ArcBorrow<'_, Self>) {
        Arc::from(this).sweep();
    }
}

impl WorkItem for State {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            match this.next() {
                Next::Complete(query) => query.complete(Err(EINTR)),
                Next::Send(query) => query.send_or_complete(EINTR),
                Next::Wait(millis) => return this.arm(millis),
                Next::Rest => return,
            }
        }
    }
}
