// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 KeepsModule

//! Work on the system's queue of an object that does not keep its module: it may run when the code is
//! gone.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::module::Resident;
use rdma::workqueue::enqueue_system;
#[cfg(not(wrong))]
use rdma::workqueue::KeepsModule;

/// Has work to do.
#[pin_data]
pub struct Item {
    #[pin]
    work: Work<Item>,
    /// Keeps the module.
    pub resident: Resident,
}

kernel::impl_has_work! {
    impl HasWork<Item> for Item { self.work }
}

impl WorkItem for Item {
    type Pointer = Arc<Item>;

    fn run(_: Arc<Item>) {}
}

#[cfg(not(wrong))]
impl KeepsModule for Item {
    fn resident(&self) -> &Resident {
        &self.resident
    }
}

/// Queues the work.
pub fn begin(item: Arc<Item>) -> Result<(), Arc<Item>> {
    enqueue_system::<Item, 0>(item)
}
