// SPDX-License-Identifier: GPL-2.0

//! Changes of the policy of security modules.
//!
//! Agents are checked in the notifier. Queue pairs are checked by a worker, since there may be many
//! and their drivers have to stop them.

use super::edge::PolicyNotifier;
use crate::device::registry;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::module::Resident;
use rdma::workqueue;
use rdma::workqueue::KeepsModule;

/// Work that checks all queue pairs again.
#[pin_data]
pub(super) struct Judge {
    #[pin]
    work: Work<Self>,
    resident: Resident,
}

impl KeepsModule for Judge {
    fn resident(&self) -> &Resident {
        &self.resident
    }
}

kernel::impl_has_work! {
    impl HasWork<Self> for Judge { self.work }
}

impl WorkItem for Judge {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        let mut index = 0;
        // No lock is held: queue pairs created during the walk are checked against the new policy.
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

/// Checks all users against the new policy. May sleep.
pub(super) fn changed(judge: &Arc<Judge>) {
    // If the work is queued already, it has not started yet and will see this change.
    let _ = workqueue::enqueue_system::<Judge, 0>(judge.clone());
    super::agent::policy_changed();
}

/// Registration for changes of the policy. Fields are dropped in this order.
pub(crate) struct Subsystem {
    _notifier: Pin<KBox<PolicyNotifier>>,
    _worker: Worker,
}

/// Disables the work when dropped.
struct Worker(Arc<Judge>);

impl Subsystem {
    /// Registers for changes of the policy. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the registration.
    pub(crate) fn new() -> Result<Self> {
        super::agent::init();
        let judge = Arc::pin_init(
            pin_init!(Judge {
                work <- kernel::new_work!("security::Judge"),
                resident: rdma::resident!(),
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
