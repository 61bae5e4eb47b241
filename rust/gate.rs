// SPDX-License-Identifier: GPL-2.0

//! A gate: users pass while it is open; closing waits until all of them have left.
//!
//! It is the one form of "reference count plus completion" in this subsystem: a
//! device that goes away, a memory region being deregistered. An `Arc` keeps
//! memory; a gate tells that nobody *uses* it any more.
//!
//! ```text
//!            try_enter: n -> n + 1          drop of a pass: n -> n - 1
//!   open(n) -----------------------+     closed(n) -----------+
//!      |                           |        |                 |
//!      +------- close -------> closed(n)    +-- n == 0 --> `empty` is completed
//! ```
//!
//! A closed gate never opens again, and its count only falls. So exactly one event,
//! the close of an empty gate or the exit of the last user, completes `empty`.

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Completion;

/// Set in [`Gate::word`] for good once the gate is closed; the rest is the count.
const CLOSED: u32 = 1 << 31;
/// The most users that may be inside at a time.
const MAX_INSIDE: u32 = CLOSED - 1;

/// A counted entrance that can be closed for good.
///
/// # Examples
///
/// ```ignore
/// // Data path, any context:
/// let Some(_pass) = mr.gate.try_enter() else {
///     return Err(EINVAL); // It is being deregistered.
/// };
/// // ... use the pages ...
///
/// // Deregistration, may sleep:
/// mr.gate.close_and_wait();
/// // ... nobody uses the pages now ...
/// ```
///
/// # Invariants
///
/// - `word & !CLOSED` is the number of passes that exist.
/// - Once `CLOSED` is set it stays set, and the number does not grow.
#[pin_data]
pub struct Gate {
    word: Atomic<u32>,
    #[pin]
    empty: Completion,
}

impl Gate {
    /// Makes an open gate with nobody inside.
    #[inline]
    pub fn new() -> impl PinInit<Self> {
        // INVARIANT: No pass exists, and the gate is open.
        pin_init!(Self {
            word: Atomic::new(0),
            empty <- Completion::new(),
        })
    }

    /// Enters, unless the gate is closed.
    ///
    /// Context: any. Lock-free, never sleeps. What the caller does before it drops
    /// the pass happens before [`close_and_wait`](Self::close_and_wait) returns.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let pass = gate.try_enter().ok_or(ENODEV)?;
    /// ```
    #[inline]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        // INVARIANT: `enter` has counted this pass. A pass is made only then, since it
        // leaves when it is dropped.
        self.enter().then(|| Pass { gate: self })
    }

    /// Closes the gate. Those inside may stay; nobody gets in any more.
    ///
    /// Context: any. Never sleeps. May be called again.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// ports.iter().for_each(|port| port.gate.close());
    /// ports.iter().for_each(|port| port.gate.close_and_wait());
    /// ```
    #[inline]
    pub fn close(&self) {
        let _: bool = self.close_empty();
    }

    /// Closes the gate. Whether this call closed it and nobody was inside.
    #[inline]
    fn close_empty(&self) -> bool {
        let mut old = self.word.load(Relaxed);
        loop {
            if old & CLOSED != 0 {
                return false;
            }
            // INVARIANT: Only the flag changes.
            match self.word.cmpxchg(old, old | CLOSED, Full) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        if old == 0 {
            self.empty.complete_all();
        }
        old == 0
    }

    /// Closes the gate and waits until everyone has left.
    ///
    /// Afterwards nobody is inside, nobody gets in, and all that users did inside
    /// is visible to the caller. May be called again, also concurrently.
    ///
    /// Context: may sleep. A caller that is inside itself waits for ever.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// device.gate.close_and_wait();
    /// ```
    #[inline]
    pub fn close_and_wait(&self) {
        // Where somebody else closed it, or left after that, the completion has to be waited
        // for: who completes it is still here.
        if !self.close_empty() {
            self.empty.wait_for_completion();
        }
    }

    /// Whether the gate was closed; a hint, unless the caller knows who closes it.
    ///
    /// Context: any.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.word.load(Acquire) & CLOSED != 0
    }

    /// Counts one more user, unless the gate is closed. On `true` the caller owes a
    /// call of [`leave`](Self::leave).
    #[inline]
    fn enter(&self) -> bool {
        let mut old = self.word.load(Relaxed);
        loop {
            // A full gate refuses like a closed one; two thousand million users
            // mean that somebody leaks passes.
            if old >= MAX_INSIDE {
                return false;
            }
            // Acquire: what we do inside stays after the check that it is open.
            match self.word.cmpxchg(old, old + 1, Acquire) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// Takes back one [`enter`](Self::enter).
    #[inline]
    fn leave(&self) {
        // Full: what was done inside is visible to whoever sees the count fall.
        if self.word.fetch_sub(1u32, Full) == CLOSED | 1 {
            self.empty.complete_all();
        }
    }
}

/// Being inside a [`Gate`]; dropping it leaves.
#[must_use = "dropping the pass leaves the gate at once"]
pub struct Pass<'a> {
    gate: &'a Gate,
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave();
    }
}

/// Being inside a [`Gate`] that is part of a shared object, whose memory it keeps.
///
/// For users that outlive a scope: an skb in flight, a queued work item.
///
/// # Invariants
///
/// `gate` points into `*owner`, or at something that outlives it, and this pass is
/// counted there.
#[must_use = "dropping the pass leaves the gate at once"]
pub struct OwnedPass<T> {
    gate: NonNull<Gate>,
    owner: Arc<T>,
}

// SAFETY: The pointer stands for a shared reference to a `Gate`, which is `Sync`, as
// its parts are; the rest is an `Arc<T>`.
unsafe impl<T: Send + Sync> Send for OwnedPass<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: Send + Sync> Sync for OwnedPass<T> {}

impl<T> OwnedPass<T> {
    /// Enters the gate that `gate` finds in `owner`, unless it is closed.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let pass = OwnedPass::try_enter(mr.clone(), |mr| &mr.gate).ok_or(EINVAL)?;
    /// ```
    #[inline]
    pub fn try_enter(owner: Arc<T>, gate: impl for<'a> FnOnce(&'a T) -> &'a Gate) -> Option<Self> {
        let gate = gate(&owner);
        if !gate.enter() {
            return None;
        }
        let gate = NonNull::from(gate);
        // INVARIANT: `enter` has counted this pass; the gate lives as long as the
        // borrow of `*owner` could, and `owner` is kept.
        Some(Self { gate, owner })
    }

    /// The object whose gate was entered.
    #[inline]
    pub fn owner(&self) -> &Arc<T> {
        &self.owner
    }
}

impl<T> core::ops::Deref for OwnedPass<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.owner
    }
}

impl<T> Drop for OwnedPass<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant the gate is alive: `owner` is dropped after
        // this function.
        unsafe { self.gate.as_ref() }.leave();
    }
}
