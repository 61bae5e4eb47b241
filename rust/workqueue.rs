// SPDX-License-Identifier: GPL-2.0

//! Work queues of one's own, and stopping of work.
//!
//! Work items and the system's queues are those of [`kernel::workqueue`]; this adds
//! queues that a module creates ([`OwnedQueue`]) and, for items kept in an `Arc`,
//! [`flush`], [`cancel`] and [`disable`].
//!
//! Delayed work is a timer first: C takes the queue's address when it is armed and uses it
//! when the timer expires. Destroying a queue waits for the work that is queued, not for such
//! timers. So only an item that holds a [`QueueLease`] can be queued with a delay, and a queue
//! with leases is not destroyed.
//!
//! C header: `include/linux/workqueue.h`.

use core::ptr::NonNull;

use crate::bindings;
use crate::edge::View;
use kernel::alloc::AllocError;
use kernel::alloc::Flags;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use kernel::time::Instant;
use kernel::time::Jiffies;
use kernel::time::Monotonic;
use kernel::workqueue::HasDelayedWork;
use kernel::workqueue::HasWork;
use kernel::workqueue::Queue;
use kernel::workqueue::RawWorkItem;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

/// How long the owner of a queue waits for those who have a lease of it, about.
const PATIENCE_MS: i64 = 2_000;

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
        let live = Live {
            queue: NonNull::new(queue).ok_or(ENOMEM)?,
            leases: Atomic::new(0),
        };
        match Arc::new(live, GFP_KERNEL) {
            Ok(live) => Ok(OwnedQueue(live)),
            Err(_) => {
                // SAFETY: The queue is new, so that nobody has it.
                unsafe { bindings::destroy_workqueue(queue) };
                Err(ENOMEM)
            }
        }
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

/// A queue, and who uses it.
///
/// # Invariants
///
/// `queue` exists as long as its [`OwnedQueue`] does, and as long as `leases`, which is the
/// number of [leases](QueueLease) besides the owner's, is not zero.
struct Live {
    queue: NonNull<bindings::workqueue_struct>,
    leases: Atomic<u32>,
}

// SAFETY: Work queues may be used from any task.
unsafe impl Send for Live {}
// SAFETY: As for `Send`.
unsafe impl Sync for Live {}

/// A queue of one's own; dropping it finishes all its work first.
///
/// It must not be dropped by its own work: the object that an item keeps must not own the
/// queue it runs on.
///
/// Drop waits until there is no [lease](QueueLease): delayed work may be on its way to the queue.
/// If there still is one after some seconds, a mistake, the queue is kept for good, with a
/// message.
///
/// It is no [`Queue`], which takes delayed items without a lease.
///
/// Context of drop: may sleep.
pub struct OwnedQueue(Arc<Live>);

impl Live {
    /// Only for whoever lets this queue be used: an owner or a lease.
    #[inline]
    fn queue(&self) -> &Queue {
        // SAFETY: By the type invariants the queue exists while its owner or a lease is borrowed,
        // as it is by who calls this. The reference does not leave this file.
        unsafe { Queue::from_raw(self.queue.as_ptr()) }
    }

    fn flush(&self) {
        // SAFETY: As in `queue`.
        unsafe { bindings::__flush_workqueue(self.queue.as_ptr()) };
    }
}

/// The right to use a queue, which is not destroyed as long as there is one. Items that are
/// queued with a delay have one; see [`Delayed`].
///
/// Context of clone and drop: any.
///
/// # Invariants
///
/// It is counted in `leases`.
pub struct QueueLease(Arc<Live>);

impl Clone for QueueLease {
    fn clone(&self) -> Self {
        Self::of(&self.0)
    }
}

impl Drop for QueueLease {
    fn drop(&mut self) {
        // Release: the queue is not used by this one any more; see the drop of the owner.
        let _: u32 = self.0.leases.fetch_sub(1u32, Release);
    }
}

impl QueueLease {
    fn of(live: &Arc<Live>) -> Self {
        // INVARIANT: Counted here. Each lease takes memory, so they are fewer than 2^32.
        let _: u32 = live.leases.fetch_add(1u32, Relaxed);
        Self(live.clone())
    }

    /// The C object, which exists as long as the lease does.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.0.queue.as_ptr()
    }

    /// Queues an item; see [`Queue::enqueue`].
    #[inline]
    pub fn enqueue<W, const ID: u64>(&self, item: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        self.0.queue().enqueue(item)
    }

    /// Waits until all that was queued before has run.
    ///
    /// Context: may sleep; not from work on this queue.
    pub fn flush(&self) {
        self.0.flush();
    }
}

impl OwnedQueue {
    /// A lease, for items that are queued with a delay, or that queue themselves.
    #[inline]
    pub fn lease(&self) -> QueueLease {
        QueueLease::of(&self.0)
    }

    /// The C object, which exists as long as the owner does.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.0.queue.as_ptr()
    }

    /// Queues an item; see [`Queue::enqueue`].
    #[inline]
    pub fn enqueue<W, const ID: u64>(&self, item: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        self.0.queue().enqueue(item)
    }

    /// Runs a closure as a work item; see [`Queue::try_spawn`].
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn try_spawn<T: 'static + Send + FnOnce()>(
        &self,
        flags: Flags,
        call: T,
    ) -> Result<(), AllocError> {
        self.0.queue().try_spawn(flags, call)
    }

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
        self.0.flush();
    }

    /// Waits until the queue is empty, also of what its own work adds meanwhile.
    ///
    /// Nobody but that work may queue anything until it returns.
    ///
    /// Context: may sleep; not from work on this queue.
    pub fn drain(&self) {
        // SAFETY: By the invariants of `Live` the queue exists as long as its owner.
        unsafe { bindings::drain_workqueue(self.as_raw()) };
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // Items that are queued may have the last leases.
        self.flush();
        // A lease is made of another one or of the owner: once there is none, none comes.
        // Acquire: pairs with the drop of a lease.
        // By the clock: a short sleep may take much longer than it says.
        let begun = Instant::<Monotonic>::now();
        while begun.elapsed().as_millis() < PATIENCE_MS {
            if self.0.leases.load(Acquire) == 0 {
                // SAFETY: By the invariants of `Live` nobody uses the queue but for plain work,
                // which is waited for here, and delayed work has a lease.
                unsafe { bindings::destroy_workqueue(self.as_raw()) };
                return;
            }
            fsleep(Delta::from_millis(1));
        }
        // SAFETY: The format is one of the kernel crate, and the name ends with a zero.
        unsafe {
            kernel::print::call_printk(
                &kernel::print::format_strings::ERR,
                b"rdma\0",
                fmt!("a workqueue is kept for good: its owner went before its users\n"),
            )
        };
    }
}

/// An object whose work can be queued with a delay: it has a lease of the queue that it goes to.
///
/// While its timer is pending, C has a reference to the object and the address of the queue. The
/// object is shared meanwhile, hence not changed but through `&self`; and [`lease`](Self::lease)
/// gives a reference that lives as long as any `&self`. So the lease that was used stays, and
/// with it the queue.
pub trait Delayed<const ID: u64 = 0>:
    HasDelayedWork<Self, ID> + WorkItem<ID, Pointer = Arc<Self>> + Send + Sync + Sized + 'static
{
    /// The lease of the queue that the work goes to.
    fn lease(&self) -> &QueueLease;
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
    flush_work(work(item))
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
    // SAFETY: What it returns is whether it took the work off its queue.
    unsafe { take_back(item, CWork::cancel) }
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
    // SAFETY: What it returns is whether it took the work off its queue.
    unsafe { take_back(item, CWork::disable) }
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
    // SAFETY: By the promise of `HasDelayedWork` the work is that of a `delayed_work`, which is
    // initialised and kept by `item`. What the function returns is whether it took the work off its
    // queue, or its timer.
    unsafe {
        take_back(item, |work| {
            bindings::cancel_delayed_work_sync(kernel::container_of!(
                work.raw(),
                bindings::delayed_work,
                work
            ))
        })
    }
}

/// Queues the item's work after this delay, unless it is queued already: then the reference
/// comes back.
///
/// Context: any.
///
/// # Examples
///
/// ```ignore
/// let _ = workqueue::enqueue_delayed::<Pool, 0>(pool, msecs_to_jiffies(10));
/// ```
pub fn enqueue_delayed<T: Delayed<ID>, const ID: u64>(
    item: Arc<T>,
    delay: Jiffies,
) -> Result<(), Arc<T>> {
    let queue = item.lease().as_raw();
    // SAFETY: The queue exists as long as the timer is pending, as `Delayed` says; the reference
    // is used here only.
    unsafe { Queue::from_raw(queue) }.enqueue_delayed::<_, ID>(item, delay)
}

/// Queues the item with this delay, whether it is queued already, with another delay, or not.
/// While its work runs, it is queued to run again.
///
/// Context: any, but not with interrupts off that an interrupt may have found so.
///
/// # Examples
///
/// ```ignore
/// workqueue::modify_delayed::<Request, 0>(&request, msecs_to_jiffies(10));
/// ```
pub fn modify_delayed<T: Delayed<ID>, const ID: u64>(item: &Arc<T>, delay: Jiffies) {
    // The queue's, if it has none yet.
    let reference = Arc::into_raw(item.clone());
    // SAFETY: By the promise of `HasDelayedWork` the work is that of a `delayed_work`, which is
    // initialised and kept by `item`; the queue exists as long as the timer is pending, as
    // `Delayed` says.
    let was_queued = unsafe {
        bindings::mod_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            item.lease().as_raw(),
            kernel::container_of!(work(item).raw(), bindings::delayed_work, work),
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

crate::c_struct! {
    /// Work within a C structure. A reference promises that it is initialised.
    pub struct CWork: bindings::work_struct;
    fields {}
}

crate::import! {
    in crate::bindings;

    /// Of work that is initialised, as the next ones: waits for it. May sleep.
    fn flush_work(work: &CWork) -> bool = flush_work;
    fn cancel_work_sync(work: &CWork) -> bool = cancel_work_sync;
    fn disable_work_sync(work: &CWork) -> bool = disable_work_sync;
}

impl CWork {
    /// Takes it off its queue, and waits for it if it runs. Whether it was queued. May sleep.
    pub fn cancel(&self) -> bool {
        cancel_work_sync(self)
    }

    /// As [`cancel`](Self::cancel), and it is not queued any more from now on.
    pub fn disable(&self) -> bool {
        disable_work_sync(self)
    }
}

/// The C part of the item's work.
fn work<T: HasWork<T, ID>, const ID: u64>(item: &Arc<T>) -> &CWork {
    // SAFETY: An `Arc` points to a live object, of which the work is a field, initialised with it.
    unsafe { CWork::view(Work::raw_get(T::raw_get_work(Arc::as_ptr(item).cast_mut()))) }
}

/// Takes the item off its queue by `take_off`. Returns the reference that the queue held.
///
/// # Safety
///
/// `take_off` returns whether it has taken the work off its queue, so that it will not run.
unsafe fn take_back<T: HasWork<T, ID>, const ID: u64>(
    item: &Arc<T>,
    take_off: impl FnOnce(&CWork) -> bool,
) -> Option<Arc<T>> {
    // SAFETY: Queueing gave away an `Arc` to this very object by `into_raw`, which nobody else takes
    // back, since the work does not run (contract of this function).
    take_off(work(item)).then(|| unsafe { Arc::from_raw(Arc::as_ptr(item)) })
}
