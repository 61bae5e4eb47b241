// SPDX-License-Identifier: GPL-2.0

//! FFI of the shared queues of a device (`cq_pools` of `struct ib_device`).

use super::OwnedPolled;
use crate::device::Device;
use crate::object::Cq;
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::chain::Locked;
use rdma::edge::AnswerOk;
use rdma::edge::View;
use rdma::sync::SpinLockIrqGuard;

/// The pools of a device, locked.
///
/// # Invariants
///
/// `guard` holds the lock of the pools. Each queue in the lists was an [`OwnedPolled`] that
/// [`add`](Self::add) took.
pub(in crate::cq) struct Pools<'a> {
    device: &'a Device,
    guard: SpinLockIrqGuard<'a, ()>,
}

impl<'a> Pools<'a> {
    /// Locks the pools. Any context.
    pub(in crate::cq) fn lock(device: &'a Device) -> Self {
        Self {
            device,
            guard: device.cq_pools_lock().lock(),
        }
    }

    /// Returns the pool with this index, if there is one.
    fn pool(&mut self, index: usize) -> Option<Locked<'_, Cq>> {
        let list = self.device.cq_pools().get(index)?;
        // SAFETY: The guard holds the lock of all pools of the device (type invariant).
        Some(unsafe { list.locked_by(&mut self.guard) })
    }

    /// Removes the first queue of a pool. The outer `None` means that there is no such pool, the
    /// inner one that it is empty.
    pub(in crate::cq) fn take_first(&mut self, index: usize) -> Option<Option<OwnedPolled>> {
        // INVARIANT: The queue was an `OwnedPolled` (type invariant). Consumers that still use it
        // have claimed completions of it.
        Some(self.pool(index)?.pop_front().map(OwnedPolled))
    }

    /// Inserts a queue at the front of a pool.
    ///
    /// # Errors
    ///
    /// Returns the queue if there is no such pool.
    pub(in crate::cq) fn add(&mut self, index: usize, cq: OwnedPolled) -> Result<(), OwnedPolled> {
        let Some(mut pool) = self.pool(index) else {
            return Err(cq);
        };
        pool.push_front(cq.0);
        Ok(())
    }

    /// Returns the first queue of a pool for which `claim` succeeds.
    pub(in crate::cq) fn find(
        &mut self,
        index: usize,
        mut claim: impl FnMut(&Cq) -> bool,
    ) -> Option<Claimed> {
        let pool = self.pool(index)?;
        let claimed = pool.iter().find(|cq| claim(cq))?;
        NonNull::new(claimed.raw()).map(Claimed)
    }
}

/// A queue of a pool with completions claimed for a consumer.
pub(in crate::cq) struct Claimed(NonNull<bindings::ib_cq>);

impl AnswerOk for Claimed {
    type C = *mut bindings::ib_cq;

    fn ok(self) -> Self::C {
        self.0.as_ptr()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}
