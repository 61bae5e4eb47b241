// SPDX-License-Identifier: GPL-2.0

//! How a `Timer` is armed and shut down at the same time.
//!
//! Only `core` atomics are used, and what C's timer does is a parameter, so that the same file is
//! model-checked on the host: in a build of its host crate (`cfg(model)`) the atomics are those of `loom`.

#[cfg(not(model))]
use core::sync::atomic::{AtomicBool, Ordering};
#[cfg(model)]
use loom::sync::atomic::{AtomicBool, Ordering};

/// What [`Closed::arm`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// The timer was idle and is pending now.
    Started,
    /// The timer was pending already, and has the new time if that applies.
    Already,
    /// The timer was shut down; nothing will happen.
    Refused,
}

/// Whether a timer was shut down.
///
/// # Invariants
///
/// It never becomes `false` again.
pub struct Closed(AtomicBool);

impl Closed {
    /// That of a timer that can be armed.
    #[inline]
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Arms with `start`, which tells whether the timer was pending before. `hold` takes the
    /// timer's reference to its object, `release` gives it back; `cancel` stops the timer, and
    /// gives its reference back if it was pending.
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
        // The reference comes first: the timer may fire before `start` is back.
        let reference = hold();
        let was_pending = start();
        if was_pending {
            // The timer has one already, so this one is still ours.
            release(reference);
        }
        // `shut_down` sets the flag and then deletes the timer under the lock that `start`
        // took. If we were first there, it deleted our timer; else we read the flag here, and
        // so does the callback.
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

    /// Ends the timer for good. `delete` makes it idle, waits for a callback that runs, and gives
    /// the timer's reference back if it was pending.
    #[inline]
    pub fn shut_down(&self, delete: impl FnOnce()) {
        // A concurrent `arm` is either seen by `delete`, or sees this: see there.
        self.0.swap(true, Ordering::SeqCst);
        delete();
    }

    /// The timer has expired: runs the callback, unless it was shut down.
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
