// SPDX-License-Identifier: GPL-2.0

//! Sections in which this CPU runs no softirq.
//!
//! C header: `include/linux/bottom_half.h`.

use crate::bindings;
use kernel::types::NotThreadSafe;

/// Proof that softirqs are held off on this CPU; they run again when it is dropped.
///
/// Such a section is not preempted and is an RCU read-side section too. Sections
/// nest. It must not be dropped while interrupts are off: end an irq-saving
/// section that began inside it first, as scopes do by themselves.
///
/// # Invariants
///
/// While an instance exists, its creator's call of `local_bh_disable` is not yet
/// matched by `local_bh_enable`.
#[must_use = "softirqs are allowed again when the guard is dropped"]
pub struct BhGuard(NotThreadSafe);

/// Holds off softirqs on this CPU until the guard is dropped.
///
/// Context: task or softirq, interrupts on. Never sleeps, and the caller must not
/// sleep until the guard is gone.
///
/// # Examples
///
/// ```ignore
/// let _bh = rdma::sync::bh::disable();
/// // Runs as if it were in a softirq of this CPU: not preempted, not nested.
/// ```
#[inline]
pub fn disable() -> BhGuard {
    // SAFETY: It only counts on the current CPU; the guard is not `Send`, so the
    // matching call is made by the same task.
    unsafe { bindings::rdma_helper_local_bh_disable() };
    // INVARIANT: The call was just made.
    BhGuard(NotThreadSafe)
}

impl Drop for BhGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant this matches the call in `disable`.
        unsafe { bindings::rdma_helper_local_bh_enable() };
    }
}
