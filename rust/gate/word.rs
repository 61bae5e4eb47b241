// SPDX-License-Identifier: GPL-2.0

//! State word of a `Gate`: the number of users, and whether the gate is closed.
//!
//! Only `core` atomics are used, and the completion is a parameter, so that the same file is
//! model-checked on the host: with `cfg(model)` the atomics are those of `loom`.

#[cfg(not(model))]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(model)]
use loom::sync::atomic::{AtomicU32, Ordering};

/// Set once the gate is closed, and never cleared; the other bits are the count.
const CLOSED: u32 = 1 << 31;
/// Maximum number of users.
const MAX_INSIDE: u32 = CLOSED - 1;

/// Completion that is signalled when a closed gate has no users.
pub trait Empty {
    /// Wakes all present and future waiters. Earlier writes of the caller are visible to them.
    fn complete(&self);
    /// Waits for [`complete`](Self::complete). May sleep.
    fn wait(&self);
}

/// See the [module](self).
///
/// # Invariants
///
/// - `0 & !CLOSED` is the number of existing passes.
/// - Once `CLOSED` is set it stays set, and the count does not grow.
pub struct Word(AtomicU32);

impl Word {
    /// State of an open gate without users.
    #[inline]
    pub fn new() -> Self {
        // INVARIANT: No pass exists, and the gate is open.
        Self(AtomicU32::new(0))
    }

    /// Adds a user, unless the gate is closed. If it returns `true`, the caller must call
    /// [`leave`](Self::leave).
    #[inline]
    pub fn enter(&self) -> bool {
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            // A gate with the maximum count refuses users as a closed one does; 2^31 users mean
            // that passes are leaked.
            if old >= MAX_INSIDE {
                return false;
            }
            // OVERFLOW: `old` is less than `MAX_INSIDE`.
            let new = old.wrapping_add(1);
            // Acquire: accesses of the user are not reordered before the check that the gate is
            // open.
            match self
                .0
                .compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// Removes the user that [`enter`](Self::enter) added.
    #[inline]
    pub fn leave(&self, empty: &impl Empty) {
        // SeqCst implies release and acquire: the accesses of all users are visible to the one that
        // decrements the count to zero.
        if self.0.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            empty.complete();
        }
    }

    /// Closes the gate. Returns whether this call closed it and there were no users.
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

    /// Closes the gate and waits until all users have left.
    #[inline]
    pub fn close_and_wait(&self, empty: &impl Empty) {
        // If another caller closed the gate, or users remain, wait for the completion: the other
        // caller or the last user signals it.
        if !self.close(empty) {
            empty.wait();
        }
    }

    /// Returns whether the gate is closed.
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
