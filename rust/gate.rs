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
use kernel::sync::Arc;
use kernel::sync::Completion;

pub mod word;

use self::word::Empty;
use self::word::Word;

impl Empty for Completion {
    #[inline]
    fn complete(&self) {
        self.complete_all();
    }

    #[inline]
    fn wait(&self) {
        self.wait_for_completion();
    }
}

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
/// `word` counts the passes that exist.
#[pin_data]
pub struct Gate {
    word: Word,
    #[pin]
    empty: Completion,
}

impl Gate {
    /// Makes an open gate with nobody inside.
    #[inline]
    pub fn new() -> impl PinInit<Self> {
        // INVARIANT: No pass exists, and the gate is open.
        pin_init!(Self {
            word: Word::new(),
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
        self.word.enter().then(|| Pass { gate: self })
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
        let _: bool = self.word.close(&self.empty);
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
        self.word.close_and_wait(&self.empty);
    }

    /// Whether the gate was closed; a hint, unless the caller knows who closes it.
    ///
    /// Context: any.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.word.is_closed()
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
        self.gate.word.leave(&self.gate.empty);
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
        if !gate.word.enter() {
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
        let gate = unsafe { self.gate.as_ref() };
        gate.word.leave(&gate.empty);
    }
}
