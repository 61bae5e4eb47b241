// SPDX-License-Identifier: GPL-2.0

//! Counters of a port, shown by `rdma statistic` and sysfs.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct rdma_hw_stats`).

use crate::bindings;
use core::marker::PhantomData;
use kernel::prelude::*;

/// The name of a counter.
#[repr(transparent)]
pub struct StatDesc(bindings::rdma_stat_desc);

// SAFETY: It contains only pointers to constant strings.
unsafe impl Sync for StatDesc {}
// SAFETY: As for `Sync`.
unsafe impl Send for StatDesc {}

impl StatDesc {
    /// Creates the description of a counter with this name.
    #[expect(clippy::disallowed_methods, reason = "`as_char_ptr` is not const")]
    pub const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: name.as_ptr().cast(),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }
}

/// Has the core allocate counters with these descriptions.
pub(super) fn alloc(descs: &'static [StatDesc]) -> *mut bindings::rdma_hw_stats {
    let Ok(n) = i32::try_from(descs.len()) else {
        return core::ptr::null_mut();
    };
    // SAFETY: The descriptions are static; `StatDesc` is transparent.
    unsafe {
        bindings::rdma_alloc_hw_stats_struct(
            descs.as_ptr().cast(),
            n,
            // CAST: A small number.
            bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize,
        )
    }
}

/// The counters to be updated.
///
/// # Invariants
///
/// `0` points to counters that only this writes for `'a`.
pub struct HwStats<'a>(*mut bindings::rdma_hw_stats, PhantomData<&'a mut ()>);

impl HwStats<'_> {
    /// # Safety
    ///
    /// `stats` must be the argument of a call of `get_hw_stats` by the core.
    pub(super) unsafe fn from_raw(stats: *mut bindings::rdma_hw_stats) -> Self {
        // INVARIANT: The core holds the lock of the counters during the call.
        Self(stats, PhantomData)
    }

    /// Returns the number of counters.
    pub fn len(&self) -> usize {
        // SAFETY: The counters are valid (type invariant).
        usize::try_from(unsafe { (*self.0).num_counters }).unwrap_or(0)
    }

    /// Returns whether there are no counters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the counter at `index`. Ignored if there is none.
    pub fn set(&mut self, index: usize, value: u64) {
        if index < self.len() {
            // SAFETY: The array has `num_counters` values, and `index` is less, as checked.
            unsafe { (*self.0).value.as_mut_ptr().add(index).write(value) };
        }
    }
}
