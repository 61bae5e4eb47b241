// SPDX-License-Identifier: GPL-2.0

//! Functions that drivers call.

use super::edge::Descs;
use super::edge::HwStats;
use super::edge::Owned;
use core::alloc::Layout;
use core::ptr;
use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::Allocator;
use kernel::alloc::NumaNode;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Given;

/// Allocates `size` bytes of zeroed memory, at least one, to be freed with `kfree`.
pub(crate) fn zalloc(size: usize) -> Option<*mut u8> {
    let layout = Layout::from_size_align(size.max(1), align_of::<u64>()).ok()?;
    Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)
        .ok()
        .map(|memory| memory.as_ptr().cast())
}

fn alloc(descs: Descs, num_counters: c_int, lifespan: usize) -> *mut bindings::rdma_hw_stats {
    // CAST: Truncates like C, to the type of `msecs_to_jiffies`.
    Owned::alloc(descs, num_counters, lifespan as u32).map_or(ptr::null_mut(), Owned::into_raw)
}

fn free(stats: Given<HwStats>) {
    drop(Owned::given(stats));
}

rdma::export! { in rdma::bindings;
    /// Allocates counters with these descriptions; `lifespan` is in milliseconds. Returns null if
    /// out of memory or if the number of counters is negative. May sleep.
    fn rdma_alloc_hw_stats_struct(descs: Descs, num_counters: c_int, lifespan: usize)
        -> *mut bindings::rdma_hw_stats = alloc;
    /// Frees counters; null is ignored. Any context.
    fn rdma_free_hw_stats_struct(stats: Given<HwStats>) = free;
}
