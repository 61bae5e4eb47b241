// SPDX-License-Identifier: GPL-2.0

//! The shared queues of a device at the edge (`cq_pools` of `struct ib_device`).

use super::OwnedPolled;
use crate::chain::Chain;
use crate::device::Device;
use crate::object::Cq;
use core::mem::offset_of;
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::View;
use rdma::sync::SpinLockIrq;
use rdma::sync::SpinLockIrqGuard;

const ENTRY: usize = offset_of!(bindings::ib_cq, pool_entry);

/// The queues of one context.
type Pool<'g> = Chain<'g, bindings::ib_cq, ENTRY>;

/// The pools of a device, locked.
///
/// # Invariants
///
/// `guard` is of the pools' lock. What is in the lists was an [`OwnedPolled`] that
/// [`add`](Self::add) took.
pub(in crate::cq) struct Pools<'a> {
    device: &'a Device,
    guard: SpinLockIrqGuard<'a, ()>,
}

impl<'a> Pools<'a> {
    /// Locks the pools. Any context.
    pub(in crate::cq) fn lock(device: &'a Device) -> Self {
        // SAFETY: The lock is initialised with the device, and is its field.
        let lock = unsafe { SpinLockIrq::from_raw(&raw mut (*device.as_raw()).cq_pools_lock) };
        Self {
            device,
            guard: lock.lock(),
        }
    }

    /// The pool of this index, if there is one.
    fn pool(&mut self, index: usize) -> Option<Pool<'_>> {
        // SAFETY: The lists are fields of the device, initialised with it; the guard is of their
        // lock, and the entries live while they are in a list (type invariant).
        unsafe {
            let lists = &raw mut (*self.device.as_raw()).cq_pools;
            let list = (*lists).get_mut(index)?;
            Some(Pool::new(NonNull::from(list), &mut self.guard))
        }
    }

    /// Takes out the first queue of a pool, if there is one. The outer `None`: there is no such
    /// pool.
    pub(in crate::cq) fn take_first(&mut self, index: usize) -> Option<Option<OwnedPolled>> {
        let first = self.pool(index)?.pop_front();
        // SAFETY: It was an `OwnedPolled`, and is in no list any more. Consumers that still use
        // it have claimed entries of it.
        Some(first.map(|cq| OwnedPolled(unsafe { super::Owned::new(cq) })))
    }

    /// Puts a queue in front of a pool.
    ///
    /// # Errors
    ///
    /// The queue, if there is no such pool.
    pub(in crate::cq) fn add(&mut self, index: usize, cq: OwnedPolled) -> Result<(), OwnedPolled> {
        let Some(mut pool) = self.pool(index) else {
            return Err(cq);
        };
        // SAFETY: It lives until it is taken out, and is in no list.
        unsafe { pool.push_front(cq.0.into_raw()) };
        Ok(())
    }

    /// The first queue of a pool that `claim` claims entries of.
    pub(in crate::cq) fn find(
        &mut self,
        index: usize,
        mut claim: impl FnMut(&Cq) -> bool,
    ) -> Option<Claimed> {
        let pool = self.pool(index)?;
        // SAFETY: Queues in the list live while it is locked.
        let claimed = pool
            .iter()
            .find(|cq| claim(unsafe { Cq::view(cq.as_ptr()) }));
        claimed.map(Claimed)
    }
}

/// A queue of a pool of which entries were claimed for a consumer, which gets it.
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
