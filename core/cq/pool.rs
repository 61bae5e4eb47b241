// SPDX-License-Identifier: GPL-2.0

//! Queues that consumers share: each device has some for every interrupt and context, made
//! when somebody asks, and freed when the device leaves.
//!
//! A consumer claims so many completions of a queue, and gives them back when its queue pairs
//! are gone. Rules: [`cq_pool`].

use super::alloc;
use super::free;
use super::Context;
use super::Request;
use crate::chain::Chain;
use crate::device::Device;
use crate::proto::cq_pool;
use core::mem::offset_of;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::Passed;
use rdma::sync::SpinLockIrq;

const ENTRY: usize = offset_of!(bindings::ib_cq, pool_entry);

/// The queues of one context.
type Pool<'g> = Chain<'g, bindings::ib_cq, ENTRY>;

/// The vector that was chosen last, for consumers that do not care.
static LAST: Atomic<u32> = Atomic::<u32>::new(0);

/// Which pool serves a context; none where queues cannot be shared.
fn index(context: Context) -> Option<usize> {
    match context {
        Context::Softirq | Context::Workqueue | Context::Unbound => {
            Some(context.into_raw() as usize)
        }
        Context::Direct => None,
    }
}

/// The lock of a device's pools.
fn lock(device: &Device) -> &SpinLockIrq<()> {
    // SAFETY: It is initialised with the device, and stays as long.
    unsafe { SpinLockIrq::from_raw(&raw mut (*device.as_raw()).cq_pools_lock) }
}

/// The pool of this index.
fn pool<'g, G>(device: &Device, index: usize, locked: &'g mut G) -> Option<Pool<'g>> {
    // SAFETY: The lists are fields of the device, initialised with it, of queues that are
    // shared; the guard is of their lock.
    unsafe {
        let lists = &raw mut (*device.as_raw()).cq_pools;
        let list = (*lists).get_mut(index)?;
        Some(Pool::new(NonNull::from(list), locked))
    }
}

/// Frees all shared queues; the device's consumers have gone. May sleep.
pub(crate) fn clean_up(device: &Device) {
    for index in 0.. {
        loop {
            let mut guard = lock(device).lock();
            let Some(mut pool) = pool(device, index, &mut guard) else {
                return;
            };
            let Some(cq) = pool.pop_front() else { break };
            drop(guard);
            // SAFETY: It was in the list, so it is shared; nobody finds it any more.
            unsafe {
                kernel::warn_on!((*cq.as_ptr()).cqe_used != 0);
                free_shared(cq);
            }
        }
    }
}

/// # Safety
///
/// `cq` is a shared queue in no list.
unsafe fn free_shared(cq: NonNull<bindings::ib_cq>) {
    // SAFETY: By this function's duty nobody else has it.
    unsafe {
        (*cq.as_ptr()).set_shared(0);
        free(cq);
    }
}

/// How many vectors the device's pools use.
pub(super) fn vectors(device: &Device) -> u32 {
    // SAFETY: Written before the device is registered; the number of CPUs is read.
    let (of_device, cpus) = unsafe {
        (
            (*device.as_raw()).num_comp_vectors,
            bindings::rdma_helper_num_online_cpus(),
        )
    };
    cq_pool::vectors(u32::try_from(of_device).unwrap_or(0), cpus)
}

/// Adds a queue for each of the first `vectors` vectors. May sleep.
///
/// # Safety
///
/// `device` is registered.
unsafe fn grow(device: &Device, context: Context, index: usize, size: u32, vectors: u32) -> Result {
    let size = c_int::try_from(size).map_err(|_| EINVAL)?;
    let mut new = New::default();
    for vector in 0..vectors {
        let request = Request {
            private: Passed::NULL,
            size,
            vector: vector as c_int,
            context,
            caller: Some(c"ib_core"),
        };
        // SAFETY: By this function's duty, and pools are emptied before the device goes.
        let cq = unsafe { alloc(device, &request) }?;
        new.push(NonNull::from(&*cq).cast())?;
    }
    let mut guard = lock(device).lock();
    if let Some(mut pool) = pool(device, index, &mut guard) {
        // In front, the first vector first.
        while let Some(cq) = new.0.pop() {
            // SAFETY: It lives until it is taken out, and is in no list.
            unsafe { pool.push_front(cq) };
        }
    }
    Ok(())
}

/// Claims `wanted` completions of a queue for this vector, or any, and context. May sleep.
///
/// # Errors
///
/// `EINVAL` for a context that the consumer polls in itself; for more completions than the
/// device can, where the C core would try for ever. `ENOMEM`; the driver's.
///
/// # Safety
///
/// `device` is registered.
pub(super) unsafe fn get(
    device: &Device,
    wanted: u32,
    hint: c_int,
    context: Option<Context>,
) -> Result<NonNull<bindings::ib_cq>> {
    let found = context.and_then(|context| Some((context, index(context)?)));
    let Some((context, index)) = found else {
        kernel::warn_on!(true);
        return Err(EINVAL);
    };
    let vectors = vectors(device);
    let (vector, last) = cq_pool::choose(hint, LAST.load(Relaxed), vectors);
    LAST.store(last, Relaxed);
    // SAFETY: Written before the device is registered.
    let max = u32::try_from(unsafe { (*device.as_raw()).attrs.max_cqe }).unwrap_or(0);
    let size = cq_pool::size(wanted, max).ok_or(EINVAL)?;
    loop {
        if let Some(cq) = claim(device, index, vector, wanted) {
            return Ok(cq);
        }
        // SAFETY: By this function's duty.
        unsafe { grow(device, context, index, size, vectors) }?;
    }
}

/// The first queue of a pool that is for this vector and has so much room, with that claimed.
fn claim(
    device: &Device,
    index: usize,
    vector: u32,
    wanted: u32,
) -> Option<NonNull<bindings::ib_cq>> {
    let mut guard = lock(device).lock();
    let pool = pool(device, index, &mut guard)?;
    let claimed = pool.iter().find(|cq| {
        // SAFETY: It lives while it is in the list, and what is in use of it is changed under
        // the lock only.
        unsafe {
            let cq = cq.as_ptr();
            let size = u32::try_from((*cq).cqe).unwrap_or(0);
            let claim = cq_pool::claim((*cq).cqe_used, wanted, size);
            match claim.filter(|_| (*cq).comp_vector == vector) {
                Some(used) => {
                    (*cq).cqe_used = used;
                    true
                }
                None => false,
            }
        }
    });
    claimed
}

/// Gives back what was claimed. Process context.
///
/// # Safety
///
/// `cq` is from [`get`], and so much of it was claimed by the caller.
pub(super) unsafe fn put(cq: *mut bindings::ib_cq, claimed: u32) {
    // SAFETY: By this function's duty the queue and its device live.
    let device = unsafe { Device::from_raw((*cq).device) };
    let guard = lock(device).lock();
    // SAFETY: Changed under the lock only.
    let enough = unsafe {
        match (*cq).cqe_used.checked_sub(claimed) {
            Some(left) => {
                (*cq).cqe_used = left;
                true
            }
            None => false,
        }
    };
    drop(guard);
    kernel::warn_on!(!enough);
}

/// New queues that no pool has yet; freed on drop.
///
/// # Invariants
///
/// They are of [`alloc`], and nobody else knows them.
#[derive(Default)]
struct New(KVec<NonNull<bindings::ib_cq>>);

impl New {
    /// Takes a queue that was just made; on an error it is freed.
    fn push(&mut self, cq: NonNull<bindings::ib_cq>) -> Result {
        // SAFETY: By the caller it is new; nobody else has it.
        unsafe { (*cq.as_ptr()).set_shared(1) };
        self.0.push(cq, GFP_KERNEL).map_err(|error| {
            // SAFETY: As above.
            unsafe { free_shared(cq) };
            error.into()
        })
    }
}

impl Drop for New {
    fn drop(&mut self) {
        while let Some(cq) = self.0.pop() {
            // SAFETY: By the type invariant.
            unsafe { free_shared(cq) };
        }
    }
}
