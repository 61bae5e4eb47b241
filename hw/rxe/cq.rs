// SPDX-License-Identifier: GPL-2.0

//! Completion queues: the queue of [`crate::queue`] under a lock, and its consumer.
//!
//! Producers are the runners of queue pairs, in softirq or with bottom halves off;
//! kernel consumers poll and arm in any context, hence the irq-saving lock. The
//! consumer's handler is called after unlocking, by whoever posted.

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

/// A completion, which names a kernel user's queue pair by what the core knows it by.
pub(crate) type Cqe = cqe::Cqe<QpToken>;

/// Bytes between two entries of a user's queue; librxe reads it from the ring.
const USER_STRIDE: usize = 64;

type Inner = queue::cq::Cq<RingBuf, KVVec<Option<Cqe>>>;

/// The part of a completion queue that outlives its verbs object if it must.
#[pin_data]
pub(crate) struct Cq {
    #[pin]
    inner: SpinLockIrq<Inner>,
    upcall: CqUpcall,
    /// The number of the queue pair whose requests wait until somebody arms this queue;
    /// zero if there is none.
    held: Atomic<u32>,
}

/// What the consumer has to be told once the poster holds no lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// That completions have come.
    Completed,
    /// That this queue is lost, and with it whoever posts to it.
    Overflow,
    /// Nothing: it was told that the queue is lost. Who posts to it is lost too.
    Dead,
}

impl Cq {
    /// A queue for user space, with the memory it maps, of the context that has `store`.
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

    /// A queue for the kernel.
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
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// How many entries it holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.inner.lock().capacity()
    }

    /// Appends a completion. Any context. The caller passes what it is answered to
    /// [`Self::tell`] when it holds no lock any more.
    pub(crate) fn post(&self, cqe: &Cqe) -> Told {
        match self.inner.lock().post(cqe) {
            Posted::Quiet => Told::Nothing,
            Posted::Notify => Told::Completed,
            Posted::Overflow => Told::Overflow,
            Posted::Dead => Told::Dead,
        }
    }

    /// Tells the consumer. Any context, without locks.
    #[inline]
    pub(crate) fn tell(&self, what: Told) {
        match what {
            Told::Nothing | Told::Dead => {}
            Told::Completed => self.upcall.completed(),
            Told::Overflow => self.upcall.error(),
        }
    }

    /// Notes that requests of queue pair `number` wait until this queue is armed. Refused,
    /// by `false`, if another's do. Any context.
    pub(crate) fn hold(&self, number: u32) -> bool {
        match self.held.cmpxchg(0, number, Relaxed) {
            Ok(_) => true,
            Err(present) => present == number,
        }
    }

    /// Requests of queue pair `number` do not wait any more. Any context.
    pub(crate) fn let_go(&self, number: u32) {
        // Another's note stays.
        let _: Result<u32, u32> = self.held.cmpxchg(number, 0, Relaxed);
    }

    /// The queue pair whose requests wait until this queue is armed: serve them first.
    /// Any context.
    #[inline]
    pub(crate) fn held(&self) -> Option<u32> {
        match self.held.load(Relaxed) {
            0 => None,
            number => Some(number),
        }
    }

    /// Arms the queue and says whether completions wait. Any context.
    pub(crate) fn arm(&self, arm: Arm) -> bool {
        self.inner.lock().arm(arm)
    }

    /// Takes the oldest completion of a kernel's queue. Any context.
    pub(crate) fn poll(&self) -> Option<Cqe> {
        self.inner.lock().poll()
    }

    /// How many completions wait. Any context.
    pub(crate) fn waiting(&self) -> u32 {
        self.inner.lock().used()
    }

    /// Ends the queue and lets go of its memory, since queue pairs that are gone may keep the
    /// object a little longer. May sleep.
    pub(crate) fn retire(&self) {
        let memory = self.inner.lock().retire().map(RingBuf::take);
        drop(memory);
    }

    /// Moves a user's queue to new memory for at least `entries`, losing nothing,
    /// and returns that memory for the user to map. `publish` runs before anything
    /// is moved; if it fails, nothing has changed.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the entries are too many for the device or too few for the
    /// completions that wait; `ENOMEM`.
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
        // The old memory goes after the lock.
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
