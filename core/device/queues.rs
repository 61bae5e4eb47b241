// SPDX-License-Identifier: GPL-2.0

//! The workqueues of the subsystem.

use core::ptr;
use kernel::error::Result;
use kernel::workqueue::Queue;
use rdma::bindings;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

/// What the module creates and destroys.
pub(crate) struct Subsystem {
    events: OwnedQueue,
    unregister: OwnedQueue,
}

/// Where the queue of unregistrations is, while there is a [`Subsystem`].
static UNREGISTER: kernel::sync::atomic::Atomic<usize> =
    kernel::sync::atomic::Atomic::<usize>::new(0);

impl Subsystem {
    pub(super) fn new() -> Result<Self> {
        let this = Self {
            events: QueueOptions::per_cpu().create(c"infiniband")?,
            unregister: QueueOptions::unbound().create(c"ib-unreg-wq")?,
        };
        // SAFETY: Nobody uses the queues before the module is there.
        unsafe { (&raw mut bindings::ib_wq).write(this.events.as_raw()) };
        UNREGISTER.store(
            this.unregister.as_raw() as usize,
            kernel::sync::atomic::Relaxed,
        );
        Ok(this)
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // The queues end with the fields, and with them what is still queued.
        self.events.flush();
        self.unregister.flush();
        // SAFETY: Nobody uses the queues after the module.
        unsafe { (&raw mut bindings::ib_wq).write(ptr::null_mut()) };
    }
}

/// `ib_wq`: events of devices, and what umem puts off.
pub(crate) fn events() -> &'static Queue {
    // SAFETY: Set when the module came, for as long as it is there.
    unsafe { Queue::from_raw(bindings::ib_wq) }
}

/// Waits for all that is queued in [`events`] now. May sleep; not from that queue.
pub(crate) fn flush_events() {
    // SAFETY: As in `events`.
    unsafe { bindings::__flush_workqueue(bindings::ib_wq) };
}

/// Unregistrations that their asker cannot wait for.
pub(crate) fn unregister() -> &'static Queue {
    let queue = UNREGISTER.load(kernel::sync::atomic::Relaxed);
    // SAFETY: Set when the module came, for as long as it is there.
    unsafe { Queue::from_raw(queue as *const bindings::workqueue_struct) }
}
