// SPDX-License-Identifier: GPL-2.0

//! The lock of callbacks of an ID: who holds it may call the consumer's handler.
//!
//! Consumers take it, too, by `rdma_lock_handler`, and call some functions from a callback, with the
//! lock held for them. Must match `include/rdma/rdma_cm.h`.

use super::event::Event;
use super::id::Id;
use kernel::ffi::c_int;
use kernel::sync::MutexGuard;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Within;

/// The lock of callbacks of an ID, held.
pub(crate) struct HandlerGuard<'a> {
    id: &'a Id,
    _held: MutexGuard<'a, ()>,
}

impl<'a> HandlerGuard<'a> {
    /// The ID whose lock it is.
    pub(crate) fn id(&self) -> &'a Id {
        self.id
    }

    /// Calls the consumer's handler. Its answer is 0, or the ID is to be destroyed.
    pub(crate) fn call(&self, event: &mut Event) -> c_int {
        let id = self.id;
        let Some(handler) = id.consumer().handler else {
            return 0;
        };
        super::trace::event(id, event);
        // SAFETY: The consumer's handler takes its ID and an event, with the lock of callbacks
        // held (`rdma_cm.h`).
        let answer = unsafe { handler(id.as_raw(), event.as_raw()) };
        super::trace::done(id, event, answer);
        answer
    }
}

impl Id {
    /// Takes the lock of callbacks. May sleep.
    pub(crate) fn lock(&self) -> HandlerGuard<'_> {
        HandlerGuard {
            id: self,
            _held: self.handler.lock(),
        }
    }

    /// Takes the lock of callbacks for the consumer, who calls `rdma_unlock_handler`.
    pub(crate) fn lock_for_consumer(&self) {
        core::mem::forget(self.handler.lock());
    }

    /// The lock of callbacks, which the consumer holds: it calls from a callback, or from between
    /// `rdma_lock_handler` and `rdma_unlock_handler`.
    ///
    /// # Safety
    ///
    /// The consumer holds it.
    unsafe fn held(&self) -> MutexGuard<'_, ()> {
        // SAFETY: The lock is held (contract of this function).
        unsafe { MutexGuard::new(&self.handler, ()) }
    }
}

/// An ID in a call under the lock of callbacks, which the consumer holds.
pub(crate) struct Locked<'a>(&'a Id);

// SAFETY: `from_c`'s contract: as for an ID; the consumer holds its lock.
unsafe impl FromC for Locked<'_> {
    type C = *mut bindings::rdma_cm_id;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Contract of this function.
        Self(unsafe { <&Id>::from_c(c) })
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Locked<'a> {}

impl<'a> Locked<'a> {
    /// The ID.
    pub(crate) fn id(&self) -> &'a Id {
        self.0
    }

    /// Releases the lock that the consumer holds.
    pub(crate) fn unlock(self) {
        // SAFETY: The consumer holds the lock (contract of `from_c`).
        drop(unsafe { self.0.held() });
    }
}
