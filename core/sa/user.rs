// SPDX-License-Identifier: GPL-2.0

//! Who asks: an `ib_sa_client` is a count of queries and memberships, for whose end its owner
//! waits.

use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use rdma::bindings;

/// A user.
///
/// # Invariants
///
/// It points to a client that is registered, and that this does not outlive: it is initialised,
/// and its owner waits for the count.
pub(super) struct User(NonNull<bindings::ib_sa_client>);

// SAFETY: The count is changed atomically, the completion locks itself.
unsafe impl Send for User {}
// SAFETY: As above.
unsafe impl Sync for User {}

impl User {
    /// Begins: its owner is one user. Any context.
    ///
    /// # Safety
    ///
    /// `client` is valid, and nobody else uses it yet.
    pub(super) unsafe fn register(client: *mut bindings::ib_sa_client) {
        // SAFETY: By this function's duty.
        unsafe {
            bindings::atomic_set(&raw mut (*client).users, 1);
            bindings::init_completion(&raw mut (*client).comp);
        }
    }

    /// Waits until nothing of it is left. May sleep.
    ///
    /// # Safety
    ///
    /// `client` is registered, this is called once, and nothing new is begun for it.
    pub(super) unsafe fn unregister(client: *mut bindings::ib_sa_client) {
        // SAFETY: By this function's duty; the owner's own count is given up here.
        unsafe {
            drop(NonNull::new(client).map(Self));
            bindings::wait_for_completion(&raw mut (*client).comp);
        }
    }

    /// One more use. Any context.
    ///
    /// # Safety
    ///
    /// `client` is registered, and not unregistered before the use ends.
    pub(super) unsafe fn enter(client: NonNull<bindings::ib_sa_client>) -> Self {
        // SAFETY: By this function's duty.
        unsafe { bindings::atomic_inc(&raw mut (*client.as_ptr()).users) };
        // INVARIANT: Just counted.
        Self(client)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let client = self.0.as_ptr();
        // SAFETY: By the type invariant; until it is completed, the owner waits.
        unsafe {
            if bindings::atomic_dec_and_test(&raw mut (*client).users) {
                bindings::complete(&raw mut (*client).comp);
            }
        }
    }
}

/// A place for a [`User`] that is released before what it is part of goes.
///
/// # Invariants
///
/// Null, or a client of which a use is counted for this place.
pub(super) struct UserSlot(Atomic<*mut bindings::ib_sa_client>);

impl UserSlot {
    /// A place with this use.
    pub(super) fn new(user: Option<User>) -> Self {
        let client = user.map_or(ptr::null_mut(), |user| ManuallyDrop::new(user).0.as_ptr());
        // INVARIANT: The use is not given back.
        Self(Atomic::<*mut bindings::ib_sa_client>::new(client))
    }

    /// Ends the use, if it has not ended. Any context.
    pub(super) fn release(&self) {
        let client = self.0.xchg(ptr::null_mut(), Full);
        // INVARIANT: By the type invariant the use was counted, and nobody else took it out.
        drop(NonNull::new(client).map(User));
    }
}

impl Drop for UserSlot {
    fn drop(&mut self) {
        self.release();
    }
}
