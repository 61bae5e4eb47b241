// SPDX-License-Identifier: GPL-2.0

//! `struct rdma_hw_stats`, the counters of a driver.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::Values;
use core::mem::offset_of;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::slice;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::static_lock_class;
use kernel::sync::Mutex;
use kernel::time;
use rdma::bindings;
use rdma::edge::object;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::View;
use rdma::sync::init_mutex;

/// Guard of the lock of counters.
pub(super) type Locked<'a> = Guard<'a, (), MutexBackend>;

rdma::c_struct! {
    /// Counters of a driver, with their values.
    ///
    /// # Invariants
    ///
    /// The structure was allocated by `rdma_alloc_hw_stats_struct`: it has `num_counters` values,
    /// one bit of `is_disabled` for each, and, if `descs` is not null, `num_counters` descriptions.
    pub(crate) struct HwStats: bindings::rdma_hw_stats;
    fields {
        /// Guards values, timestamp and lifespan. Initialised by the allocation.
        embed mutex at lock: Mutex<()>;
        /// Number of counters. Written by the allocation.
        const num_counters: i32;
        /// Time of the last update of all values, in jiffies.
        guarded timestamp: usize, set_timestamp => Locked<'_>;
        /// Lifespan of values, in jiffies.
        guarded lifespan_jiffies at lifespan: usize, set_lifespan_jiffies => Locked<'_>;
    }
}

// SAFETY: Mutable fields are guarded by the mutex or accessed as whole words.
unsafe impl Send for HwStats {}
// SAFETY: See `Send`.
unsafe impl Sync for HwStats {}

rdma::c_struct! {
    /// A driver's description of a counter; constant.
    pub(crate) struct Desc: bindings::rdma_stat_desc;
    fields {
        /// Name of the counter.
        const name: Option<&'static CStr>;
        /// `enum ib_stat_flag`.
        const flags: u32;
    }
}

rdma::import! { in rdma::bindings;
    /// Converts jiffies to milliseconds.
    pub(super) fn to_msecs(jiffies: usize) -> u32 = rdma_helper_jiffies_to_msecs;
}

impl HwStats {
    /// Number of counters.
    pub(crate) fn count(&self) -> usize {
        usize::try_from(self.num_counters()).unwrap_or(0)
    }

    /// The driver's descriptions; empty if there are none.
    fn descs(&self) -> &[Desc] {
        // SAFETY: There are `num_counters` descriptions (type invariant), which are constants of
        // the driver.
        unsafe {
            let descs = (*self.raw()).descs.cast::<Desc>();
            if descs.is_null() {
                return &[];
            }
            slice::from_raw_parts(descs, self.count())
        }
    }

    /// The description of a counter.
    pub(crate) fn desc(&self, index: usize) -> Option<&Desc> {
        self.descs().get(index)
    }

    /// The name of a counter.
    pub(crate) fn name(&self, index: usize) -> Option<&CStr> {
        self.desc(index)?.name()
    }

    /// A value, which may be read and added to without the lock. Any context.
    pub(crate) fn shared(&self, index: usize) -> Option<&Atomic<u64>> {
        // SAFETY: There are `num_counters` values (type invariant), aligned as `u64`. All
        // architectures that Rust supports in the kernel write them as a whole.
        let values = unsafe {
            let first = (&raw const (*self.raw()).value).cast::<Atomic<u64>>();
            slice::from_raw_parts(first, self.count())
        };
        values.get(index)
    }

    /// Returns the word that holds the disabled bit of a counter, and the mask of the bit. The word
    /// changes under the lock only, as a whole.
    pub(super) fn disabled(&self, index: usize) -> Option<(&Atomic<usize>, usize)> {
        if index >= self.count() {
            return None;
        }
        let bits = usize::BITS as usize;
        // SAFETY: There is one bit for each counter, rounded up to whole words: type invariant.
        let words = unsafe {
            let first = (*self.raw()).is_disabled.cast::<Atomic<usize>>();
            slice::from_raw_parts(first, self.count().div_ceil(bits))
        };
        // OVERFLOW: The shift is less than the width of a word.
        Some((words.get(index / bits)?, 1 << (index % bits)))
    }
}

impl IntoC<*mut bindings::rdma_hw_stats> for &mut Values<'_> {
    fn into_c(self) -> *mut bindings::rdma_hw_stats {
        self.stats().raw()
    }
}

/// Counters that this value frees.
pub(crate) struct Owned(object::Owned<HwStats>);

// SAFETY: It owns a `HwStats`, which is `Send` and `Sync`.
unsafe impl Send for Owned {}
// SAFETY: See `Send`.
unsafe impl Sync for Owned {}

rdma::argument! {
    /// Drivers' methods that allocate counters pass ownership to the caller (`ib_verbs.h`).
    impl Owned = |stats: object::Owned<HwStats>| Owned(stats);
}

impl Owned {
    /// Allocates counters with these descriptions; `lifespan` is in milliseconds. Returns `None` if
    /// out of memory or if the number is negative. May sleep.
    pub(super) fn alloc(descs: Descs, num_counters: c_int, lifespan: u32) -> Option<Self> {
        const FIRST: usize = offset_of!(bindings::rdma_hw_stats, value);
        const { assert!(FIRST % size_of::<u64>() == 0) };
        let count = usize::try_from(num_counters).ok()?;
        let words = count.div_ceil(usize::BITS as usize).max(1);
        let disabled = KVec::from_elem(0usize, words, GFP_KERNEL).ok()?;
        // OVERFLOW: The divisor is not zero.
        let size = count.checked_add(FIRST / size_of::<u64>())?;
        let size = size.max(size_of::<bindings::rdma_hw_stats>().div_ceil(size_of::<u64>()));
        let stats = KVec::from_elem(0u64, size, GFP_KERNEL).ok()?;
        let (stats, _, _) = stats.into_raw_parts();
        let stats: NonNull<bindings::rdma_hw_stats> = NonNull::new(stats.cast())?;
        let (disabled, _, _) = disabled.into_raw_parts();
        // SAFETY: Zeroed memory of the right size and alignment from kmalloc, with no other users.
        // There are `num_counters` descriptions (contract of `Descs`). INVARIANT: This establishes
        // the invariant of `HwStats`.
        unsafe {
            let c = stats.as_ptr();
            (*c).is_disabled = disabled.cast();
            (*c).descs = descs.0;
            (*c).num_counters = num_counters;
            (*c).lifespan = time::msecs_to_jiffies(lifespan);
            init_mutex(&raw mut (*c).lock, c"HwStats::values", static_lock_class!());
            Some(Self(object::Owned::new(stats)))
        }
    }

    /// Takes ownership of counters that C returns.
    pub(super) fn given(stats: object::Given<HwStats>) -> Option<Self> {
        stats.owned().ok().map(Self)
    }

    /// Takes ownership of counters from a field of a C structure; `None` for null.
    ///
    /// # Safety
    ///
    /// `raw` must be null or from `rdma_alloc_hw_stats_struct`, and the caller must own it.
    pub(crate) unsafe fn from_raw(raw: *mut bindings::rdma_hw_stats) -> Option<Self> {
        // SAFETY: Contract of this function.
        Self::given(unsafe { object::Given::from_c(raw) })
    }

    /// Gives up ownership, for a field of a C structure.
    pub(crate) fn into_raw(self) -> *mut bindings::rdma_hw_stats {
        ManuallyDrop::new(self).0.raw()
    }
}

impl Deref for Owned {
    type Target = HwStats;

    fn deref(&self) -> &HwStats {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let c = self.0.raw();
        // SAFETY: This value owns the counters (`object::Owned`), and `alloc` allocated both parts.
        unsafe {
            bindings::kfree((*c).is_disabled.cast());
            bindings::kfree(c.cast());
        }
    }
}

/// Descriptions of counters. Only C creates them.
pub(super) struct Descs(*const bindings::rdma_stat_desc);

rdma::argument! {
    /// Null, or as many descriptions as the count passed to the same call of
    /// `rdma_alloc_hw_stats_struct`. They must outlive the counters.
    impl Descs = |descs: *const bindings::rdma_stat_desc| Descs(descs);
}
