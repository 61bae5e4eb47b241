// SPDX-License-Identifier: GPL-2.0

//! Address resolution requests of connection managers (`rdma_resolve_ip`). The state machine is
//! [`crate::proto::resolve`]; this file has the request table, the worker and its wakeups.
//!
//! The callback always runs from the workqueue with no lock held, so it may also cancel its own
//! request.

use super::attempt;
use super::attempt::Source;
use super::edge::Asker;
use crate::netlink;
use crate::proto::resolve;
use crate::proto::resolve::table;
use crate::proto::resolve::table::Entry;
use crate::proto::resolve::table::Heads;
use crate::proto::resolve::table::Slot;
use crate::proto::resolve::Cancelled;
use crate::proto::resolve::Life;
use crate::proto::resolve::Next;
use crate::proto::resolve::Outcome;
use crate::proto::resolve::Turn;
use crate::proto::resolve::Verdict;
use core::net::IpAddr;
use kernel::impl_has_delayed_work;
use kernel::new_delayed_work;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::time::msecs_to_jiffies;
use kernel::time::Instant;
use kernel::time::Monotonic;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::WorkItem;
use rdma::errno::ecanceled;
use rdma::net::neighbour::NeighbourId;
use rdma::sync::bh;
use rdma::sync::init_once;
use rdma::workqueue::Delayed;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

/// GID in a response from user space.
type Gid = [u8; 16];

type Slots = KVVec<Slot<Gid, Arc<Request>, NeighbourId>>;
type Table = table::Table<Slots, KVVec<Heads>>;

impl table::Neighbour for NeighbourId {
    fn hash(&self) -> u64 {
        NeighbourId::hash(self)
    }
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before requests are possible.
    unsafe(uninit) static TABLE: SpinLock<Table> = Table::new(KVVec::new(), KVVec::new());
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before requests are possible. It is `Some`
    // while a `Subsystem` exists.
    unsafe(uninit) static QUEUE: SpinLock<Option<QueueLease>> = None;
}

/// ID of the most recent request.
static LAST: Atomic<u64> = Atomic::<u64>::new(0);

/// Runs `f` on the locked request table. Bottom halves are off: neighbours also change in softirq.
fn with_table<R>(f: impl FnOnce(&mut Table) -> R) -> R {
    let _bh = bh::disable();
    // A local so that the lock is dropped before `_bh`: temporaries of a tail expression live
    // longer.
    let mut table = TABLE.lock();
    f(&mut table)
}

/// The workqueue of requests; dropping it finishes the queued work.
pub(super) struct Subsystem {
    _queue: OwnedQueue,
}

impl Subsystem {
    /// Initialises the statics. Must be called only once. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        init_once(&TABLE);
        init_once(&QUEUE);
        let queue = QueueOptions::unbound().create(c"ib_addr", rdma::resident!())?;
        *QUEUE.lock() = Some(queue.lease());
        Ok(Self { _queue: queue })
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // Statics are not dropped, so free the table's memory here.
        let table =
            with_table(|table| core::mem::replace(table, Table::new(KVVec::new(), KVVec::new())));
        // Users hold a module reference and cancel their requests before they drop it.
        kernel::warn_on!(!table.is_empty());
        drop(QUEUE.lock().take());
    }
}

/// Mutable part of a request: what an attempt needs, and the requester.
struct Asked {
    source: Source,
    /// `None` after the callback or a cancellation: the requester's structure is no longer lent.
    asker: Option<Asker>,
}

/// An address resolution request.
#[pin_data]
pub(super) struct Request {
    id: u64,
    /// Slot in the table; changed only by `insert`.
    at: Atomic<u32>,
    /// Destination address; same family as the source.
    to: IpAddr,
    queue: QueueLease,
    since: Instant<Monotonic>,
    /// Held during an attempt; there is never more than one at a time.
    #[pin]
    asked: Mutex<Asked>,
    #[pin]
    work: DelayedWork<Request>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Request { self.work }
}

impl Delayed for Request {
    fn lease(&self) -> &QueueLease {
        &self.queue
    }
}

/// Returns the current task in the form that [`resolve`] uses.
fn current() -> resolve::Task {
    // CAST: an address fits into 64 bits.
    kernel::current!().as_ptr().addr() as u64
}

/// Converts milliseconds to jiffies, rounding up.
fn jiffies(ms: u64) -> kernel::time::Jiffies {
    msecs_to_jiffies(u32::try_from(ms).unwrap_or(u32::MAX))
}

impl Request {
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(0)
    }

    /// Schedules the worker after `ms` milliseconds. The caller must hold the table lock, so that a
    /// finished request is not queued again.
    fn schedule(self: &Arc<Self>, ms: u64) {
        rdma::workqueue::modify_delayed::<Self, 0>(self, jiffies(ms));
    }

    /// Makes one attempt. `asked` must be the data of this request.
    fn attempt(&self, asked: &mut Asked) -> Outcome<Error> {
        let Asked { source, asker } = asked;
        match asker {
            Some(asker) => attempt::attempt(asker, source, self),
            None => Outcome::Failed(ecanceled()),
        }
    }

    /// Destination address; same family as the source.
    pub(super) fn to(&self) -> IpAddr {
        self.to
    }

    /// Number of the request in messages to user space.
    pub(super) fn seq(&self) -> u32 {
        // CAST: user space gets the low 32 bits of the ID.
        self.id as u32
    }

    /// From now on the request is woken when this neighbour becomes known; `None` for any.
    pub(super) fn watch(&self, neighbour: Option<NeighbourId>) {
        with_table(|table| table.watch(self.at.load(Relaxed), self.id, neighbour));
    }

    fn tell(&self, verdict: Verdict<Error, Gid>) {
        let (asker, source) = {
            let mut asked = self.asked.lock();
            (asked.asker.take(), asked.source.to_socket())
        };
        if let Some(asker) = asker {
            let result = match verdict {
                Verdict::Found(answer) => {
                    if let Some(gid) = answer {
                        attempt::set_gid(asker.addr(), &gid);
                    }
                    Ok(())
                }
                Verdict::TimedOut => Err(ETIMEDOUT),
                Verdict::Failed(error) => Err(error),
            };
            asker.tell(result, source);
        }
        // Nothing if the request was cancelled.
        self.leave();
    }

    /// Removes the request from the table, if it is there.
    fn leave(&self) {
        let gone = with_table(|table| table.remove(self.at.load(Relaxed), self.id));
        // Drop the reference outside the lock.
        drop(gone);
    }

    /// Returns the requester's structure. Waits for an attempt under way. May sleep.
    fn give_back(&self) {
        self.asked.lock().asker = None;
    }

    /// Runs `f` on the request's state; returns `None` if it is not in the table.
    fn with_life<R>(&self, f: impl FnOnce(&mut Life<Gid>) -> R) -> Option<R> {
        with_table(|table| {
            let entry = table.get(self.at.load(Relaxed), self.id)?;
            Some(f(&mut entry.life))
        })
    }
}

impl WorkItem for Request {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let me = current();
        match this.with_life(|life| life.turn(me)) {
            None | Some(Turn::Nothing) => {}
            Some(Turn::Tell(answer)) => this.tell(Verdict::Found(answer)),
            Some(Turn::Try) => {
                let outcome = this.attempt(&mut this.asked.lock());
                let now = this.now();
                let next = this.with_life(|life| {
                    let next = life.tried(outcome, now, me);
                    if let Next::Wait(ms) = next {
                        this.schedule(ms);
                    }
                    next
                });
                match next {
                    Some(Next::Tell(verdict)) => this.tell(verdict),
                    Some(Next::Wait(_) | Next::Nothing) | None => {}
                }
            }
        }
    }
}

/// Adds a request to the table. May sleep.
fn insert(request: &Arc<Request>, key: usize, life: Life<Gid>) -> Result {
    let mut entry = Entry {
        id: request.id,
        key,
        handle: request.clone(),
        life,
        waits_for: None,
    };
    loop {
        let put = with_table(|table| {
            table
                .insert(entry)
                .map(|slot| request.at.store(slot, Relaxed))
                .map_err(|entry| (entry, table.capacity()))
        });
        let (back, full) = match put {
            Ok(()) => return Ok(()),
            Err(full) => full,
        };
        entry = back;
        // Memory cannot be allocated under the lock. The capacity doubles, so this is rare.
        let wanted = full.saturating_mul(2).max(16);
        let mut slots = Slots::with_capacity(wanted, GFP_KERNEL)?;
        let mut heads = KVVec::with_capacity(wanted, GFP_KERNEL)?;
        for _ in 0..wanted {
            slots.push(Slot::new(), GFP_KERNEL)?;
            heads.push(Heads::EMPTY, GFP_KERNEL)?;
        }
        // Another task may have been faster. Drop what is not used outside the lock.
        let _old = with_table(|table| table.grow(slots, heads));
    }
}

/// Starts to resolve an address; the callback is called from the workqueue. May sleep.
///
/// # Errors
///
/// `ENOMEM`; errors of the first attempt; `ECANCELED` if the request was cancelled meanwhile. The
/// callback is not called then.
pub(super) fn ask(source: Source, to: IpAddr, asker: Asker, patience: u64) -> Result {
    let key = asker.key();
    let asked = Asked {
        source,
        asker: Some(asker),
    };
    let queue = QUEUE.lock().clone().ok_or(ENODEV)?;
    let request = Arc::pin_init(
        pin_init!(Request {
            id: LAST.fetch_add(1, Relaxed).wrapping_add(1),
            at: Atomic::new(u32::MAX),
            to,
            queue,
            since: Instant::now(),
            asked <- new_mutex!(asked, "addr::Request::asked"),
            work <- new_delayed_work!("addr::Request::work"),
        }),
        GFP_KERNEL,
    )?;
    // Insert the request before the first attempt, so that no wakeup is lost. Lock it before that:
    // a concurrent cancellation waits for the attempt.
    let mut asked = request.asked.lock();
    insert(&request, key, Life::new(patience))?;
    let outcome = request.attempt(&mut asked);
    drop(asked);
    let started = request.with_life(|life| {
        let started = life.started(outcome);
        if let Ok(ms) = started {
            request.schedule(ms);
        }
        started.map(drop)
    });
    match started {
        Some(Err(error)) => {
            request.leave();
            request.give_back();
            Err(error)
        }
        Some(Ok(())) => Ok(()),
        // The request was cancelled meanwhile.
        None => Err(ecanceled()),
    }
}

/// Cancels the requests whose result goes to `addr`. When this returns, their callbacks are not
/// called any more and `addr` is not accessed. May be called from the callback, which then is the
/// last one. May sleep.
pub(super) fn cancel(addr: usize) {
    let me = current();
    loop {
        let found = with_table(|table| table.cancel(addr, me));
        let Some((entry, what)) = found else { return };
        match what {
            Cancelled::Wait => drop(rdma::workqueue::cancel_delayed::<Request, 0>(&entry.handle)),
            Cancelled::Starting | Cancelled::ByItself => {}
        }
        // Waits for the first attempt. If the callback is running, there is nothing left to return.
        entry.handle.give_back();
    }
}

/// Wakes the requests that wait for a neighbour, which became known. Softirq or process context.
pub(super) fn wake(neighbour: NeighbourId) {
    with_table(|table| table.wake(neighbour, |request| request.schedule(0)));
}

/// Handles a user program's response to a gateway request. Malformed responses, and responses that
/// match no request, are ignored.
pub(super) fn user_answer(answer: &netlink::Answer<'_>) {
    if let Some(gid) = attempt::gid_in(answer) {
        if !self::answer(answer.seq(), gid) {
            pr_info!("nobody waits for this GID of a gateway\n");
        }
    }
}

/// Passes the GID to the request with this sequence number. Returns whether there is one.
fn answer(seq: u32, gid: Gid) -> bool {
    with_table(|table| {
        let Some(entry) = table.find_answered(seq) else {
            return false;
        };
        match entry.life.answer(gid) {
            Some(true) => entry.handle.schedule(0),
            Some(false) => {}
            None => return false,
        }
        true
    })
}
