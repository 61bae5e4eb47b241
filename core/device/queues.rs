// SPDX-License-Identifier: GPL-2.0

//! Workqueues of the subsystem.

use kernel::error::Result;
use kernel::workqueue::Queue;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

use super::edge::Place;

/// Owner of the workqueues; dropping it destroys them.
pub(crate) struct Subsystem {
    events: OwnedQueue,
    unregister: OwnedQueue,
}

impl Subsystem {
    pub(super) fn new() -> Result<Self> {
        let this = Self {
            events: QueueOptions::per_cpu().create(c"infiniband", rdma::resident!())?,
            unregister: QueueOptions::unbound().create(c"ib-unreg-wq", rdma::resident!())?,
        };
        Place::Events.set(Some(&this.events));
        Place::Unregister.set(Some(&this.unregister));
        Ok(this)
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // Dropping the fields destroys the workqueues; work queued on them is finished first.
        self.events.flush();
        self.unregister.flush();
        Place::Events.set(None);
        Place::Unregister.set(None);
    }
}

/// `ib_wq`: device events, and deferred work of umem.
pub(crate) fn events() -> &'static Queue {
    Place::Events.queue()
}

/// Waits for all work items that are queued in [`events`] now. Must not be called from a work item
/// of that queue. May sleep.
pub(crate) fn flush_events() {
    Place::Events.flush();
}

/// Workqueue for deferred unregistration.
pub(crate) fn unregister() -> &'static Queue {
    Place::Unregister.queue()
}
