// SPDX-License-Identifier: GPL-2.0

//! Counters of a port, as `rdma statistic` and sysfs show them.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct rdma_hw_stats`).

use crate::bindings;
use core::marker::PhantomData;
use kernel::prelude::*;

/// The name of a counter.
#[repr(transparent)]
pub struct StatDesc(bindings::rdma_stat_desc);

// SAFETY: It holds pointers to constant strings only.
unsafe impl Sync for StatDesc {}
// SAFETY: See `Sync`.
unsafe impl Send for StatDesc {}

impl StatDesc {
    /// A counter called `name`.
    #[expect(clippy::disallowed_methods, reason = "`as_char_ptr` is not const")]
    pub const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: name.as_ptr().cast(),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }
}

/// Has the core allocate the values of `descs`.
pub(super) fn alloc(descs: &'static [StatDesc]) -> *mut bindings::rdma_hw_stats {
    let Ok(n) = i32::try_from(descs.len()) else {
        return core::ptr::null_mut();
    };
    // SAFETY: The descriptions are static; `StatDesc` is transparent.
    unsafe {
        bindings::rdma_alloc_hw_stats_struct(
            descs.as_ptr().cast(),
            n,
            // CAST: a small number.
            bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize,
        )
    }
}

/// Where the values of the counters go.
///
/// # Invariants
///
/// `0` points to counters that we alone may write for `'a`.
pub struct HwStats<'a>(*mut bindings::rdma_hw_stats, PhantomData<&'a mut ()>);

impl HwStats<'_> {
    /// # Safety
    ///
    /// `stats` is what the core passes to `get_hw_stats`.
    pub(super) unsafe fn from_raw(stats: *mut bindings::rdma_hw_stats) -> Self {
        // INVARIANT: The core holds the lock of the counters during the call.
        Self(stats, PhantomData)
    }

    /// The number of counters.
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        usize::try_from(unsafe { (*self.0).num_counters }).unwrap_or(0)
    }

    /// Whether there are no counters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the value of the counter at `index`; beyond the last one nothing happens.
    pub fn set(&mut self, index: usize, value: u64) {
        if index < self.len() {
            // SAFETY: The array has as many values as there are counters.
            unsafe { (*self.0).value.as_mut_ptr().add(index).write(value) };
        }
    }
}
