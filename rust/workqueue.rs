// SPDX-License-Identifier: GPL-2.0

//! Workqueues created by modules, and cancellation of work.
//!
//! Work items and the system's workqueues are those of [`kernel::workqueue`]. This module adds
//! queues that a module creates ([`OwnedQueue`]) and, for items in an `Arc`, [`enqueue_system`],
//! [`flush`], [`cancel`] and [`disable`].
//!
//! Delayed work is a timer first: C stores the address of the queue when the timer is armed, and
//! uses it when it expires. Destruction of a queue waits for queued work, but not for such timers.
//! So only items that hold a [`QueueLease`] can be queued with a delay, and a queue with leases is
//! not destroyed. The queue and its leases keep the module of its creator: work that its owner
//! forgot would run freed code.
//!
//! C header: `include/linux/workqueue.h`.

use core::ptr::NonNull;

use crate::bindings;
use crate::edge::View;
use crate::module::Resident;
use crate::print;
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

/// Time that the drop of a queue waits for its leases, in milliseconds.
const PATIENCE_MS: i64 = 2_000;

/// Attributes of a new queue. [`create`](Self::create) creates it.
///
/// # Examples
///
/// ```ignore
/// let queue = QueueOptions::unbound().mem_reclaim().create(c"rxe-resp", rdma::resident!())?;
/// queue.enqueue(item);
/// ```
#[derive(Clone, Copy)]
#[must_use = "`create` makes the queue"]
pub struct QueueOptions {
    flags: c_uint,
    max_active: c_int,
}

impl QueueOptions {
    /// Process context, on the CPU that queued the work.
    pub const fn per_cpu() -> Self {
        Self::with(bindings::wq_flags_WQ_PERCPU)
    }

    /// Process context, on any CPU.
    pub const fn unbound() -> Self {
        Self::with(bindings::wq_flags_WQ_UNBOUND)
    }

    /// Unbound; one item at a time, in queueing order.
    pub const fn ordered() -> Self {
        Self {
            flags: bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags___WQ_ORDERED,
            max_active: 1,
        }
    }

    /// Softirq context on the CPU that queued the work; items must not sleep.
    pub const fn bh() -> BhQueueOptions {
        BhQueueOptions(Self::with(
            bindings::wq_flags_WQ_BH | bindings::wq_flags_WQ_PERCPU,
        ))
    }

    /// Guarantees forward progress under memory pressure: for work that is needed to free memory,
    /// such as all work in the I/O path.
    pub const fn mem_reclaim(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_MEM_RECLAIM;
        self
    }

    /// Workers with high scheduling priority.
    pub const fn high_priority(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_HIGHPRI;
        self
    }

    /// Attributes of the queue are shown, and can be changed, in `/sys/devices/virtual/workqueue`.
    pub const fn sysfs(mut self) -> Self {
        self.flags |= bindings::wq_flags_WQ_SYSFS;
        self
    }

    /// Allows the maximum number of concurrently running items, instead of the default number.
    pub const fn max_active(mut self) -> Self {
        self.max_active = bindings::wq_consts_WQ_MAX_ACTIVE as c_int;
        self
    }

    /// Creates the queue. `resident` is [`resident!()`](crate::resident).
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn create(self, name: &CStr, resident: Resident) -> Result<OwnedQueue> {
        // SAFETY: The name is a string, which is copied.
        let queue = unsafe {
            bindings::rdma_helper_alloc_workqueue(name.as_char_ptr(), self.flags, self.max_active)
        };
        // INVARIANT: The queue is new and owned by this.
        let live = Live {
            queue: NonNull::new(queue).ok_or(ENOMEM)?,
            leases: Atomic::new(0),
            _resident: resident,
        };
        match Arc::new(live, GFP_KERNEL) {
            Ok(live) => Ok(OwnedQueue(live)),
            Err(_) => {
                // SAFETY: The queue is new, so it is not in use.
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

/// [`QueueOptions::bh`], which supports only the priority flag.
#[derive(Clone, Copy)]
#[must_use = "`create` makes the queue"]
pub struct BhQueueOptions(QueueOptions);

impl BhQueueOptions {
    /// Runs before other BH work.
    pub const fn high_priority(self) -> Self {
        Self(self.0.high_priority())
    }

    /// Creates the queue; see [`QueueOptions::create`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn create(self, name: &CStr, resident: Resident) -> Result<OwnedQueue> {
        self.0.create(name, resident)
    }
}

/// A queue and its use count.
///
/// # Invariants
///
/// `queue` exists as long as its [`OwnedQueue`], and as long as `leases`, the number of
/// [leases](QueueLease), is not zero.
struct Live {
    queue: NonNull<bindings::workqueue_struct>,
    leases: Atomic<u32>,
    _resident: Resident,
}

// SAFETY: Workqueues may be used from any task.
unsafe impl Send for Live {}
// SAFETY: As for `Send`: workqueues may be used from any task.
unsafe impl Sync for Live {}

/// A queue created by a module. Drop waits for all its work.
///
/// It must not be dropped by its own work: the object that an item keeps must not own the queue it
/// runs on.
///
/// Drop waits until there is no [lease](QueueLease), because a timer of delayed work may still use
/// the queue. If a lease is left after `PATIENCE_MS`, which is a bug, the queue is leaked, with a
/// message.
///
/// It does not dereference to [`Queue`], which accepts delayed items without a lease.
///
/// Context of drop: may sleep.
pub struct OwnedQueue(Arc<Live>);

impl Live {
    /// For the owner and the leases only.
    #[inline]
    fn queue(&self) -> &Queue {
        // SAFETY: The queue exists while its owner or a lease is borrowed (type invariant), as it
        // is by the caller. The reference is not passed out of this file.
        unsafe { Queue::from_raw(self.queue.as_ptr()) }
    }

    fn flush(&self) {
        // SAFETY: As in `queue`: the queue exists while its owner or a lease is borrowed.
        unsafe { bindings::__flush_workqueue(self.queue.as_ptr()) };
    }
}

/// A reference to a queue, which is not destroyed while there is one. Items that are queued with a
/// delay have one; see [`Delayed`].
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
        // Release: uses of the queue through this lease come before; pairs with the drop of the
        // owner.
        let _: u32 = self.0.leases.fetch_sub(1u32, Release);
    }
}

impl QueueLease {
    fn of(live: &Arc<Live>) -> Self {
        // INVARIANT: Counted here. Each lease takes memory, so there are fewer than 2^32.
        let _: u32 = live.leases.fetch_add(1u32, Relaxed);
        Self(live.clone())
    }

    /// Returns the C structure, which exists as long as the lease.
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

    /// Waits until all previously queued work has run.
    ///
    /// Context: may sleep; not from work on this queue.
    pub fn flush(&self) {
        self.0.flush();
    }
}

impl OwnedQueue {
    /// Returns a lease, for items that are queued with a delay, or that queue themselves.
    #[inline]
    pub fn lease(&self) -> QueueLease {
        QueueLease::of(&self.0)
    }

    /// Returns the C structure, which exists as long as the owner.
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
    /// `AllocError` if memory cannot be allocated.
    pub fn try_spawn<T: 'static + Send + FnOnce()>(
        &self,
        flags: Flags,
        call: T,
    ) -> Result<(), AllocError> {
        self.0.queue().try_spawn(flags, call)
    }

    /// Waits until all previously queued work has run.
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

    /// Waits until the queue is empty, including work that its own work queues.
    ///
    /// Only that work may queue anything until this returns.
    ///
    /// Context: may sleep; not from work on this queue.
    pub fn drain(&self) {
        // SAFETY: The queue exists as long as its owner (invariant of `Live`).
        unsafe { bindings::drain_workqueue(self.as_raw()) };
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // Queued items may hold the last leases.
        self.flush();
        // A lease is created only from another one or from the owner, so once there is none, there
        // will be none. Acquire: pairs with the drop of a lease. The time is measured, because a
        // short sleep may take much longer than requested.
        let begun = Instant::<Monotonic>::now();
        while begun.elapsed().as_millis() < PATIENCE_MS {
            if self.0.leases.load(Acquire) == 0 {
                // SAFETY: There are no leases, so no delayed work; only the owner and queued work
                // use the queue (invariant of `Live`), and the function waits for the latter.
                unsafe { bindings::destroy_workqueue(self.as_raw()) };
                return;
            }
            fsleep(Delta::from_millis(1));
        }
        print::error(fmt!(
            "a workqueue is kept for good: its owner went before its users\n"
        ));
    }
}

/// An object whose work can be queued with a delay. It holds a lease of the queue.
///
/// While its timer is pending, C has a reference to the object and the address of the queue. The
/// object is shared meanwhile, so it changes only through `&self`, and [`lease`](Self::lease)
/// returns a reference that is valid as long as any `&self`. So the lease that was used stays, and
/// with it the queue.
pub trait Delayed<const ID: u64 = 0>:
    HasDelayedWork<Self, ID> + WorkItem<ID, Pointer = Arc<Self>> + Send + Sync + Sized + 'static
{
    /// Returns the lease of the queue that the work is queued on.
    fn lease(&self) -> &QueueLease;
}

/// Waits until the item's work, if queued or running, is done.
///
/// Returns whether it had to wait.
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

/// Removes the item from its queue, or waits until its work is done.
///
/// Returns the reference that the queue held, if the item was queued. The item can be queued again.
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
    // SAFETY: `CWork::cancel` returns whether it has removed the work from its queue.
    unsafe { take_back(item, CWork::cancel) }
}

/// Cancels the item as [`cancel`] does. From now on queueing fails, and returns the reference.
///
/// For the teardown of objects. C counts calls: each would need a call of `enable_work` before the
/// item could be queued again, which this module does not provide.
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
    // SAFETY: `CWork::disable` returns whether it has removed the work from its queue.
    unsafe { take_back(item, CWork::disable) }
}

/// Cancels work that was queued with a delay, as [`cancel`] does.
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
    // SAFETY: The work is that of a `delayed_work` (contract of `HasDelayedWork`), which is
    // initialised and kept by `item`. The function returns whether it has removed the work from its
    // queue or its timer.
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

/// Removes the item from its queue or its timer, unless its work runs already.
///
/// Returns the reference that the queue held, if the item was queued.
///
/// Context: any.
///
/// # Examples
///
/// ```ignore
/// drop(workqueue::withdraw_delayed::<Conn, 0>(&conn));
/// ```
pub fn withdraw_delayed<T, const ID: u64>(item: &Arc<T>) -> Option<Arc<T>>
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    // SAFETY: The work is that of a `delayed_work` (contract of `HasDelayedWork`), which is
    // initialised and kept by `item`. The function returns whether it has removed the work from its
    // queue or its timer.
    unsafe {
        take_back(item, |work| {
            bindings::cancel_delayed_work(kernel::container_of!(
                work.raw(),
                bindings::delayed_work,
                work
            ))
        })
    }
}

/// Queues the item's work after this delay. If it is queued already, returns the reference.
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
    // SAFETY: The queue exists as long as the timer is pending, see `Delayed`; the reference is
    // used only here.
    unsafe { Queue::from_raw(queue) }.enqueue_delayed::<_, ID>(item, delay)
}

/// Queues the item's work after this delay, or changes the delay if it is queued. If its work is
/// running, it is queued to run again. An item that was [disabled](disable) is leaked: C does not
/// tell that it did not queue the item.
///
/// Context: any, including hard interrupts.
///
/// # Examples
///
/// ```ignore
/// workqueue::modify_delayed::<Request, 0>(&request, msecs_to_jiffies(10));
/// ```
pub fn modify_delayed<T: Delayed<ID>, const ID: u64>(item: &Arc<T>, delay: Jiffies) {
    // Passes to the queue, unless the queue already has one.
    let reference = Arc::into_raw(item.clone());
    // SAFETY: The work is that of a `delayed_work` (contract of `HasDelayedWork`), which is
    // initialised and kept by `item`. The queue exists as long as the timer is pending, see
    // `Delayed`.
    let was_queued = unsafe {
        bindings::mod_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            item.lease().as_raw(),
            kernel::container_of!(work(item).raw(), bindings::delayed_work, work),
            delay,
        )
    };
    if was_queued {
        // SAFETY: The item was queued before, so the queue has its own reference and did not take
        // this one.
        drop(unsafe { Arc::from_raw(reference) });
    }
}

/// An object whose work can be queued on the system's unbound queue, for which no module waits: while
/// it exists, and so while its work is queued, it keeps the module whose code its work is.
pub trait KeepsModule<const ID: u64 = 0>:
    HasWork<Self, ID> + WorkItem<ID, Pointer = Arc<Self>> + Send + Sync + Sized + 'static
{
    /// Returns a resident of the module.
    fn resident(&self) -> &Resident;
}

/// Queues the item's work, which may sleep, on the system's unbound queue. If it is queued already,
/// returns the reference. The work must not sleep after it has dropped the last reference to the item.
///
/// Context: any.
pub fn enqueue_system<T: KeepsModule<ID>, const ID: u64>(item: Arc<T>) -> Result<(), Arc<T>> {
    // The work may drop the last reference, and with it the resident, before it has returned.
    item.resident().outlived_by_callbacks();
    system_dfl().enqueue::<Arc<T>, ID>(item)
}

/// Returns the system's unbound queue. It replaces `system_unbound` of the `kernel` crate, which is
/// deprecated. Not public: what is queued there may run after its module was unloaded.
pub(crate) fn system_dfl() -> &'static Queue {
    // SAFETY: `system_dfl_wq` is a global that is initialised before modules are loaded.
    unsafe { Queue::from_raw(bindings::system_dfl_wq) }
}

crate::c_struct! {
    /// A work item in a C structure. A reference guarantees that it is initialised.
    pub struct CWork: bindings::work_struct;
    fields {}
}

crate::import! {
    in crate::bindings;

    /// The work is initialised (guarantee of a reference); the same holds for the next ones. May
    /// sleep.
    fn flush_work(work: &CWork) -> bool = flush_work;
    fn cancel_work_sync(work: &CWork) -> bool = cancel_work_sync;
    fn disable_work_sync(work: &CWork) -> bool = disable_work_sync;
}

impl CWork {
    /// Removes the work from its queue, or waits for it if it is running. Returns whether it was
    /// queued. May sleep.
    pub fn cancel(&self) -> bool {
        cancel_work_sync(self)
    }

    /// Cancels the work as [`cancel`](Self::cancel) does, and prevents it from being queued. May
    /// sleep.
    pub fn disable(&self) -> bool {
        disable_work_sync(self)
    }
}

/// Returns the C part of the item's work.
fn work<T: HasWork<T, ID>, const ID: u64>(item: &Arc<T>) -> &CWork {
    // SAFETY: An `Arc` points to a live object; the work is a field of it and is initialised with
    // it.
    unsafe { CWork::view(Work::raw_get(T::raw_get_work(Arc::as_ptr(item).cast_mut()))) }
}

/// Removes the item from its queue with `take_off`. Returns the reference that the queue held.
///
/// # Safety
///
/// `take_off` returns whether it has removed the work from its queue, so that it will not run.
unsafe fn take_back<T: HasWork<T, ID>, const ID: u64>(
    item: &Arc<T>,
    take_off: impl FnOnce(&CWork) -> bool,
) -> Option<Arc<T>> {
    // SAFETY: Queueing passed an `Arc` of this object to the queue, by `into_raw`. The work does
    // not run (contract of this function), so this is the only call that takes the reference back.
    take_off(work(item)).then(|| unsafe { Arc::from_raw(Arc::as_ptr(item)) })
}
