// SPDX-License-Identifier: GPL-2.0

//! Changes of the policy of security modules.
//!
//! Agents are looked at when we are told. Queue pairs may be many, and drivers are asked to
//! stop them: a worker does it.

use super::edge::PolicyNotifier;
use crate::device::registry;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::workqueue;

/// The worker that judges queue pairs again.
#[pin_data]
pub(super) struct Judge {
    #[pin]
    work: Work<Self>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Judge { self.work }
}

impl WorkItem for Judge {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        let mut index = 0;
        // No lock is held meanwhile: who comes later is judged by the new policy.
        while let Some(device) = registry::next_used_from(index) {
            for port in device.ports() {
                super::qp::port_changed(&device, port);
            }
            index = match device.index().checked_add(1) {
                Some(next) => next,
                None => return,
            };
        }
    }
}

/// The policy has changed. May sleep.
pub(super) fn changed(judge: &Arc<Judge>) {
    // A work that is queued already begins later than this.
    let _ = workqueue::system_dfl().enqueue(judge.clone());
    super::agent::policy_changed();
}

/// Hears of changes of the policy while it exists. Fields are dropped in this order.
pub(crate) struct Subsystem {
    _notifier: Pin<KBox<PolicyNotifier>>,
    _worker: Worker,
}

/// The worker, which ends with this.
struct Worker(Arc<Judge>);

impl Subsystem {
    /// Begins to listen. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the registration.
    pub(crate) fn new() -> Result<Self> {
        super::agent::init();
        let judge = Arc::pin_init(
            pin_init!(Judge {
                work <- kernel::new_work!("security::Judge"),
            }),
            GFP_KERNEL,
        )?;
        let worker = Worker(judge.clone());
        Ok(Self {
            _notifier: KBox::pin_init(PolicyNotifier::register(judge), GFP_KERNEL)?,
            _worker: worker,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(workqueue::disable::<Judge, 0>(&self.0));
        super::agent::fini();
    }
}
