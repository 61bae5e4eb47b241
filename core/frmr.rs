// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions for reuse (`FRMR` pools), since creating one in hardware is slow.
//!
//! A device has a pool for each kind of region ([`Key`]). A pool contains *handles*, which only the
//! driver can interpret. A region takes a handle of the smallest kind that fits, and returns it.
//! Handles age: those unused for one to two periods are destroyed, except that a pool keeps as many
//! as the administrator has *pinned*, counting those in use.
//!
//! ```text
//!   create ---> in use <--- take --- fresh --- a period ---> idle --- another ---> destroyed
//!                  |  ^                ^                       |
//!                  |  +---- take ------+-----------------------+  (when nothing is fresh)
//!                  +------- put -------+
//! ```
//!
//! Locks: a device's [`Slot`] is held around administrator commands. Drivers access their pools
//! without it, since they create and remove them. `Pools::tree` nests inside, then the spinlock of
//! a pool. The driver's functions are called with no lock but the slot's.
//!
//! C header: `include/rdma/frmr_pools.h`.

mod abi;
mod edge;
mod stack;

use core::ops::Deref;
use edge::Driver;
use kernel::ffi::c_int;
use kernel::impl_has_delayed_work;
use kernel::new_delayed_work;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::SpinLock;
use kernel::time::msecs_to_jiffies;
use kernel::time::Jiffies;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::WorkItem;
use rdma::new_rwsem;
use rdma::sync::RwSem;
use rdma::workqueue::Delayed;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;
use stack::Chunk;
use stack::Stack;

/// Default aging period, in seconds.
const PERIOD: u32 = 60;

/// Maximum number of handles per call of the driver's create and destroy functions.
const BATCH: usize = 256;

/// A kind of region. Pools are searched in this order: kinds that differ only in size are adjacent,
/// smaller ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Whether the device uses address translation services (ATS).
    pub(crate) ats: bool,
    /// Access flags (`IB_ACCESS_...`).
    pub(crate) access: c_int,
    /// Driver-defined key.
    pub(crate) vendor: u64,
    /// Driver-defined key for regions of the kernel.
    pub(crate) kernel_vendor: u64,
    /// Maximum number of DMA blocks.
    pub(crate) blocks: usize,
}

impl Key {
    /// Returns whether a region of this kind can serve a request for `wanted`: they differ at most
    /// in size, and this size is at least the wanted one and less than twice as much.
    fn serves(self, wanted: Self) -> bool {
        let blocks = self.blocks;
        let same = Self { blocks, ..wanted } == self;
        same && (blocks == wanted.blocks
            || blocks
                .checked_sub(wanted.blocks)
                .is_some_and(|more| more < wanted.blocks))
    }
}

/// Handle counts of a pool, for display.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Free handles.
    pub(crate) free: usize,
    /// Handles of regions.
    pub(crate) in_use: u32,
    /// Maximum of `in_use` so far.
    pub(crate) max_in_use: u32,
    /// Minimum number of handles to keep.
    pub(crate) pinned: u32,
}

/// Pool of handles of one kind.
#[pin_data]
pub(crate) struct Pool {
    key: Key,
    driver: Driver,
    aging: Aging,
    #[pin]
    handles: SpinLock<Handles>,
    #[pin]
    work: DelayedWork<Pool>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Pool { self.work }
}

impl Delayed for Pool {
    fn lease(&self) -> &QueueLease {
        &self.aging.queue
    }
}

#[derive(Default)]
struct Handles {
    fresh: Stack,
    idle: Stack,
    in_use: u32,
    max_in_use: u32,
    pinned: u32,
}

impl Handles {
    fn total(&self) -> usize {
        // CAST: `usize` has at least 32 bits.
        self.fresh
            .len()
            .saturating_add(self.idle.len())
            .saturating_add(self.in_use as usize)
    }

    /// Number of idle handles to destroy.
    fn excess(&self) -> usize {
        // CAST: `usize` has at least 32 bits.
        let beyond = self.total().saturating_sub(self.pinned as usize);
        beyond.min(self.idle.len())
    }
}

/// Workqueue and period of aging.
#[derive(Clone)]
struct Aging {
    queue: QueueLease,
    seconds: Arc<Atomic<u32>>,
}

impl Aging {
    fn period(&self) -> Jiffies {
        let seconds = self.seconds.load(Relaxed);
        msecs_to_jiffies(seconds.saturating_mul(1000))
    }
}

impl Pool {
    fn new(key: Key, driver: Driver, aging: Aging) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                key,
                driver,
                aging,
                handles <- new_spinlock!(Handles::default(), "frmr::Pool::handles"),
                work <- new_delayed_work!("frmr::Pool::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Kind of the regions.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Returns the current handle counts.
    pub(crate) fn counts(&self) -> Counts {
        let handles = self.handles.lock();
        Counts {
            free: handles.fresh.len().saturating_add(handles.idle.len()),
            in_use: handles.in_use,
            max_in_use: handles.max_in_use,
            pinned: handles.pinned,
        }
    }

    /// Takes a free handle, most recently used first, or creates one. May sleep.
    fn take(&self) -> Result<u32> {
        let mut handles = self.handles.lock();
        let found = match handles.fresh.pop() {
            Some(handle) => Some(handle),
            None => handles.idle.pop(),
        };
        let handle = match found {
            Some(handle) => handle,
            None => {
                drop(handles);
                let mut new = [0];
                self.driver.create(self.key, &mut new)?;
                handles = self.handles.lock();
                let [new] = new;
                new
            }
        };
        handles.in_use = handles.in_use.saturating_add(1);
        handles.max_in_use = handles.max_in_use.max(handles.in_use);
        Ok(handle)
    }

    /// Returns the handle of a region to the pool. May sleep.
    fn put(self: &Arc<Self>, handle: u32) {
        match self.add(&[handle], 1) {
            // Start aging with the first fresh handle.
            Ok(true) => drop(self.age_after(self.aging.period())),
            Ok(false) => {}
            Err(_) => self.driver.destroy(&mut [handle]),
        }
    }

    /// Stops counting a handle that will not be returned.
    fn forget(&self) {
        let mut handles = self.handles.lock();
        handles.in_use = handles.in_use.saturating_sub(1);
    }

    /// Adds handles to the fresh ones; `used` of them were in use. Returns whether there were no
    /// fresh handles before. May sleep. On error no handle is added, but `used` is still subtracted
    /// from those in use.
    fn add(&self, new: &[u32], used: u32) -> Result<bool> {
        // Allocate with the lock dropped, then check again whether the room suffices.
        let mut spare = Stack::default();
        let mut used = used;
        loop {
            let mut handles = self.handles.lock();
            handles.in_use = handles.in_use.saturating_sub(used);
            used = 0;
            let room = handles.fresh.room().saturating_add(spare.room());
            if room >= new.len() {
                let none = handles.fresh.len() == 0;
                handles.fresh.take_room(&mut spare);
                for handle in new {
                    // Cannot fail: there is room for all.
                    let _ = handles.fresh.push(*handle);
                }
                return Ok(none);
            }
            drop(handles);
            spare.grow(Chunk::new()?);
        }
    }

    /// Schedules aging, unless it is scheduled already.
    fn age_after(self: &Arc<Self>, delay: Jiffies) -> Result<(), Arc<Self>> {
        rdma::workqueue::enqueue_delayed::<Self, 0>(self.clone(), delay)
    }

    /// Reschedules aging. May sleep.
    fn age_anew(self: &Arc<Self>, delay: Jiffies) {
        drop(rdma::workqueue::cancel_delayed::<Self, 0>(self));
        drop(self.age_after(delay));
    }

    /// Destroys excess idle handles and turns fresh ones into idle ones. Returns whether aging must
    /// continue.
    fn age(&self) -> bool {
        let Ok(mut batch) = KVec::<u32>::with_capacity(BATCH, GFP_KERNEL) else {
            return true;
        };
        loop {
            batch.clear();
            {
                let mut handles = self.handles.lock();
                for _ in 0..handles.excess().min(BATCH) {
                    let Some(handle) = handles.idle.pop() else {
                        break;
                    };
                    // Cannot fail: the batch has room for `BATCH` handles.
                    let _ = batch.push_within_capacity(handle);
                }
            }
            if batch.is_empty() {
                break;
            }
            self.driver.destroy(&mut batch);
        }
        let mut handles = self.handles.lock();
        // CAST: `usize` has at least 32 bits.
        if handles.total() <= handles.pinned as usize || handles.fresh.len() == 0 {
            return false;
        }
        let fresh = core::mem::take(&mut handles.fresh);
        handles.idle.append(fresh);
        true
    }

    /// Destroys all free handles.
    fn empty(&self) {
        loop {
            let chunk = {
                let mut handles = self.handles.lock();
                match handles.fresh.pop_chunk() {
                    Some(chunk) => Some(chunk),
                    None => handles.idle.pop_chunk(),
                }
            };
            let Some(mut chunk) = chunk else { return };
            self.driver.destroy(chunk.handles());
        }
    }
}

impl WorkItem for Pool {
    type Pointer = Arc<Pool>;

    fn run(this: Arc<Pool>) {
        if this.age() {
            drop(this.age_after(this.aging.period()));
        }
    }
}

/// A pool in the tree of its device's pools.
///
/// # Invariants
///
/// The pool stays in the tree until [`Pools`] is dropped, which cleans it up.
struct Member(Arc<Pool>);

impl Deref for Member {
    type Target = Arc<Pool>;

    fn deref(&self) -> &Arc<Pool> {
        &self.0
    }
}

/// The pools of a device.
#[pin_data(PinnedDrop)]
pub(crate) struct Pools {
    driver: Driver,
    aging: Aging,
    #[pin]
    tree: RwSem<RBTree<Key, Arc<Pool>>>,
    // Last, as the other fields have leases of it. Never dropped by the work item of a pool.
    _queue: OwnedQueue,
}

impl Pools {
    fn new(driver: Driver) -> Result<Arc<Self>> {
        let queue = QueueOptions::ordered()
            .mem_reclaim()
            .create(c"frmr_aging_wq", rdma::resident!())?;
        let aging = Aging {
            queue: queue.lease(),
            seconds: Arc::new(Atomic::new(PERIOD), GFP_KERNEL)?,
        };
        Arc::pin_init(
            pin_init!(Self {
                driver,
                aging,
                tree <- new_rwsem!(RBTree::new(), "frmr::Pools::tree"),
                _queue: queue,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the smallest pool that can serve a request for `key`.
    fn find(tree: &RBTree<Key, Arc<Pool>>, key: Key) -> Option<Member> {
        let cursor = tree.cursor_lower_bound(&key)?;
        let (found, pool) = cursor.current();
        // INVARIANT: Pools are never removed from the tree.
        found.serves(key).then(|| Member(pool.clone()))
    }

    /// Same as [`Self::find`], but creates a pool if there is none. May sleep.
    fn find_or_make(&self, key: Key) -> Result<Member> {
        if let Some(pool) = Self::find(&self.tree.read(), key) {
            return Ok(pool);
        }
        let new = Pool::new(key, self.driver, self.aging.clone())?;
        let mut tree = self.tree.write();
        // Another task may have inserted one meanwhile.
        if let Some(pool) = Self::find(&tree, key) {
            return Ok(pool);
        }
        tree.try_create_and_insert(key, new.clone(), GFP_KERNEL)?;
        // INVARIANT: Just inserted; pools are never removed from the tree.
        Ok(Member(new))
    }

    /// Returns the pool at this position in key order. Positions change when pools are added.
    pub(crate) fn at(&self, place: usize) -> Option<Arc<Pool>> {
        self.tree.read().values().nth(place).cloned()
    }

    /// Sets the aging period and restarts aging with it. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for 0.
    pub(crate) fn set_period(&self, seconds: u32) -> Result {
        if seconds == 0 {
            return Err(EINVAL);
        }
        self.aging.seconds.store(seconds, Relaxed);
        for pool in self.tree.read().values() {
            pool.age_anew(self.aging.period());
        }
        Ok(())
    }

    /// Pins `count` handles of a kind and creates those that are missing. May sleep for a long
    /// time.
    ///
    /// # Errors
    ///
    /// `EINVAL` for inconsistent access flags; errors of the driver, after which some handles may
    /// have been created.
    pub(crate) fn set_pinned(&self, key: Key, count: u32) -> Result {
        self.driver.check_access(key)?;
        let key = self.driver.key_of(key)?;
        let pool = self.find_or_make(key)?;
        let (before, missing) = {
            let mut handles = pool.handles.lock();
            let before = core::mem::replace(&mut handles.pinned, count);
            // CAST: `usize` has at least 32 bits.
            (before, (count as usize).saturating_sub(handles.total()))
        };
        let made = Self::make(&pool, missing);
        if made.is_err() {
            // Do not keep what was created for a failed command.
            pool.handles.lock().pinned = before;
        }
        // There may be excess handles now.
        pool.age_anew(0);
        made
    }

    /// Creates `missing` free handles.
    fn make(pool: &Arc<Pool>, mut missing: usize) -> Result {
        while missing != 0 {
            let count = missing.min(BATCH);
            let mut new = KVec::from_elem(0, count, GFP_KERNEL)?;
            pool.driver.create(pool.key, &mut new)?;
            if let Err(e) = pool.add(&new, 0) {
                pool.driver.destroy(&mut new);
                return Err(e);
            }
            // OVERFLOW: `count` is at most `missing`.
            missing -= count;
        }
        Ok(())
    }
}

#[pinned_drop]
impl PinnedDrop for Pools {
    fn drop(self: Pin<&mut Self>) {
        for pool in self.tree.read().values() {
            drop(rdma::workqueue::cancel_delayed::<Pool, 0>(pool));
            pool.empty();
        }
    }
}

/// Pools of a device, if its driver has created any.
#[pin_data]
pub(crate) struct Slot {
    #[pin]
    pools: RwSem<Option<Arc<Pools>>>,
}

impl crate::device::PerDevice for Slot {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            pools <- new_rwsem!(None, "frmr::Slot::pools"),
        })
    }
}

impl Slot {
    /// Calls `f` with the pools of the device, which stay valid meanwhile. Returns `None` if there
    /// are none. May sleep.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Pools) -> R) -> Option<R> {
        self.pools.read().as_deref().map(f)
    }
}
