// SPDX-License-Identifier: GPL-2.0

//! What drivers call.

use core::alloc::Layout;
use core::mem::offset_of;
use core::ptr;
use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::Allocator;
use kernel::alloc::NumaNode;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::static_lock_class;
use kernel::time;
use rdma::bindings;

rdma::exported!(rdma_alloc_hw_stats_struct, rdma_free_hw_stats_struct);

/// Allocates zeroed memory that `kfree` frees, of so many bytes and one at least.
pub(crate) fn zalloc(size: usize) -> Option<*mut u8> {
    let layout = Layout::from_size_align(size.max(1), align_of::<u64>()).ok()?;
    Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)
        .ok()
        .map(|memory| memory.as_ptr().cast())
}

/// Allocates counters with these descriptions; `lifespan` is in milliseconds. Returns null without
/// memory or with a negative number of counters. May sleep.
///
/// # Safety
///
/// `descs` is null, or points to `num_counters` descriptions that stay as long as the counters.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_alloc_hw_stats_struct(
    descs: *const bindings::rdma_stat_desc,
    num_counters: c_int,
    lifespan: c_ulong,
) -> *mut bindings::rdma_hw_stats {
    let Ok(count) = usize::try_from(num_counters) else {
        return ptr::null_mut();
    };
    let size = count
        .saturating_mul(size_of::<u64>())
        .saturating_add(offset_of!(bindings::rdma_hw_stats, value))
        .max(size_of::<bindings::rdma_hw_stats>());
    let words = count.div_ceil(c_ulong::BITS as usize);
    let Some(disabled) = zalloc(words.saturating_mul(size_of::<c_ulong>())) else {
        return ptr::null_mut();
    };
    let Some(stats) = zalloc(size) else {
        // SAFETY: Just allocated.
        unsafe { bindings::kfree(disabled.cast()) };
        return ptr::null_mut();
    };
    let stats: *mut bindings::rdma_hw_stats = stats.cast();
    // SAFETY: Zeroed memory of the right size, that nobody else has. The key is static.
    // CAST: as C does, to the type of that function.
    unsafe {
        (*stats).is_disabled = disabled.cast();
        (*stats).descs = descs;
        (*stats).num_counters = num_counters;
        (*stats).lifespan = time::msecs_to_jiffies(lifespan as u32);
        bindings::__mutex_init(
            &raw mut (*stats).lock,
            c"HwStats::values".to_bytes_with_nul().as_ptr().cast(),
            static_lock_class!().as_ptr(),
        );
    }
    stats
}

/// Frees counters; null is nothing. Any context.
///
/// # Safety
///
/// `stats` is null or from [`rdma_alloc_hw_stats_struct`], and nobody uses it any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_free_hw_stats_struct(stats: *mut bindings::rdma_hw_stats) {
    if stats.is_null() {
        return;
    }
    // SAFETY: By this function's duty.
    unsafe {
        bindings::kfree((*stats).is_disabled.cast());
        bindings::kfree(stats.cast());
    }
}
