// SPDX-License-Identifier: GPL-2.0

//! RTNL, the mutex that protects network devices and their links.
//!
//! C header: `include/linux/rtnetlink.h`.

use crate::bindings;
use kernel::types::NotThreadSafe;

/// Holds RTNL until it is dropped.
///
/// # Invariants
///
/// While it exists, its creator's call of `rtnl_lock` is not matched by an unlock.
#[must_use = "RTNL is released when the guard is dropped"]
pub struct RtnlGuard(NotThreadSafe);

/// Takes RTNL. May sleep.
pub fn lock() -> RtnlGuard {
    // SAFETY: No preconditions.
    unsafe { bindings::rdma_helper_rtnl_lock() };
    // INVARIANT: Locked above.
    RtnlGuard(NotThreadSafe)
}

impl Drop for RtnlGuard {
    fn drop(&mut self) {
        // SAFETY: RTNL is held (type invariant), by this thread, as the guard is not `Send`.
        unsafe { bindings::rdma_helper_rtnl_unlock() };
    }
}
