// SPDX-License-Identifier: GPL-2.0

//! Page faults of on-demand memory: how many run at a time, and whose.
//!
//! A fault sleeps as long as the file system takes that has the page, which may be for ever: a file
//! system may be frozen, a server may not answer. Nobody can end such a fault. So that one user's
//! faults do not stop everybody's:
//!
//! * faults run on a workqueue of this module, not on one that others need;
//! * of a user context, at most [`PER_CONTEXT`] run at a time, and of all contexts of a user, at
//!   most `per_user`. The others wait, in order of arrival within their context; a user's
//!   contexts take turns;
//! * advice does not wait for its faults, unless it says so. At most [`ADVICE`] of a context are not
//!   over, and those that have not begun end with it;
//! * nobody else waits for a fault that runs: an object whose fault runs is destroyed without it
//!   ([`Parking::abandon`](crate::qp::Parking)), and its memory ends when the fault does
//!   (`rdma::umem::odp`). It still counts, so that a user cannot have more of them by opening
//!   further contexts. Only the module waits, when it is unloaded.
//!
//! ```text
//!   half: Absent --> Parking --> Share (context) --> User: ready contexts --> workqueue
//!                                  ^  one more may run                          |
//!                                  +------------------------------- ended <-----+
//! ```
//!
//! # Locks
//!
//! `Faults::users`, then `Share::inner`; both are leaf locks otherwise, taken in any context. Jobs
//! are queued and dropped outside of them.

use crate::edge::answerable_user;
use crate::edge::smallest_node_part;
use crate::qp::Parking;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::AtomicTracker;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::list::TryNewListArc;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use rdma::accounted;
use rdma::bindings;
use rdma::list::Tag;
use rdma::list::TaggedList;
use rdma::new_spinlock_irq;
use rdma::sync::SpinLockIrq;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

/// Faults of one user context that may run at a time.
const PER_CONTEXT: u32 = 16;
/// Pieces of advice of one user context that may wait or run at a time; further ones are ignored.
const ADVICE: u32 = 64;
/// Users whose faults all run, if each has as many as it may: together they fill the workqueue.
const USERS: u32 = 8;
/// Maximum number of faults that the workqueue runs at a time.
const MOST: u32 = bindings::wq_consts_WQ_MAX_ACTIVE;

/// The faults of all users.
#[pin_data]
pub(crate) struct Faults {
    queue: QueueLease,
    /// Faults of all contexts of one user that may run at a time. The workqueue divides what it may
    /// run among the nodes of the machine, and a user determines on which of them its faults are
    /// queued; so it is a fraction of what the smallest one may run.
    per_user: u32,
    /// By the ID of the user that answers for a context: see [`answerable_user`].
    #[pin]
    users: SpinLockIrq<RBTree<u32, User>>,
}

/// A user with at least one context.
struct User {
    contexts: u32,
    /// Faults that run.
    running: u32,
    /// Contexts with a fault that may run as far as the context is concerned.
    ready: TaggedList<Share>,
}

/// The faults of one user context. It may outlive the context.
#[pin_data(PinnedDrop)]
pub(crate) struct Share {
    faults: Arc<Faults>,
    user: u32,
    /// Number of [`Advice`].
    advice: Atomic<u32>,
    #[pin]
    inner: SpinLockIrq<ShareInner>,
    #[pin]
    links: ListLinks,
    #[pin]
    listed: AtomicTracker,
    tag: Tag,
}

/// A fault of a user context for which nobody waits.
pub(crate) struct Advice(Arc<Share>);

impl Drop for Advice {
    fn drop(&mut self) {
        let _: u32 = self.0.advice.fetch_sub(1u32, Relaxed);
    }
}

struct ShareInner {
    /// Faults that run.
    running: u32,
    /// Faults that wait, oldest first.
    waiting: TaggedList<Parking>,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Share { tracked_by listed: AtomicTracker; }
}
impl_list_item! {
    impl ListItem<0> for Share { using ListLinks { self.links }; }
}
rdma::impl_tagged!(impl Tagged<0> for Share { self.tag });

/// Creates the workqueue of all faults. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn new_queue() -> Result<Arc<OwnedQueue>> {
    let queue = QueueOptions::unbound()
        .max_active()
        .create(c"rxe_faults", rdma::resident!())?;
    Ok(Arc::new(queue, GFP_KERNEL)?)
}

/// Waits, on drop, until no fault runs. There are no devices then, so none begins.
pub(crate) struct Ended(Arc<OwnedQueue>);

impl Ended {
    /// Waits for the faults on this queue.
    pub(crate) fn on(queue: &Arc<OwnedQueue>) -> Self {
        Self(queue.clone())
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // A fault that ends may have been submitted again, so not `flush`.
        self.0.drain();
    }
}

impl Faults {
    /// Creates the state of a queue without faults. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(queue: &OwnedQueue) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queue: queue.lease(),
                per_user: (smallest_node_part(MOST) / USERS).max(PER_CONTEXT),
                users <- new_spinlock_irq!(RBTree::new(), "rxe::Faults::users"),
            }),
            GFP_KERNEL,
        )
    }

    /// Queues the next faults of a user that may run: one, since one was submitted or has ended.
    fn next(&self, user: u32) {
        while let Some((share, job)) = self.take(user) {
            // Not under the lock, which its drop takes.
            drop(share);
            if let Some(job) = job {
                // It is in no queue: a fault is submitted again only after it has run.
                let _ = self.queue.enqueue::<Arc<Parking>, 0>(job.into_arc());
                return;
            }
        }
    }

    /// Takes the first ready context, which goes to the end if it has more, and its fault; none, if
    /// that was withdrawn.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn take(&self, user: u32) -> Option<(Option<Arc<Share>>, Option<ListArc<Parking>>)> {
        let mut users = self.users.lock();
        let user = users.get_mut(&user)?;
        if user.running >= self.per_user {
            return None;
        }
        let share = user.ready.pop_front()?;
        let job = share.take();
        if job.is_some() {
            user.running = user.running.saturating_add(1);
        }
        if share.is_ready() {
            user.ready.push_back(share);
            return Some((None, job));
        }
        // From here on it can be made ready again.
        Some((Some(share.into_arc()), job))
    }
}

impl Share {
    /// Creates the share of a context that the current task opens. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(faults: &Arc<Faults>) -> Result<Arc<Self>> {
        let user = answerable_user();
        let new = User {
            contexts: 0,
            running: 0,
            ready: TaggedList::new(),
        };
        let node = RBTreeNode::new(user, new, accounted::GFP)?;
        let share = Arc::pin_init(
            pin_init!(Self {
                faults: faults.clone(),
                user,
                advice: Atomic::new(0),
                inner <- new_spinlock_irq!(
                    ShareInner { running: 0, waiting: TaggedList::new() },
                    "rxe::Share::inner"
                ),
                links <- ListLinks::new(),
                listed <- AtomicTracker::new(),
                tag: Tag::new(),
            }),
            accounted::GFP,
        );
        // Without a share, `new` is dropped and the user not counted. Dropped after unlocking.
        let share = share?;
        let mut _spare = None;
        let mut users = faults.users.lock();
        if users.get(&user).is_none() {
            _spare = users.insert(node);
        } else {
            _spare = Some(node);
        }
        if let Some(known) = users.get_mut(&user) {
            known.contexts = known.contexts.saturating_add(1);
        }
        drop(users);
        Ok(share)
    }

    /// Runs a fault of this context when its turn comes. Any context.
    pub(crate) fn submit(this: ArcBorrow<'_, Self>, job: Arc<Parking>) {
        if !job.is_of(&this) {
            return;
        }
        // Nobody else submits it meanwhile (`Parking`), so it is in no list.
        let Ok(job) = ListArc::try_from_arc(job) else {
            return;
        };
        {
            let mut users = this.faults.users.lock();
            this.inner.lock().waiting.push_back(job);
            if let Some(user) = users.get_mut(&this.user) {
                user.make_ready(this);
            }
        }
        this.faults.next(this.user);
    }

    /// A fault of this context has ended: another one may run. Any context.
    pub(crate) fn ended(this: ArcBorrow<'_, Self>) {
        {
            let mut users = this.faults.users.lock();
            {
                let mut inner = this.inner.lock();
                inner.running = inner.running.saturating_sub(1);
            }
            if let Some(user) = users.get_mut(&this.user) {
                user.running = user.running.saturating_sub(1);
                user.make_ready(this);
            }
        }
        this.faults.next(this.user);
    }

    /// Removes a fault of this context that has not begun to run. Any context.
    pub(crate) fn withdraw(&self, job: &Parking) -> Option<ListArc<Parking>> {
        if !job.is_of(self) {
            return None;
        }
        // If no other fault waits, the context is not ready any more. Otherwise it would stay among
        // the ready ones, even after its end, until a fault of its user has ended. It is dropped after
        // unlocking, since its drop takes the lock.
        let mut _idle = None;
        let mut users = self.faults.users.lock();
        let job = self.inner.lock().waiting.remove(job);
        if let Some(user) = users.get_mut(&self.user).filter(|_| !self.is_ready()) {
            _idle = user.ready.remove(self);
        }
        drop(users);
        job
    }

    /// Counts a piece of advice; `None` if there are too many. Any context.
    pub(crate) fn advice(this: &Arc<Self>) -> Option<Advice> {
        let before: u32 = this.advice.fetch_add(1u32, Relaxed);
        let advice = Advice(this.clone());
        (before < ADVICE).then_some(advice)
    }

    /// Forgets the faults that wait: the context ends, and has no queue pairs any more. Any context.
    pub(crate) fn end(&self) {
        loop {
            let mut _idle = None;
            let mut users = self.faults.users.lock();
            let job = self.inner.lock().waiting.pop_front();
            if job.is_none() {
                if let Some(user) = users.get_mut(&self.user) {
                    _idle = user.ready.remove(self);
                }
            }
            drop(users);
            if job.is_none() {
                return;
            }
        }
    }

    /// Returns whether a fault may run, as far as the context is concerned.
    fn is_ready(&self) -> bool {
        let inner = self.inner.lock();
        inner.running < PER_CONTEXT && !inner.waiting.is_empty()
    }

    /// Takes a fault that may run now.
    fn take(&self) -> Option<ListArc<Parking>> {
        let mut inner = self.inner.lock();
        if inner.running >= PER_CONTEXT {
            return None;
        }
        let job = inner.waiting.pop_front()?;
        inner.running = inner.running.saturating_add(1);
        Some(job)
    }
}

#[pinned_drop]
impl PinnedDrop for Share {
    fn drop(self: Pin<&mut Self>) {
        let mut users = self.faults.users.lock();
        let Some(user) = users.get_mut(&self.user) else {
            return;
        };
        user.contexts = user.contexts.saturating_sub(1);
        if user.contexts == 0 {
            // Faults that run have a share, so there are none. No share is ready either.
            drop(users.remove_node(&self.user));
        }
    }
}

impl User {
    /// Appends a context to the ready ones, if a fault of it may run and it is not among them.
    fn make_ready(&mut self, share: ArcBorrow<'_, Share>) {
        if share.is_ready() {
            if let Some(share) = ListArc::try_from_arc_borrow(share) {
                self.ready.push_back(share);
            }
        }
    }
}
