// SPDX-License-Identifier: GPL-2.0

//! Pools of shared queues. Each device has queues per completion vector and context, created on
//! demand and freed when the device is removed.
//!
//! A consumer claims a number of completions of a queue and returns them when its queue pairs are
//! gone. Rules: [`cq_pool`].

use super::alloc;
use super::edge;
use super::edge::pools::Claimed;
use super::edge::pools::Pools;
use super::edge::OwnedPolled;
use super::free;
use super::Context;
use super::Request;
use crate::device::Device;
use crate::object::Cq;
use crate::object::Object;
use crate::proto::cq_pool;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::edge::Passed;
use rdma::features::limit;

/// Most recently selected vector, for consumers without a preference.
static LAST: Atomic<u32> = Atomic::<u32>::new(0);

/// Returns the index of the pool for a context; `None` if its queues cannot be shared.
fn index(context: Context) -> Option<usize> {
    match context {
        Context::Softirq | Context::Workqueue | Context::Unbound => {
            Some(context.into_raw() as usize)
        }
        Context::Direct => None,
    }
}

/// Frees all shared queues. The device must have no consumers. May sleep.
pub(crate) fn clean_up(device: &Device) {
    for index in 0.. {
        loop {
            let Some(first) = Pools::lock(device).take_first(index) else {
                return;
            };
            let Some(cq) = first else { break };
            kernel::warn_on!(cq.cqe_used() != 0);
            free_shared(cq);
        }
    }
}

/// Frees a shared queue that is in no list.
fn free_shared(mut cq: OwnedPolled) {
    cq.set_shared(false);
    free(cq);
}

/// Number of vectors that the device's pools use.
pub(super) fn vectors(device: &Device) -> u32 {
    let of_device = u32::try_from(device.num_comp_vectors()).unwrap_or(0);
    cq_pool::vectors(of_device, edge::online_cpus())
}

/// Adds a queue for each of the first `vectors` vectors. May sleep.
fn grow(device: &Device, context: Context, index: usize, size: u32, vectors: u32) -> Result {
    let size = c_int::try_from(size).map_err(|_| EINVAL)?;
    let mut new = New::default();
    for vector in 0..vectors {
        let request = Request {
            private: Passed::NULL,
            size,
            // CAST: there are no more vectors than CPUs.
            vector: vector as c_int,
            context,
            caller: Some(c"ib_core"),
        };
        new.push(alloc(device, &request)?)?;
    }
    let mut pools = Pools::lock(device);
    // `add` inserts at the front, so this ends with the first vector in front.
    while let Some(cq) = new.0.pop() {
        if let Err(cq) = pools.add(index, cq) {
            drop(pools);
            free_shared(cq);
            break;
        }
    }
    Ok(())
}

/// Claims `wanted` completions of a queue for this context and vector (any if `hint` is negative).
/// May sleep.
///
/// # Errors
///
/// `EINVAL` for direct context, and for more completions than the device supports (where the C core
/// loops forever). `ENOMEM`; errors of the driver.
pub(super) fn get(
    device: &Device,
    wanted: u32,
    hint: c_int,
    context: Option<Context>,
) -> Result<Claimed> {
    let found = context.and_then(|context| Some((context, index(context)?)));
    let Some((context, index)) = found else {
        kernel::warn_on!(true);
        return Err(EINVAL);
    };
    let vectors = vectors(device);
    let (vector, last) = cq_pool::choose(hint, LAST.load(Relaxed), vectors);
    LAST.store(last, Relaxed);
    let max = limit(device.attrs().max_cqe());
    let size = cq_pool::size(wanted, max).ok_or(EINVAL)?;
    loop {
        let claimed = Pools::lock(device).find(index, |cq| claim(cq, vector, wanted));
        if let Some(cq) = claimed {
            return Ok(cq);
        }
        grow(device, context, index, size, vectors)?;
    }
}

/// Claims `wanted` completions if the queue is for this vector and has enough left. Returns whether
/// it did. The pools must be locked.
fn claim(cq: &Cq, vector: u32, wanted: u32) -> bool {
    let size = u32::try_from(cq.cqe()).unwrap_or(0);
    let claim = cq_pool::claim(cq.cqe_used(), wanted, size);
    match claim.filter(|_| cq.comp_vector() == vector) {
        Some(used) => {
            cq.set_cqe_used(used);
            true
        }
        None => false,
    }
}

/// Returns `claimed` completions that the caller got by [`get`]. Process context.
pub(super) fn put(cq: &Cq, claimed: u32) {
    // `cqe_used` is only changed under the lock.
    let pools = Pools::lock(cq.device());
    let left = cq.cqe_used().checked_sub(claimed);
    if let Some(left) = left {
        cq.set_cqe_used(left);
    }
    drop(pools);
    kernel::warn_on!(left.is_none());
}

/// New queues that are not in a pool yet; freed on drop.
#[derive(Default)]
struct New(KVec<OwnedPolled>);

impl New {
    /// Adds a new queue; frees it on an error.
    fn push(&mut self, mut cq: OwnedPolled) -> Result {
        cq.set_shared(true);
        match self.0.reserve(1, GFP_KERNEL) {
            Ok(()) => Ok(self.0.push_within_capacity(cq).map_err(|_| ENOMEM)?),
            Err(error) => {
                free_shared(cq);
                Err(error.into())
            }
        }
    }
}

impl Drop for New {
    fn drop(&mut self) {
        while let Some(cq) = self.0.pop() {
            free_shared(cq);
        }
    }
}
