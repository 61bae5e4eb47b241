// SPDX-License-Identifier: GPL-2.0

//! Users of on-demand memory, the last of which ends it.
//!
//! Faulting pages in may take for ever: the file system that has them may be frozen, or its server
//! may not answer. So the owner of the memory does not wait for users, as it would with a
//! [`Gate`](crate::gate::Gate): it refuses further ones, and the memory ends when nobody uses it.
//!
//! Context: users may sleep, and so may the end.

use crate::gate::word::Empty;
use crate::gate::word::Word;

/// Memory that ends when its owner has closed it and it has no users.
pub(super) trait Ends {
    /// Returns its state.
    fn uses(&self) -> &Word;

    /// Ends it. May sleep.
    ///
    /// # Safety
    ///
    /// To be called once, when the word of [`Ends::uses`] is closed and counts no users.
    unsafe fn end(&self);
}

struct Ending<'a, T>(&'a T);

impl<T: Ends> Empty for Ending<'_, T> {
    fn complete(&self) {
        // SAFETY: The word calls this once, when it is closed and has no users (`Empty`, whose only
        // callers are `Word::close` and `Word::leave`).
        unsafe { self.0.end() };
    }

    fn wait(&self) {}
}

/// A use, as long as this exists.
///
/// # Invariants
///
/// It is counted, so the memory has not ended.
pub(super) struct Use<'a, T: Ends>(&'a T);

impl<'a, T: Ends> Use<'a, T> {
    /// Uses the memory, unless it was closed.
    pub(super) fn of(memory: &'a T) -> Option<Self> {
        // INVARIANT: Counted by `enter`.
        memory.uses().enter().then_some(Self(memory))
    }
}

impl<T: Ends> Drop for Use<'_, T> {
    fn drop(&mut self) {
        self.0.uses().leave(&Ending(self.0));
    }
}

/// Refuses further users. If there are none, the memory ends now.
pub(super) fn close<T: Ends>(memory: &T) {
    let _: bool = memory.uses().close(&Ending(memory));
}
