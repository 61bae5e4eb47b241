// SPDX-License-Identifier: GPL-2.0

//! Memory regions that a driver keeps for the next user, since making one in hardware is
//! slow (`FRMR` pools).
//!
//! A device has a pool for each kind of region ([`Key`]); in it are *handles*, which only the
//! driver understands. A region takes a handle of the smallest kind that serves it, and puts
//! it back. Handles age: those that nobody took for one to two periods are destroyed, but a
//! pool keeps as many as were *pinned* by the administrator, in use or not.
//!
//! ```text
//!   create ---> in use <--- take --- fresh --- a period ---> idle --- another ---> destroyed
//!                  |  ^                ^                       |
//!                  |  +---- take ------+-----------------------+  (when nothing is fresh)
//!                  +------- put -------+
//! ```
//!
//! Locks: a device's [`Slot`], around what administrators ask; drivers reach their pools
//! without, since they make and remove them. `Pools::tree` inside, then a pool's own
//! spinlock. The driver's functions are called with no lock but the slot's.
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

/// How long a handle is fresh if the administrator says nothing else, in seconds.
const PERIOD: u32 = 60;

/// So many handles are destroyed, or made, by one call of the driver's.
const BATCH: usize = 256;

/// A kind of region. The order is that in which pools are searched: all that differ in their
/// size only are next to each other, smaller ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Whether the device translates addresses itself.
    pub(crate) ats: bool,
    /// What may be done with it (`IB_ACCESS_...`).
    pub(crate) access: c_int,
    /// The driver's own distinction.
    pub(crate) vendor: u64,
    /// As that, for regions of the kernel's.
    pub(crate) kernel_vendor: u64,
    /// The blocks of memory that it can have.
    pub(crate) blocks: usize,
}

impl Key {
    /// Whether a region of this kind serves who wants the other: it is the same but for its
    /// size, and that is not less, and less than twice as much.
    fn serves(self, wanted: Self) -> bool {
        let blocks = self.blocks;
        let same = Self { blocks, ..wanted } == self;
        same && (blocks == wanted.blocks
            || blocks
                .checked_sub(wanted.blocks)
                .is_some_and(|more| more < wanted.blocks))
    }
}

/// How many handles a pool has, for who looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Free ones.
    pub(crate) free: usize,
    /// Those that regions have.
    pub(crate) in_use: u32,
    /// The most there ever were at once.
    pub(crate) max_in_use: u32,
    /// As many are kept.
    pub(crate) pinned: u32,
}

/// The handles of one kind.
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
        // CAST: from 32 bits.
        self.fresh
            .len()
            .saturating_add(self.idle.len())
            .saturating_add(self.in_use as usize)
    }

    /// How many idle handles are too many.
    fn excess(&self) -> usize {
        // CAST: from 32 bits.
        let beyond = self.total().saturating_sub(self.pinned as usize);
        beyond.min(self.idle.len())
    }
}

/// Where and when handles age.
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

    /// What it is of.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// How many handles there are.
    pub(crate) fn counts(&self) -> Counts {
        let handles = self.handles.lock();
        Counts {
            free: handles.fresh.len().saturating_add(handles.idle.len()),
            in_use: handles.in_use,
            max_in_use: handles.max_in_use,
            pinned: handles.pinned,
        }
    }

    /// A handle: one that is there, the last used first, or a new one. May sleep.
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

    /// Puts a handle back that a region had. May sleep.
    fn put(self: &Arc<Self>, handle: u32) {
        match self.add(&[handle], 1) {
            // The first one begins to age.
            Ok(true) => drop(self.age_after(self.aging.period())),
            Ok(false) => {}
            Err(_) => self.driver.destroy(&mut [handle]),
        }
    }

    /// A region's handle is not to come back.
    fn forget(&self) {
        let mut handles = self.handles.lock();
        handles.in_use = handles.in_use.saturating_sub(1);
    }

    /// Puts handles among the fresh ones, of which so many were in use. Whether there were
    /// none before. May sleep. On error none was added, but they are not in use either.
    fn add(&self, new: &[u32], used: u32) -> Result<bool> {
        // Memory is got with the lock dropped, as much as is wanted then.
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
                    // There is room for all.
                    let _ = handles.fresh.push(*handle);
                }
                return Ok(none);
            }
            drop(handles);
            spare.grow(Chunk::new()?);
        }
    }

    /// Queues the aging, unless it is.
    fn age_after(self: &Arc<Self>, delay: Jiffies) -> Result<(), Arc<Self>> {
        rdma::workqueue::enqueue_delayed::<Self, 0>(self.clone(), delay)
    }

    /// Queues the aging for then, whether it is queued or not. May sleep.
    fn age_anew(self: &Arc<Self>, delay: Jiffies) {
        drop(rdma::workqueue::cancel_delayed::<Self, 0>(self));
        drop(self.age_after(delay));
    }

    /// Destroys idle handles, and those that are fresh become idle. Whether there is something
    /// left that ages.
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
                    // There is room.
                    let _ = batch.push_within_capacity(handle);
                }
            }
            if batch.is_empty() {
                break;
            }
            self.driver.destroy(&mut batch);
        }
        let mut handles = self.handles.lock();
        // CAST: from 32 bits.
        if handles.total() <= handles.pinned as usize || handles.fresh.len() == 0 {
            return false;
        }
        let fresh = core::mem::take(&mut handles.fresh);
        handles.idle.append(fresh);
        true
    }

    /// Destroys all handles that no region has.
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
/// It stays in the tree until the pools are dropped, which is when they are cleaned up.
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
    // After all else, which has leases of it; and never dropped by the work of a pool.
    _queue: OwnedQueue,
}

impl Pools {
    fn new(driver: Driver) -> Result<Arc<Self>> {
        let queue = QueueOptions::ordered()
            .mem_reclaim()
            .create(c"frmr_aging_wq")?;
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

    /// The pool whose handles serve who wants `key`, of those the smallest.
    fn find(tree: &RBTree<Key, Arc<Pool>>, key: Key) -> Option<Member> {
        let cursor = tree.cursor_lower_bound(&key)?;
        let (found, pool) = cursor.current();
        // INVARIANT: Nothing is taken out of the tree.
        found.serves(key).then(|| Member(pool.clone()))
    }

    /// As [`Self::find`]; makes one if there is none. May sleep.
    fn find_or_make(&self, key: Key) -> Result<Member> {
        if let Some(pool) = Self::find(&self.tree.read(), key) {
            return Ok(pool);
        }
        let new = Pool::new(key, self.driver, self.aging.clone())?;
        let mut tree = self.tree.write();
        // Somebody else may have come first.
        if let Some(pool) = Self::find(&tree, key) {
            return Ok(pool);
        }
        tree.try_create_and_insert(key, new.clone(), GFP_KERNEL)?;
        // INVARIANT: Just inserted; nothing is taken out of the tree.
        Ok(Member(new))
    }

    /// The pool at this place in their order; places change when pools are added.
    pub(crate) fn at(&self, place: usize) -> Option<Arc<Pool>> {
        self.tree.read().values().nth(place).cloned()
    }

    /// Changes how long handles are fresh; what ages now begins anew. May sleep.
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

    /// Keeps `count` handles of a kind, and makes those that are missing. May sleep, for long.
    ///
    /// # Errors
    ///
    /// `EINVAL` for access flags that do not go together; those of the driver, and then some
    /// may have been made.
    pub(crate) fn set_pinned(&self, key: Key, count: u32) -> Result {
        self.driver.check_access(key)?;
        let key = self.driver.key_of(key)?;
        let pool = self.find_or_make(key)?;
        let (before, missing) = {
            let mut handles = pool.handles.lock();
            let before = core::mem::replace(&mut handles.pinned, count);
            // CAST: from 32 bits.
            (before, (count as usize).saturating_sub(handles.total()))
        };
        let made = Self::make(&pool, missing);
        if made.is_err() {
            // What was made is not kept for a command that failed.
            pool.handles.lock().pinned = before;
        }
        // There may be too many now.
        pool.age_anew(0);
        made
    }

    /// Makes handles that nobody has.
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

/// Where a device has its pools, if its driver has made some.
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
    /// Does something with the pools of the device, which stay meanwhile. None, if there are
    /// none. May sleep.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Pools) -> R) -> Option<R> {
        self.pools.read().as_deref().map(f)
    }
}
