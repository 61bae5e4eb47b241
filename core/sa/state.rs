// SPDX-License-Identifier: GPL-2.0

//! Active queries, and those of them that wait for the local service.
//!
//! A query is in the table from before it is sent until it is complete; whoever removes it
//! completes it. A worker sends queries to the SA that the local service did not answer in time,
//! and completes cancelled ones. Users are called by workers only.

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

/// A query and its phase.
struct Entry {
    query: Arc<Query>,
    phase: Phase,
}

/// The active queries.
struct Table {
    tickets: Tickets,
    live: RBTree<u64, Entry>,
    /// Queries that wait for the local service, with the time of the request in milliseconds.
    /// Tickets only grow, so the oldest request comes first.
    local: RBTree<u64, u64>,
    /// Cancelled queries, removed from `local`.
    cancelled: RBTree<u64, u64>,
}

impl Table {
    /// Removes a query from those that wait for the local service, to send it.
    fn take_local(&mut self, ticket: u64) -> Option<Arc<Query>> {
        self.local.remove(&ticket)?;
        let entry = self.live.get_mut(&ticket)?;
        entry.phase = Phase::Sending { cancelled: false };
        Some(entry.query.clone())
    }

    /// Removes a query from the table, to complete it.
    fn take(&mut self, ticket: u64) -> Option<Arc<Query>> {
        self.local.remove(&ticket);
        self.cancelled.remove(&ticket);
        self.live.remove(&ticket).map(|entry| entry.query)
    }

    /// Marks a query that waits for the local service as cancelled.
    fn mark(&mut self, ticket: u64) {
        if let Some(node) = self.local.remove_node(&ticket) {
            self.cancelled.insert(node);
        }
    }
}

/// The next action of the worker.
enum Next {
    /// Complete a cancelled query.
    Complete(Arc<Query>),
    /// Send a query that the local service did not answer in time.
    Send(Arc<Query>),
    /// Run again after this many milliseconds.
    Wait(u64),
    Rest,
}

/// State of this part, while the module is loaded.
#[pin_data]
pub(super) struct State {
    #[pin]
    table: SpinLockIrq<Table>,
    /// Timeout of the local service, in milliseconds.
    patience: Atomic<u32>,
    /// Random offset of transaction IDs, so that a late response to an earlier instance of the
    /// module matches no query.
    salt: u32,
    /// Workqueue of `sweep`.
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

/// Refers to the state while a [`Shared`] exists.
static STATE: Published<State> = Published::new();

/// Owner of the state and of its workqueue.
pub(super) struct Shared {
    state: Arc<State>,
    // Dropped after the state, which holds a lease of it.
    _queue: OwnedQueue,
}

impl Shared {
    /// Creates and publishes the state. At most one may exist at a time. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let queue = QueueOptions::ordered()
            .mem_reclaim()
            .create(c"ib_nl_sa_wq", rdma::resident!())?;
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

/// Returns the state, while it exists.
fn state() -> Option<Arc<State>> {
    STATE.get()
}

/// Milliseconds since boot.
fn now() -> u64 {
    monotonic_nanos() / 1_000_000
}

/// Issues the ticket of a new query and the lower half of its transaction ID.
pub(super) fn ticket() -> Result<(u64, u32)> {
    let state = state().ok_or(ENODEV)?;
    let ticket = state.table.lock().tickets.issue();
    // CAST: The lower 32 bits differ between queries that are active at the same time.
    Ok((ticket, (ticket as u32).wrapping_add(state.salt)))
}

/// Id by which users know a query.
pub(super) fn id(ticket: u64) -> i32 {
    // CAST: `ID_BITS` is 31, so the value is not negative.
    (ticket & ((1 << ID_BITS) - 1)) as i32
}

/// Netlink sequence number by which the local service knows a query.
pub(super) fn seq(ticket: u64) -> u32 {
    // CAST: Only the lower bits are used.
    ticket as u32
}

/// Adds a query to the table. `local` says whether the local service will be asked.
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

/// The local service could not be asked. Returns true if the caller must send the query, false if
/// someone else has taken it already.
#[must_use]
pub(super) fn was_not_asked(ticket: u64) -> bool {
    state().is_some_and(|state| state.table.lock().take_local(ticket).is_some())
}

/// Records that a query was sent. Returns whether the caller must now cancel it.
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

/// Removes a query from the table. The caller completes the query only if it is returned.
pub(super) fn take(ticket: u64) -> Option<Arc<Query>> {
    state()?.table.lock().take(ticket)
}

/// Handles the response of the local service. If `known`, removes the query for completion;
/// otherwise the caller must send it.
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

/// Cancels a query if `id` and `query` match. Any context.
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
    // The pointer may be stale, so it is only compared.
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

/// Completes all queries of a port that wait for the local service, and waits for that. May sleep.
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

/// Sets the timeout of the local service, which also applies to outstanding requests.
pub(super) fn set_patience(patience: Patience) {
    if let Some(state) = state() {
        state.patience.store(patience.0, Relaxed);
        // The worker checks all requests again and rearms the timer.
        state.sweep();
    }
}

impl State {
    /// Selects the next action.
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

/// Operations on an `Arc` of the state.
trait Kept {
    fn sweep(&self);
    fn arm(&self, millis: u64);
}

impl Kept for Arc<State> {
    /// Queues the worker. Any context.
    fn sweep(&self) {
        let _ = self.queue.enqueue::<Arc<State>, 0>(self.clone());
    }

    /// Queues the worker in `millis` milliseconds, unless an earlier run is armed. Any context.
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
