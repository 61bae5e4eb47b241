// SPDX-License-Identifier: GPL-2.0

//! Namespaces at the edge: the list's members, and the module's parameter.

use core::ptr::NonNull;
use kernel::sync::atomic::Atomic;
use rdma::bindings;
use rdma::net::Net;

/// A namespace in the list. It takes itself out before it goes.
///
/// # Invariants
///
/// `0` is there: it is in the list, whose lock is held, or is going, and waits for who uses it
/// (`NetState`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Member(NonNull<bindings::net>);

// SAFETY: Namespaces are used from any thread.
unsafe impl Send for Member {}
// SAFETY: As for `Send`.
unsafe impl Sync for Member {}

impl Member {
    /// That of a namespace which is coming.
    pub(super) fn of(net: &Net) -> Self {
        // INVARIANT: Whoever comes into the list leaves it before the namespace goes.
        Self(NonNull::from(net).cast())
    }

    /// The namespace.
    pub(super) fn net(&self) -> &Net {
        // SAFETY: The namespace is there (type invariant).
        unsafe { Net::from_raw(self.0.as_ptr()) }
    }
}

/// The mode, as the module's parameter `netns_mode` shows it.
pub(super) fn shared() -> &'static Atomic<i8> {
    // SAFETY: A variable of `exports.c` of one byte, 0 or 1, changed by `set_mode` only.
    unsafe { Atomic::from_ptr((&raw mut bindings::rdma_netns_shared).cast()) }
}
