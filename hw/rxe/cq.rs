// SPDX-License-Identifier: GPL-2.0

//! Completion queues: the queue of [`crate::queue`] under a lock, and its consumer.
//!
//! Producers are the runners of queue pairs, in softirq or with bottom halves off. Kernel consumers
//! poll and arm in any context, hence the irq-saving lock. The producer calls the consumer's
//! handler after unlocking.

use crate::limits;
use crate::queue;
use crate::queue::cq::Arm;
use crate::queue::cq::Posted;
use crate::queue::cqe;
use crate::queue::layout::Layout;
use crate::queue::ring::Producer;
use crate::queue::store::Store;
use crate::queue::RingBuf;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use rdma::accounted;
use rdma::new_spinlock_irq;
use rdma::provider::wc::QpToken;
use rdma::provider::CqUpcall;
use rdma::sync::SpinLockIrq;

/// A completion that names a kernel user's queue pair by the core's token for it.
pub(crate) type Cqe = cqe::Cqe<QpToken>;

/// Distance in bytes of two entries of a user's queue; librxe reads it from the ring.
const USER_STRIDE: usize = 64;

type Inner = queue::cq::Cq<RingBuf, KVVec<Option<Cqe>>>;

/// The part of a completion queue that may outlive its verbs object.
#[pin_data]
pub(crate) struct Cq {
    #[pin]
    inner: SpinLockIrq<Inner>,
    upcall: CqUpcall,
    /// Number of the queue pair that holds requests back until this queue is armed; zero if there
    /// is none.
    held: Atomic<u32>,
}

/// What to tell the consumer once the poster holds no lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// Completions were posted.
    Completed,
    /// The queue overflowed. It is unusable from now on, and queue pairs that post to it fail.
    Overflow,
    /// Nothing: the overflow was reported before. Queue pairs that post to the queue fail.
    Dead,
}

impl Cq {
    /// Creates a queue for user space in memory from `store`, the store of the user's context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more entries than the device allows, `ENOMEM`.
    pub(crate) fn user(
        entries: u32,
        upcall: CqUpcall,
        store: Option<&Arc<Store>>,
    ) -> Result<(Arc<Self>, RingBuf)> {
        let (ring, layout) = user_ring(entries, store)?;
        let producer = Producer::new(ring.clone(), layout);
        Ok((Self::new(Inner::user(producer), upcall)?, ring))
    }

    /// Creates a queue for a kernel consumer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more entries than the device allows, `ENOMEM`.
    pub(crate) fn kernel(entries: u32, upcall: CqUpcall) -> Result<Arc<Self>> {
        let places = usize::try_from(check_entries(entries)?)?;
        Self::new(Inner::kernel(accounted::from_elem(None, places)?), upcall)
    }

    fn new(inner: Inner, upcall: CqUpcall) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                inner <- new_spinlock_irq!(inner, "rxe::Cq::inner"),
                upcall,
                held: Atomic::new(0),
            }),
            accounted::GFP,
        )
    }

    /// Returns the number of entries.
    pub(crate) fn capacity(&self) -> u32 {
        self.inner.lock().capacity()
    }

    /// Appends a completion. Any context. The caller passes the result to [`Self::tell`] once it
    /// holds no lock.
    pub(crate) fn post(&self, cqe: &Cqe) -> Told {
        match self.inner.lock().post(cqe) {
            Posted::Quiet => Told::Nothing,
            Posted::Notify => Told::Completed,
            Posted::Overflow => Told::Overflow,
            Posted::Dead => Told::Dead,
        }
    }

    /// Notifies the consumer. Any context; the caller must hold no locks.
    #[inline]
    pub(crate) fn tell(&self, what: Told) {
        match what {
            Told::Nothing | Told::Dead => {}
            Told::Completed => self.upcall.completed(),
            Told::Overflow => self.upcall.error(),
        }
    }

    /// Records that queue pair `number` holds requests back until this queue is armed. Returns
    /// `false` if another queue pair is recorded already. Any context.
    pub(crate) fn hold(&self, number: u32) -> bool {
        match self.held.cmpxchg(0, number, Relaxed) {
            Ok(_) => true,
            Err(present) => present == number,
        }
    }

    /// Records that queue pair `number` no longer holds requests back. Any context.
    pub(crate) fn let_go(&self, number: u32) {
        // A record of another queue pair stays.
        let _: Result<u32, u32> = self.held.cmpxchg(number, 0, Relaxed);
    }

    /// Returns the queue pair that holds requests back until this queue is armed; serve it before
    /// arming. Any context.
    #[inline]
    pub(crate) fn held(&self) -> Option<u32> {
        match self.held.load(Relaxed) {
            0 => None,
            number => Some(number),
        }
    }

    /// Arms the queue and returns whether completions are waiting. Any context.
    pub(crate) fn arm(&self, arm: Arm) -> bool {
        self.inner.lock().arm(arm)
    }

    /// Takes the oldest completion of a kernel consumer's queue. Any context.
    pub(crate) fn poll(&self) -> Option<Cqe> {
        self.inner.lock().poll()
    }

    /// Returns the number of waiting completions. Any context.
    pub(crate) fn waiting(&self) -> u32 {
        self.inner.lock().used()
    }

    /// Ends the queue and frees its memory, since remains of destroyed queue pairs may keep the
    /// object a little longer. May sleep.
    pub(crate) fn retire(&self) {
        let memory = self.inner.lock().retire().map(RingBuf::take);
        drop(memory);
    }

    /// Moves a user's queue to new memory for at least `entries` entries without losing
    /// completions. `publish` gets the new memory before anything is moved; if it fails, the queue
    /// is unchanged.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more entries than the device allows or fewer than waiting completions;
    /// `ENOMEM`; those of `publish`.
    pub(crate) fn resize(
        &self,
        entries: u32,
        store: Option<&Arc<Store>>,
        publish: impl FnOnce(&RingBuf) -> Result,
    ) -> Result {
        if entries < self.waiting() {
            return Err(EINVAL);
        }
        let (ring, layout) = user_ring(entries, store)?;
        publish(&ring)?;
        let left = self.inner.lock().resize(ring, layout);
        // Free the old memory after unlocking.
        left.map(drop).map_err(|_fresh| EINVAL)
    }
}

fn check_entries(entries: u32) -> Result<u32> {
    match entries {
        1..=limits::MAX_CQE => Ok(entries),
        _ => Err(EINVAL),
    }
}

fn user_ring(entries: u32, store: Option<&Arc<Store>>) -> Result<(RingBuf, Layout)> {
    let layout = Layout::new(check_entries(entries)?, USER_STRIDE).ok_or(EINVAL)?;
    Ok((RingBuf::new(&layout, store)?, layout))
}
