// SPDX-License-Identifier: GPL-2.0

//! Work queues of one's own, and stopping of work.
//!
//! Work items and the system's queues are those of [`kernel::workqueue`]; this adds
//! queues that a module creates ([`OwnedQueue`]) and, for items kept in an `Arc`,
//! [`flush`], [`cancel`] and [`disable`].
//!
//! C header: `include/linux/workqueue.h`.

use core::ops::Deref;
use core::ptr::NonNull;

use crate::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::Jiffies;
use kernel::workqueue::HasDelayedWork;
use kernel::workqueue::HasWork;
use kernel::workqueue::Queue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

/// How a new queue behaves; ends with [`create`](Self::create).
///
/// # Examples
///
/// ```ignore
/// let queue = QueueOptions::unbound().mem_reclaim().create(c"rxe-resp")?;
/// queue.enqueue(item);
/// ```
#[derive(Clone, Copy)]
#[must_use = "`create` makes the queue"]
pub struct QueueOptions {
    flags: c_uint,
    max_active: c_int,
}

impl QueueOptions {
    /// Workers that sleep, on the CPU that queued the work.
    pub const fn per_cpu() -> Self {
        Self::with(bindings::wq_flags_WQ_PERCPU)
    }

    /// Workers that sleep, on whatever CPU is free.
    pub const fn unbound() -> Self {
        Self::with(bindings::wq_flags_WQ_UNBOUND)
    }

    /// Unbound, one item after the other in the order of queueing.
    pub const fn ordered() -> Self {
        Self {
            flags: bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags___WQ_ORDERED,
            max_active: 1,
        }
    }

    /// Softirq on the CPU that queued the work; items must not sleep.
    pub const fn bh() -> BhQueueOptions {
        BhQueueOptions(Self::with(
            bindings::wq_flags_WQ_BH | bindings::wq_flags_WQ_PERCPU,
        ))
    }

    /// Progress is guaranteed when memory is short: for work that frees memory, as
    /// all on the way of storage does.
    pub const fn mem_reclaim(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_MEM_RECLAIM;
        self
    }

    /// Workers of high scheduling priority.
    pub const fn high_priority(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_HIGHPRI;
        self
    }

    /// Attributes of the queue are shown, and can be set, in
    /// `/sys/devices/virtual/workqueue`.
    pub const fn sysfs(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_SYSFS;
        self
    }

    /// As many items may run at once as a queue can have, not the default number.
    pub const fn max_active(mut self) -> Self {
        self.max_active = bindings::wq_consts_WQ_MAX_ACTIVE as c_int;
        self
    }

    /// Creates the queue.
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn create(self, name: &CStr) -> Result<OwnedQueue> {
        // SAFETY: The name is a string; it is copied.
        let queue = unsafe {
            bindings::rdma_helper_alloc_workqueue(name.as_char_ptr(), self.flags, self.max_active)
        };
        // INVARIANT: We own the new queue.
        Ok(OwnedQueue(NonNull::new(queue).ok_or(ENOMEM)?))
    }

    const fn with(flags: c_uint) -> Self {
        Self {
            flags,
            // The kernel's default.
            max_active: 0,
        }
    }
}

/// [`QueueOptions::bh`], for which only priority can be chosen.
#[derive(Clone, Copy)]
#[must_use = "`create` makes the queue"]
pub struct BhQueueOptions(QueueOptions);

impl BhQueueOptions {
    /// Runs before other softirq work.
    pub const fn high_priority(self) -> Self {
        Self(self.0.high_priority())
    }

    /// Creates the queue; see [`QueueOptions::create`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn create(self, name: &CStr) -> Result<OwnedQueue> {
        self.0.create(name)
    }
}

/// A queue of one's own; dropping it finishes all its work first.
///
/// It is a [`Queue`], so `queue.enqueue(item)` works. It must not be dropped by its
/// own work: the object that an item keeps must not own the queue it runs on.
///
/// Context of drop: may sleep.
///
/// # Invariants
///
/// The pointer is a live queue that nobody else destroys.
pub struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues may be used from any task.
unsafe impl Send for OwnedQueue {}
// SAFETY: As for `Send`.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Waits until all that was queued before has run.
    ///
    /// Context: may sleep; not from work on this queue.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// queue.flush();
    /// ```
    pub fn flush(&self) {
        // SAFETY: By the type invariant the queue is alive.
        unsafe { bindings::__flush_workqueue(self.0.as_ptr()) };
    }

    /// Waits until the queue is empty, also of what its own work adds meanwhile.
    ///
    /// Nobody but that work may queue anything until it returns.
    ///
    /// Context: may sleep; not from work on this queue.
    pub fn drain(&self) {
        // SAFETY: By the type invariant the queue is alive.
        unsafe { bindings::drain_workqueue(self.0.as_ptr()) };
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    #[inline]
    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant the queue lives as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is ours; `Queue`s borrow from us.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Waits until the item's work, if queued or running, is done.
///
/// Returns whether there was something to wait for.
///
/// Context: may sleep; not from that work.
///
/// # Examples
///
/// ```ignore
/// workqueue::flush::<Qp, 1>(&qp);
/// ```
pub fn flush<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    // SAFETY: The work is initialised and kept by `item`.
    unsafe { bindings::flush_work(work(item)) }
}

/// Takes the item off its queue, or waits until its work is done.
///
/// Returns the reference that the queue held, if it was queued. It can be queued
/// again.
///
/// Context: may sleep; not from that work.
///
/// # Examples
///
/// ```ignore
/// drop(workqueue::cancel::<Qp, 0>(&qp));
/// ```
pub fn cancel<T, const ID: u64>(item: &Arc<T>) -> Option<Arc<T>>
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    // SAFETY: The work is initialised and kept by `item`.
    let was_queued = unsafe { bindings::cancel_work_sync(work(item)) };
    // SAFETY: It was queued, hence held a reference, and will not run.
    was_queued.then(|| unsafe { take_back(item) })
}

/// Like [`cancel`], and queueing fails from now on, with the reference given back.
///
/// This is how work ends before the object does. It counts: each call would need an
/// enabling one before the item could be queued again, and there is none.
///
/// Context: may sleep; not from that work.
///
/// # Examples
///
/// ```ignore
/// drop(workqueue::disable::<Qp, 0>(&qp));
/// ```
pub fn disable<T, const ID: u64>(item: &Arc<T>) -> Option<Arc<T>>
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    // SAFETY: The work is initialised and kept by `item`.
    let was_queued = unsafe { bindings::disable_work_sync(work(item)) };
    // SAFETY: It was queued, hence held a reference, and will not run.
    was_queued.then(|| unsafe { take_back(item) })
}

/// [`cancel`] for work that was queued with a delay.
///
/// Context: may sleep; not from that work.
///
/// # Examples
///
/// ```ignore
/// drop(workqueue::cancel_delayed::<Port, 0>(&port));
/// ```
pub fn cancel_delayed<T, const ID: u64>(item: &Arc<T>) -> Option<Arc<T>>
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    // SAFETY: By the promise of `HasDelayedWork` the work is that of a `delayed_work`,
    // which is initialised and kept by `item`.
    let was_queued = unsafe {
        bindings::cancel_delayed_work_sync(kernel::container_of!(
            work(item),
            bindings::delayed_work,
            work
        ))
    };
    // SAFETY: It was queued, hence held a reference, and will not run.
    was_queued.then(|| unsafe { take_back(item) })
}

/// Queues the item with this delay, whether it is queued already, with another delay, or not.
/// While its work runs, it is queued to run again.
///
/// Context: any, but not with interrupts off that an interrupt may have found so.
///
/// # Examples
///
/// ```ignore
/// workqueue::modify_delayed::<Request, 0>(&queue, &request, msecs_to_jiffies(10));
/// ```
pub fn modify_delayed<T, const ID: u64>(queue: &Queue, item: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
{
    // The queue's, if it has none yet.
    let reference = Arc::into_raw(item.clone());
    // SAFETY: By the promise of `HasDelayedWork` the work is that of a `delayed_work`, which is
    // initialised and kept by `item`; the queue is alive.
    let was_queued = unsafe {
        bindings::mod_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            core::ptr::from_ref(queue).cast_mut().cast(),
            kernel::container_of!(work(item), bindings::delayed_work, work),
            delay,
        )
    };
    if was_queued {
        // SAFETY: The queue has had a reference since before, and does not take this one.
        drop(unsafe { Arc::from_raw(reference) });
    }
}

/// The system's queue for work that may sleep, on whatever CPU is free. It replaces what
/// the `kernel` crate calls `system_unbound`, which the kernel deprecates.
pub fn system_dfl() -> &'static Queue {
    // SAFETY: `system_dfl_wq` is a C global that is there before any module.
    unsafe { Queue::from_raw(bindings::system_dfl_wq) }
}

/// The C part of the item's work.
fn work<T: HasWork<T, ID>, const ID: u64>(item: &Arc<T>) -> *mut bindings::work_struct {
    // SAFETY: An `Arc` points to a live object.
    let work = unsafe { T::raw_get_work(Arc::as_ptr(item).cast_mut()) };
    // SAFETY: It is a field of that object.
    unsafe { Work::raw_get(work) }
}

/// The reference that a queue held.
///
/// # Safety
///
/// The item must have been taken off a queue, and this be called once for that.
unsafe fn take_back<T>(item: &Arc<T>) -> Arc<T> {
    // SAFETY: Queueing gave away an `Arc` to this very object by `into_raw`; the
    // caller promises that nobody else takes it back.
    unsafe { Arc::from_raw(Arc::as_ptr(item)) }
}
