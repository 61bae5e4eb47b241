// SPDX-License-Identifier: GPL-2.0

//! Waiting for RCU.
//!
//! Read sections are the `kernel` crate's [`Guard`] and [`read_lock`].
//!
//! C header: `include/linux/rcupdate.h`.

pub use kernel::sync::rcu::read_lock;
pub use kernel::sync::rcu::Guard;

crate::import! {
    in crate::bindings;

    /// Waits until every read section that is open now has ended.
    ///
    /// Context: may sleep; not inside a read section. A call from a wrong context is reported by the
    /// kernel, and cannot break memory safety of the caller.
    pub fn synchronize() = synchronize_rcu;
    /// Waits until every callback that was queued so far has run.
    ///
    /// Context: may sleep; not inside a read section, not from a callback.
    pub fn barrier() = rcu_barrier;
}

/// Waits, when it is dropped, until every callback queued so far has run.
///
/// It is the last field of a module that queues callbacks, as one with a
/// [`Table`](crate::table::Table) does: fields are dropped in order, so that nothing
/// is pending that would run the module's code after it was unloaded.
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
    /// Makes one; costs nothing.
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
