// SPDX-License-Identifier: GPL-2.0

//! Waiting for RCU.
//!
//! Read-side critical sections are the `kernel` crate's [`Guard`] and [`read_lock`].
//!
//! C header: `include/linux/rcupdate.h`.

pub use kernel::sync::rcu::read_lock;
pub use kernel::sync::rcu::Guard;

crate::import! {
    in crate::bindings;

    /// Waits for a grace period: until all current read-side critical sections have ended.
    ///
    /// Context: may sleep; not in a read-side critical section. The kernel reports a call from a
    /// wrong context, which does not affect the memory safety of the caller.
    pub fn synchronize() = synchronize_rcu;
    /// Waits until all RCU callbacks that were queued so far have run.
    ///
    /// Context: may sleep; neither in a read-side critical section nor in a callback.
    pub fn barrier() = rcu_barrier;
    /// Waits until each task has slept, called the scheduler, or run in user mode.
    ///
    /// Context: may sleep.
    pub fn synchronize_tasks() = rdma_helper_synchronize_rcu_tasks;
}

/// Waits, on drop, until all RCU callbacks that were queued so far have run.
///
/// For modules that queue callbacks, as the last field of the module: fields are dropped in order
/// of declaration, so no callback of the module is pending when it is unloaded.
///
/// Context of drop: may sleep.
///
/// # Examples
///
/// ```ignore
/// struct Module {
///     links: Registration,
///     _drain: rcu::Drain,
/// }
/// ```
#[must_use = "it waits when it is dropped"]
pub struct Drain(());

impl Drain {
    /// Creates the value. Has no other effect.
    #[inline]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        barrier();
    }
}
