// SPDX-License-Identifier: GPL-2.0

//! A reader-writer semaphore in a `static`.
//!
//! The C lock cannot be initialised at compile time. Before [`StaticRwSem::init`] the lock cannot
//! be taken: `read` and `write` return `None`.

use super::ReadGuard;
use super::RwSem;
use super::WriteGuard;
use core::pin::Pin;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::LockClassKey;

const NEW: u32 = 0;
const BUSY: u32 = 1;
const READY: u32 = 2;

/// An [`RwSem`] for a `static`.
///
/// # Invariants
///
/// `lock` is initialised once `state` is [`READY`]. Only the caller that changed `state` from
/// [`NEW`] to [`BUSY`] initialises it.
pub struct StaticRwSem<T> {
    lock: RwSem<T>,
    state: Atomic<u32>,
}

impl<T> StaticRwSem<T> {
    /// Creates a lock that cannot be taken yet.
    pub const fn new(data: T) -> Self {
        Self {
            // SAFETY: The lock is taken only after `init`, see `ready`.
            lock: unsafe { RwSem::uninit(data) },
            state: Atomic::new(NEW),
        }
    }

    /// Initialises the lock. Further calls have no effect. `name` and `key` are for lockdep.
    pub fn init(&'static self, name: &'static CStr, key: Pin<&'static LockClassKey>) {
        if self.state.cmpxchg(NEW, BUSY, Relaxed).is_err() {
            return;
        }
        // SAFETY: Only this call found the state `NEW`, and the lock is not taken before the state
        // is `READY` (type invariant).
        unsafe { self.lock.init(name, key) };
        self.state.store(READY, Release);
    }

    fn ready(&self) -> Option<&RwSem<T>> {
        (self.state.load(Acquire) == READY).then_some(&self.lock)
    }

    /// Takes the lock for reading, see [`RwSem::read`]; `None` before [`init`](Self::init).
    pub fn read(&self) -> Option<ReadGuard<'_, T>> {
        self.ready().map(RwSem::read)
    }

    /// Takes the lock for writing, see [`RwSem::write`]; `None` before [`init`](Self::init).
    pub fn write(&self) -> Option<WriteGuard<'_, T>> {
        self.ready().map(RwSem::write)
    }
}
