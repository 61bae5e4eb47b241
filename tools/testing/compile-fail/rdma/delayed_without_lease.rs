// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 enqueue_delayed

//! Delayed work on a queue that its owner destroys meanwhile: the timer would expire into freed
//! memory. Only items that have a lease of the queue can be delayed.

use kernel::impl_has_delayed_work;
use kernel::sync::Arc;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::WorkItem;
use rdma::workqueue::Delayed;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;

/// An item.
pub struct Item {
    work: DelayedWork<Item>,
    lease: QueueLease,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Item { self.work }
}

impl WorkItem for Item {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {}
}

impl Delayed for Item {
    fn lease(&self) -> &QueueLease {
        &self.lease
    }
}

/// Queues it, and destroys the queue.
pub fn delay(queue: OwnedQueue, item: Arc<Item>) {
    #[cfg(not(wrong))]
    let _ = rdma::workqueue::enqueue_delayed::<Item, 0>(item, 100);
    #[cfg(wrong)]
    let _ = queue.enqueue_delayed::<_, 0>(item, 100);
    drop(queue);
}
