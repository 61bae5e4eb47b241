// SPDX-License-Identifier: GPL-2.0

//! Completions that are fields of C structures (`struct completion`).
//!
//! A completion that Rust owns is [`kernel::sync::Completion`]. This one is a view for tables of
//! [`c_struct!`](crate::c_struct): `embed comp: Completion`.
//!
//! C header: `include/linux/completion.h`.

use crate::bindings;
use crate::edge::View;

crate::c_struct! {
    /// A completion within a C structure. A reference promises that it is initialised.
    pub struct Completion: bindings::completion;
    fields {}
}

crate::import! {
    in crate::bindings;

    fn complete(done: &Completion) = complete;
    fn wait_for_completion(done: &Completion) = wait_for_completion;
    fn wait_for_completion_timeout(done: &Completion, jiffies: usize) -> usize
        = wait_for_completion_timeout;
}

impl Completion {
    /// Initialises the completion.
    ///
    /// # Safety
    ///
    /// Nobody waits for it or completes it.
    #[inline]
    pub unsafe fn init(&self) {
        // SAFETY: The memory is there; by this function's contract nobody uses it.
        unsafe { bindings::init_completion(self.raw()) };
    }

    /// Makes the next waiter wait, whatever was completed before.
    ///
    /// # Safety
    ///
    /// Nobody waits for it or completes it.
    #[inline]
    pub unsafe fn reinit(&self) {
        // SAFETY: Initialised, by the promise of a reference; nobody else uses the field, by this
        // function's contract.
        unsafe { (*self.raw()).done = 0 };
    }

    /// Wakes one waiter, or lets the next one pass. Any context. The waiter may free the memory
    /// as soon as it is woken; `complete` does not touch it after that.
    #[inline]
    pub fn complete(&self) {
        complete(self);
    }

    /// Waits until the completion is completed. May sleep.
    #[inline]
    pub fn wait(&self) {
        wait_for_completion(self);
    }

    /// Waits until the completion is completed, for so many jiffies at most. Returns whether it
    /// was. May sleep.
    #[inline]
    pub fn wait_timeout(&self, jiffies: usize) -> bool {
        wait_for_completion_timeout(self, jiffies) != 0
    }
}
