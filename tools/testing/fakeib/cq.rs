// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! A [`CqCore`] is shared by its verbs object and the queue pairs that complete into it. Its
//! lock is taken inside that of a queue pair. Consumers are called from a work item in softirq.

use crate::ring::Ring;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::new_spinlock_irq;
use rdma::provider::wc::QpToken;
use rdma::provider::*;
use rdma::sync::SpinLockIrq;

struct Inner {
    done: Ring<Wc>,
    /// Which completion the consumer waits for.
    armed: NotifyFlags,
    overrun: bool,
}

/// A completion queue.
#[pin_data]
pub(crate) struct CqCore {
    upcall: CqUpcall,
    #[pin]
    inner: SpinLockIrq<Inner>,
    #[pin]
    work: Work<CqCore>,
}

/// Where the completions of a queue go; some have none.
pub(crate) struct Done(pub(crate) Option<Arc<CqCore>>);

impl Done {
    /// See [`CqCore::complete`].
    pub(crate) fn complete(&self, wc: Wc, solicited: bool) {
        if let Some(cq) = &self.0 {
            cq.complete(wc, solicited);
        }
    }

    /// See [`CqCore::forget`].
    pub(crate) fn forget(&self, qp: QpToken) {
        if let Some(cq) = &self.0 {
            cq.forget(qp);
        }
    }
}

impl_has_work! {
    impl HasWork<Self> for CqCore { self.work }
}

impl WorkItem for CqCore {
    type Pointer = Arc<CqCore>;

    fn run(this: Arc<CqCore>) {
        if this.inner.lock().overrun {
            this.upcall.error();
        } else {
            this.upcall.completed();
        }
    }
}

impl CqCore {
    /// A queue for so many completions. May sleep.
    pub(crate) fn new(entries: u32, upcall: CqUpcall) -> Result<Arc<Self>> {
        let inner = Inner {
            done: Ring::new(entries)?,
            armed: NotifyFlags::from_raw(0),
            overrun: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                upcall,
                inner <- new_spinlock_irq!(inner, "fakeib::CqCore::inner"),
                work <- new_work!("fakeib::CqCore::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a completion. `solicited` wakes also who waits only for those. Any context.
    pub(crate) fn complete(self: &Arc<Self>, wc: Wc, solicited: bool) {
        let mut inner = self.inner.lock();
        let wanted = if solicited {
            NotifyFlags::NEXT_COMP | NotifyFlags::SOLICITED
        } else {
            NotifyFlags::NEXT_COMP
        };
        let notify = if inner.done.push(wc).is_err() {
            !core::mem::replace(&mut inner.overrun, true)
        } else if inner.armed.intersects(wanted) {
            inner.armed = NotifyFlags::from_raw(0);
            true
        } else {
            false
        };
        drop(inner);
        if notify {
            // An error means that the work is queued already, or that the queue is stopped.
            let _ = workqueue::system_bh().enqueue(self.clone());
        }
    }

    /// Hands out completions. Any context.
    pub(crate) fn poll(&self, out: &mut WcSlots<'_>) {
        let mut inner = self.inner.lock();
        while !out.is_full() {
            let Some(wc) = inner.done.pop() else { break };
            // There is room for it.
            let _ = out.push(wc);
        }
    }

    /// Arms the queue, and tells whether completions wait already. Any context.
    pub(crate) fn arm(&self, flags: NotifyFlags) -> bool {
        let mut inner = self.inner.lock();
        inner.armed = inner.armed | flags.without(NotifyFlags::REPORT_MISSED_EVENTS);
        inner.done.len() > 0
    }

    /// Forgets the completions of a queue pair that goes: they name it by address. Any context.
    pub(crate) fn forget(&self, qp: QpToken) {
        let mut inner = self.inner.lock();
        inner.done.retain(|wc| wc.as_raw().qp != qp.as_raw());
    }

    /// No work of the queue runs afterwards, nor will. May sleep.
    pub(crate) fn stop(self: &Arc<Self>) {
        drop(rdma::workqueue::disable::<CqCore, 0>(self));
    }
}
