// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 Delayed

//! An item that has no lease of a queue cannot be delayed again either.

use kernel::impl_has_delayed_work;
use kernel::sync::Arc;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::WorkItem;
#[cfg(not(wrong))]
use rdma::workqueue::Delayed;
use rdma::workqueue::QueueLease;

/// An item.
pub struct Item {
    work: DelayedWork<Item>,
    /// The lease.
    pub lease: QueueLease,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Item { self.work }
}

impl WorkItem for Item {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {}
}

#[cfg(not(wrong))]
impl Delayed for Item {
    fn lease(&self) -> &QueueLease {
        &self.lease
    }
}

/// Delays it once more.
pub fn delay(item: &Arc<Item>) {
    rdma::workqueue::modify_delayed::<Item, 0>(item, 100);
}
