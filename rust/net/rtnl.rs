// SPDX-License-Identifier: GPL-2.0

//! RTNL, the mutex that keeps network devices and what is between them still.
//!
//! C header: `include/linux/rtnetlink.h`.

use crate::bindings;
use kernel::types::NotThreadSafe;

/// RTNL is held; dropping this releases it.
///
/// # Invariants
///
/// While an instance exists, its creator's call of `rtnl_lock` is not yet matched.
#[must_use = "RTNL is released when the guard is dropped"]
pub struct RtnlGuard(NotThreadSafe);

/// Takes RTNL. May sleep.
pub fn lock() -> RtnlGuard {
    // SAFETY: It has no requirement on memory.
    unsafe { bindings::rdma_helper_rtnl_lock() };
    // INVARIANT: Just taken.
    RtnlGuard(NotThreadSafe)
}

impl Drop for RtnlGuard {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the guard is not `Send`.
        unsafe { bindings::rdma_helper_rtnl_unlock() };
    }
}
