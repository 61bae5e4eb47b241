// SPDX-License-Identifier: GPL-2.0

//! FFI of namespaces: list entries, and the module parameter.

use core::ptr::NonNull;
use kernel::sync::atomic::Atomic;
use rdma::bindings;
use rdma::net::Net;
use rdma::net::NewNet;

/// A namespace in the list. It is removed from the list before it is freed.
///
/// # Invariants
///
/// `0` is valid: it is in the list, whose lock is held, or it is being removed and waits for its
/// users (`NetState`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Member(NonNull<bindings::net>);

// SAFETY: Namespaces may be used from any thread.
unsafe impl Send for Member {}
// SAFETY: Same as for `Send`.
unsafe impl Sync for Member {}

impl Member {
    /// Returns the list entry for a namespace that is being set up.
    pub(super) fn of(net: &NewNet) -> Self {
        // INVARIANT: A namespace in the list is removed from it before it is freed.
        Self(NonNull::from(net).cast())
    }

    /// The namespace.
    pub(super) fn net(&self) -> &Net {
        // SAFETY: The namespace is valid (type invariant).
        unsafe { Net::from_raw(self.0.as_ptr()) }
    }
}

/// The mode as the variable of the module parameter `netns_mode`.
pub(super) fn shared() -> &'static Atomic<i8> {
    // SAFETY: A one-byte variable of `exports.c`, 0 or 1, which only `set_mode` changes.
    unsafe { Atomic::from_ptr((&raw mut bindings::rdma_netns_shared).cast()) }
}
