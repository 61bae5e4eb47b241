// SPDX-License-Identifier: GPL-2.0

//! The workqueues of the subsystem.

use kernel::error::Result;
use kernel::workqueue::Queue;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

use super::edge::Place;

/// What the module creates and destroys.
pub(crate) struct Subsystem {
    events: OwnedQueue,
    unregister: OwnedQueue,
}

impl Subsystem {
    pub(super) fn new() -> Result<Self> {
        let this = Self {
            events: QueueOptions::per_cpu().create(c"infiniband")?,
            unregister: QueueOptions::unbound().create(c"ib-unreg-wq")?,
        };
        Place::Events.set(Some(&this.events));
        Place::Unregister.set(Some(&this.unregister));
        Ok(this)
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // The queues end with the fields, and with them what is still queued.
        self.events.flush();
        self.unregister.flush();
        Place::Events.set(None);
    }
}

/// `ib_wq`: events of devices, and what umem puts off.
pub(crate) fn events() -> &'static Queue {
    Place::Events.queue()
}

/// Waits for all that is queued in [`events`] now. May sleep; not from that queue.
pub(crate) fn flush_events() {
    Place::Events.flush();
}

/// Workqueue for deferred unregistration.
pub(crate) fn unregister() -> &'static Queue {
    Place::Unregister.queue()
}
