// SPDX-License-Identifier: GPL-2.0

//! The word of a `Gate`: how many are inside, and whether it is closed.
//!
//! Only `core` atomics are used, and the completion is a parameter, so that the same file is
//! model-checked on the host: in a build of its host crate (`cfg(model)`) the atomics are those of `loom`.

#[cfg(not(model))]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(model)]
use loom::sync::atomic::{AtomicU32, Ordering};

/// Set for good once the gate is closed; the rest is the count.
const CLOSED: u32 = 1 << 31;
/// The most users that may be inside at a time.
const MAX_INSIDE: u32 = CLOSED - 1;

/// Tells those who wait that the last user has left a closed gate.
pub trait Empty {
    /// Lets all go on who wait, now and later. What was done before is visible to them.
    fn complete(&self);
    /// Waits for that.
    fn wait(&self);
}

/// See the [module](self).
///
/// # Invariants
///
/// - `0 & !CLOSED` is the number of passes that exist.
/// - Once `CLOSED` is set it stays set, and the number does not grow.
pub struct Word(AtomicU32);

impl Word {
    /// That of an open gate with nobody inside.
    #[inline]
    pub fn new() -> Self {
        // INVARIANT: No pass exists, and the gate is open.
        Self(AtomicU32::new(0))
    }

    /// Counts one more user, unless the gate is closed. On `true` the caller owes a call of
    /// [`leave`](Self::leave).
    #[inline]
    pub fn enter(&self) -> bool {
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            // A full gate refuses like a closed one; two thousand million users
            // mean that somebody leaks passes.
            if old >= MAX_INSIDE {
                return false;
            }
            // OVERFLOW: less than `MAX_INSIDE`.
            let new = old.wrapping_add(1);
            // Acquire: what we do inside stays after the check that it is open.
            match self
                .0
                .compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// Takes back one [`enter`](Self::enter).
    #[inline]
    pub fn leave(&self, empty: &impl Empty) {
        // Release and acquire: what was done inside, by all who were, is visible to whoever sees
        // the count fall to zero.
        if self.0.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            empty.complete();
        }
    }

    /// Closes the gate. Whether this call closed it and nobody was inside.
    #[inline]
    pub fn close(&self, empty: &impl Empty) -> bool {
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            if old & CLOSED != 0 {
                return false;
            }
            // INVARIANT: Only the flag changes.
            match self
                .0
                .compare_exchange(old, old | CLOSED, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if old == 0 {
            empty.complete();
        }
        old == 0
    }

    /// Closes the gate and waits until everyone has left.
    #[inline]
    pub fn close_and_wait(&self, empty: &impl Empty) {
        // Where somebody else closed it, or left after that, the completion has to be waited
        // for: who completes it is still here.
        if !self.close(empty) {
            empty.wait();
        }
    }

    /// Whether the gate was closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire) & CLOSED != 0
    }
}

impl Default for Word {
    fn default() -> Self {
        Self::new()
    }
}
