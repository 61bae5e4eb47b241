// SPDX-License-Identifier: GPL-2.0

//! Reader-writer semaphores that are fields of C structures (`struct rw_semaphore`), for tables of
//! [`c_struct!`](crate::c_struct): `embed lock: CRwSem`. Data that Rust owns is in a
//! [`RwSem`](super::RwSem).
//!
//! C header: `include/linux/rwsem.h`.

use crate::bindings;
use crate::edge::View;
use core::mem;
use kernel::ffi::c_int;
use kernel::types::NotThreadSafe;

crate::c_struct! {
    /// A semaphore within a C structure. A reference promises that it is initialised.
    pub struct CRwSem: bindings::rw_semaphore;
    fields {}
}

crate::import! {
    in crate::bindings;

    fn down_read(sem: &CRwSem) = down_read;
    fn down_read_trylock(sem: &CRwSem) -> c_int = down_read_trylock;
    fn assert_held(sem: &CRwSem) = rdma_helper_rwsem_assert_held;
}

impl CRwSem {
    /// Waits until nobody writes. May sleep.
    #[inline]
    pub fn read(&self) -> CReadGuard<'_> {
        down_read(self);
        // INVARIANT: Just taken.
        CReadGuard {
            sem: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock for reading, unless somebody writes or waits to.
    #[inline]
    pub fn try_read(&self) -> Option<CReadGuard<'_>> {
        if down_read_trylock(self) == 0 {
            return None;
        }
        // INVARIANT: Just taken.
        Some(CReadGuard {
            sem: self,
            _not_send: NotThreadSafe,
        })
    }

    /// Takes over a guard that was given up with [`CReadGuard::keep`].
    ///
    /// # Safety
    ///
    /// This task gave up a guard of this semaphore, and nobody has taken that one over.
    #[inline]
    pub unsafe fn kept(&self) -> CReadGuard<'_> {
        // INVARIANT: Held, by this function's contract.
        CReadGuard {
            sem: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Has lockdep check that this task holds the lock, for reading or writing.
    #[inline]
    pub fn assert_held(&self) {
        assert_held(self);
    }
}

/// The lock is held for reading.
///
/// # Invariants
///
/// This task holds `sem` for reading.
#[must_use = "the lock is released when the guard is dropped"]
pub struct CReadGuard<'a> {
    sem: &'a CRwSem,
    _not_send: NotThreadSafe,
}

impl CReadGuard<'_> {
    /// Keeps the lock until [`CRwSem::kept`] takes the guard over, in the same task.
    #[inline]
    pub fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for CReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: This task holds it for reading: type invariant.
        unsafe { bindings::up_read(self.sem.raw()) };
    }
}
