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
    /// A completion in a C structure. A reference guarantees that it is initialised.
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
    /// No other code waits for or signals the completion during the call.
    #[inline]
    pub unsafe fn init(&self) {
        // SAFETY: The memory is valid (`View`), and no other code uses it (contract of this
        // function).
        unsafe { bindings::init_completion(self.raw()) };
    }

    /// Resets the completion, so that the next waiter waits.
    ///
    /// # Safety
    ///
    /// No other code waits for or signals the completion during the call.
    #[inline]
    pub unsafe fn reinit(&self) {
        // SAFETY: The completion is initialised (guarantee of a reference), and no other code uses
        // the field (contract of this function).
        unsafe { (*self.raw()).done = 0 };
    }

    /// Wakes one waiter, or lets the next one continue. Any context. The waiter may free the memory
    /// as soon as it is woken; `complete` does not access it after that.
    #[inline]
    pub fn complete(&self) {
        complete(self);
    }

    /// Waits until the completion is signalled. May sleep.
    #[inline]
    pub fn wait(&self) {
        wait_for_completion(self);
    }

    /// Waits until the completion is signalled, for at most `jiffies` ticks. Returns whether it was
    /// signalled. May sleep.
    #[inline]
    pub fn wait_timeout(&self, jiffies: usize) -> bool {
        wait_for_completion_timeout(self, jiffies) != 0
    }
}
