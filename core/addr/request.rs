// SPDX-License-Identifier: GPL-2.0

//! Requests of connection managers to find where an IP address is, and from where it is
//! reached (`rdma_resolve_ip`). The rules are those of [`crate::proto::resolve`]; here is what
//! runs them: the table, the worker and what wakes it.
//!
//! The asker is always called from the work queue, with no lock held, so it may do what it
//! likes, and may cancel its own request too.

use super::attempt;
use super::attempt::Source;
use super::edge::Asker;
use crate::errno::ecanceled;
use crate::netlink;
use crate::proto::resolve;
use crate::proto::resolve::Cancelled;
use crate::proto::resolve::Entry;
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
use rdma::sync::bh;
use rdma::sync::init_once;
use rdma::workqueue::Delayed;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

/// A GID, as user space answers.
type Gid = [u8; 16];

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before anybody can ask.
    unsafe(uninit) static TABLE: SpinLock<KVec<Entry<Gid, Arc<Request>>>> = KVec::new();
}

rdma::global_lock! {
    // SAFETY: As above. There is one while there is a `Subsystem`.
    unsafe(uninit) static QUEUE: SpinLock<Option<QueueLease>> = None;
}

/// The number of the last request.
static LAST: Atomic<u64> = Atomic::<u64>::new(0);

/// The table. Neighbours change in softirq, too.
fn with_table<R>(f: impl FnOnce(&mut KVec<Entry<Gid, Arc<Request>>>) -> R) -> R {
    let _bh = bh::disable();
    // A local, to be dropped before that: what a last expression borrows lives longer.
    let mut table = TABLE.lock();
    f(&mut table)
}

/// The work queue, which ends with what is queued.
pub(super) struct Subsystem {
    _queue: OwnedQueue,
}

impl Subsystem {
    /// Once. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        init_once(&TABLE);
        init_once(&QUEUE);
        let queue = QueueOptions::unbound().create(c"ib_addr")?;
        *QUEUE.lock() = Some(queue.lease());
        Ok(Self { _queue: queue })
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // A static is not dropped.
        let table = with_table(|table| core::mem::replace(table, KVec::new()));
        // Whoever asks keeps the module, and cancels before it goes.
        kernel::warn_on!(!table.is_empty());
        drop(QUEUE.lock().take());
    }
}

/// What an attempt needs, and who is told in the end.
struct Asked {
    source: Source,
    /// None after it was told or has cancelled: what it lent is not ours any more.
    asker: Option<Asker>,
}

/// A request.
#[pin_data]
struct Request {
    id: u64,
    /// What is looked for; of the source's family.
    to: IpAddr,
    queue: QueueLease,
    since: Instant<Monotonic>,
    /// Locked by the one who tries; there is never more than one.
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

/// The task that runs, as [`resolve`] calls it.
fn current() -> resolve::Task {
    // CAST: An address fits.
    kernel::current!().as_ptr().addr() as u64
}

/// Jiffies of no less than so many milliseconds.
fn jiffies(ms: u64) -> kernel::time::Jiffies {
    msecs_to_jiffies(u32::try_from(ms).unwrap_or(u32::MAX))
}

impl Request {
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(0)
    }

    /// Has the worker run after so many milliseconds, or at once; under the table's lock, so
    /// that nobody queues what is over.
    fn schedule(self: &Arc<Self>, ms: u64) {
        rdma::workqueue::modify_delayed::<Self, 0>(self, jiffies(ms));
    }

    /// Tries once; `asked` is the request's.
    fn attempt(&self, asked: &mut Asked) -> Outcome<Error> {
        let Asked { source, asker } = asked;
        match asker {
            // CAST: user space knows the low half.
            Some(asker) => attempt::attempt(asker, source, self.to, self.id as u32),
            None => Outcome::Failed(ecanceled()),
        }
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
        let gone = with_table(|table| {
            let at = resolve::find(table, self.id)?;
            take(table, at)
        });
        // None if it was cancelled. Its reference goes here, outside the lock.
        drop(gone);
    }

    /// Gives back what the asker has lent. Waits for an attempt. May sleep.
    fn give_back(&self) {
        self.asked.lock().asker = None;
    }

    /// The entry's life, if it is in the table.
    fn with_life<R>(&self, f: impl FnOnce(&mut Life<Gid>) -> R) -> Option<R> {
        with_table(|table| {
            let at = resolve::find(table, self.id)?;
            table.get_mut(at).map(|entry| f(&mut entry.life))
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

/// Takes a request out of the table. The last one comes to its place: order means nothing, and to
/// move all that are behind costs more than to look through the table does.
fn take(table: &mut KVec<Entry<Gid, Arc<Request>>>, at: usize) -> Option<Entry<Gid, Arc<Request>>> {
    if at >= table.len() {
        return None;
    }
    let last = table.pop()?;
    match table.get_mut(at) {
        Some(place) => Some(core::mem::replace(place, last)),
        None => Some(last),
    }
}

/// Puts a request into the table. May sleep.
fn insert(request: &Arc<Request>, key: usize, life: Life<Gid>) -> Result {
    loop {
        let len = with_table(|table| table.len());
        // No memory is to be had under the lock; so much that it is seldom wanted.
        let mut room = KVec::new();
        if with_table(|table| table.len() == table.capacity()) {
            let wanted = len.saturating_mul(2).max(16);
            room = KVec::with_capacity(wanted, GFP_KERNEL)?;
        }
        let mut entry = Some(Entry {
            id: request.id,
            key,
            handle: request.clone(),
            life,
        });
        with_table(|table| {
            if table.len() < room.capacity() && table.capacity() < room.capacity() {
                core::mem::swap(table, &mut room);
                for each in room.drain_all() {
                    // There is room for these and more.
                    let _ = table.push_within_capacity(each);
                }
            }
            if table.len() == table.capacity() {
                return;
            }
            if let Some(entry) = entry.take() {
                let _ = table.push_within_capacity(entry);
            }
        });
        if entry.is_none() {
            return Ok(());
        }
    }
}

/// Begins to look for an address; its asker is told from the work queue. May sleep.
///
/// # Errors
///
/// `ENOMEM`, those of the first attempt, and `ECANCELED` if it was cancelled meanwhile; the asker
/// is not called then.
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
            to,
            queue,
            since: Instant::now(),
            asked <- new_mutex!(asked, "addr::Request::asked"),
            work <- new_delayed_work!("addr::Request::work"),
        }),
        GFP_KERNEL,
    )?;
    // It is there before it is tried, so that news meanwhile are not lost. Locked before that:
    // who cancels it at once waits for the attempt.
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
            let gone = with_table(|table| {
                let at = resolve::find(table, request.id)?;
                take(table, at)
            });
            drop(gone);
            request.give_back();
            Err(error)
        }
        Some(Ok(())) => Ok(()),
        // It was cancelled meanwhile.
        None => Err(ecanceled()),
    }
}

/// Ends the requests whose result goes to `addr`. When it returns, their askers are not
/// called any more, and `addr` is left alone. May sleep; also from the asker's callback, which
/// then is the last.
pub(super) fn cancel(addr: usize) {
    let me = current();
    loop {
        let found = with_table(|table| {
            let (at, what) = resolve::cancel(table, addr, me)?;
            Some((take(table, at)?, what))
        });
        let Some((entry, what)) = found else { return };
        match what {
            Cancelled::Wait => drop(rdma::workqueue::cancel_delayed::<Request, 0>(&entry.handle)),
            Cancelled::Starting | Cancelled::ByItself => {}
        }
        // Waits for the first attempt. Who is being told has it back already.
        entry.handle.give_back();
    }
}

/// A neighbour has become known. Softirq or process context.
pub(super) fn wake_all() {
    with_table(|table| {
        for entry in table.iter_mut() {
            if entry.life.wake() {
                entry.handle.schedule(0);
            }
        }
    });
}

/// A user program's answer to where a gateway is. An answer that cannot be read, or that nobody
/// waits for, does nothing.
pub(super) fn user_answer(answer: &netlink::Answer<'_>) {
    if let Some(gid) = attempt::gid_in(answer) {
        if !self::answer(answer.seq(), gid) {
            pr_info!("nobody waits for this GID of a gateway\n");
        }
    }
}

/// User space has answered a request, of which it says the number. Whether there is one.
fn answer(seq: u32, gid: Gid) -> bool {
    with_table(|table| {
        let Some(entry) = resolve::find_answered(table, seq) else {
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
