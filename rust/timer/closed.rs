// SPDX-License-Identifier: GPL-2.0

//! State of a `Timer` that is armed and shut down concurrently.
//!
//! Only `core` atomics are used, and the operations of the C timer are parameters, so that the same
//! file is model-checked on the host: with `cfg(model)` the atomics are those of `loom`.

#[cfg(not(model))]
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(model)]
use loom::sync::atomic::{AtomicBool, Ordering};

/// Result of [`Closed::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// The timer was idle and is pending now.
    Started,
    /// The timer was pending already, and has the new expiry if the operation sets it.
    Already,
    /// The timer was shut down, and is not armed.
    Refused,
}

/// Whether a timer was shut down.
///
/// # Invariants
///
/// It never becomes `false` again.
pub struct Closed(AtomicBool);

impl Closed {
    /// State of a timer that can be armed.
    #[inline]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Arms the timer with `start`, which returns whether it was pending before. `hold` takes a
    /// reference to the timer's object, and `release` drops it. `cancel` stops the timer, and drops
    /// the timer's reference if it was pending.
    #[inline]
    pub fn arm<R>(
        &self,
        hold: impl FnOnce() -> R,
        start: impl FnOnce() -> bool,
        release: impl FnOnce(R),
        cancel: impl FnOnce(),
    ) -> Armed {
        if self.is_set() {
            return Armed::Refused;
        }
        // The reference is taken first, because the timer may expire before `start` returns.
        let reference = hold();
        let was_pending = start();
        if was_pending {
            // The timer has a reference already, so this one was not passed to it.
            release(reference);
        }
        // `shut_down` sets the flag and then deletes the timer under the lock that `start` takes.
        // If `start` came first, `shut_down` deleted the timer; otherwise the flag is read here, or
        // in the callback.
        if self.is_set() {
            cancel();
            return Armed::Refused;
        }
        if was_pending {
            Armed::Already
        } else {
            Armed::Started
        }
    }

    /// Shuts the timer down. `delete` stops it, waits for a running callback, and drops the timer's
    /// reference if it was pending.
    #[inline]
    pub fn shut_down(&self, delete: impl FnOnce()) {
        // Either `delete` finds the timer of a concurrent `arm`, or `arm` reads this flag; see
        // there.
        self.0.swap(true, Ordering::SeqCst);
        delete();
    }

    /// Runs the callback of an expired timer, unless the timer was shut down.
    #[inline]
    pub fn expired(&self, run: impl FnOnce()) {
        if !self.is_set() {
            run();
        }
    }
}

impl Default for Closed {
    fn default() -> Self {
        Self::new()
    }
}
