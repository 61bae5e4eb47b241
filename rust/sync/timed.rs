// SPDX-License-Identifier: GPL-2.0

//! Completions that Rust owns and whose waiter does not wait for ever.
//!
//! [`kernel::sync::Completion`] has no timeout.
//!
//! C header: `include/linux/completion.h`.

use super::Completion;
use crate::bindings;
use crate::edge::View;
use kernel::prelude::*;
use kernel::time::Jiffies;
use kernel::types::Opaque;

/// A completion.
///
/// # Invariants
///
/// `inner` is initialised.
#[pin_data]
pub struct TimedCompletion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: The C completion has its own lock.
unsafe impl Send for TimedCompletion {}
// SAFETY: As for `Send`: the C completion has its own lock.
unsafe impl Sync for TimedCompletion {}

impl TimedCompletion {
    /// Creates a completion that is not signalled.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes.
            inner <- Opaque::ffi_init(|slot| unsafe { bindings::init_completion(slot) }),
        })
    }

    fn view(&self) -> &Completion {
        // SAFETY: The completion is initialised (type invariant), and borrowed.
        unsafe { Completion::view(self.inner.get()) }
    }

    /// Wakes the waiter, or lets it continue. Any context.
    pub fn complete(&self) {
        self.view().complete();
    }

    /// Waits until the completion is signalled, but not longer than `limit`. Returns whether it was
    /// signalled. Not interrupted by signals. May sleep.
    pub fn wait(&self, limit: Jiffies) -> bool {
        self.view().wait_timeout(limit)
    }
}
