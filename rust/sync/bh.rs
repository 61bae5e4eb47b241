// SPDX-License-Identifier: GPL-2.0

//! Sections with bottom halves disabled on this CPU.
//!
//! C header: `include/linux/bottom_half.h`.

use crate::bindings;
use kernel::types::NotThreadSafe;

/// Proof that bottom halves are disabled on this CPU; drop enables them again.
///
/// Such a section is not preempted, and is also an RCU read-side critical section. Sections nest.
/// The guard must not be dropped while interrupts are disabled: a section with interrupts disabled
/// that began inside must end first, which scopes ensure.
///
/// # Invariants
///
/// While an instance exists, the `local_bh_disable` call of its creator is not yet matched by
/// `local_bh_enable`.
#[must_use = "softirqs are allowed again when the guard is dropped"]
pub struct BhGuard(NotThreadSafe);

/// Disables bottom halves on this CPU until the guard is dropped.
///
/// Context: process or softirq, interrupts enabled. Never sleeps, and the caller must not sleep
/// while the guard exists.
///
/// # Examples
///
/// ```ignore
/// let _bh = rdma::sync::bh::disable();
/// // Runs as in a softirq on this CPU: not preempted, and no softirq interrupts it.
/// ```
#[inline]
pub fn disable() -> BhGuard {
    // SAFETY: The call only increments a counter of the current CPU; the guard is not `Send`, so
    // the matching call is made by the same task.
    unsafe { bindings::rdma_helper_local_bh_disable() };
    // INVARIANT: Disabled above.
    BhGuard(NotThreadSafe)
}

impl Drop for BhGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: Matches the call in `disable` (type invariant).
        unsafe { bindings::rdma_helper_local_bh_enable() };
    }
}
