// SPDX-License-Identifier: GPL-2.0

//! FFI of namespaces: list entries, and the module parameter.

use core::ptr::NonNull;
use kernel::sync::atomic::Atomic;
use rdma::bindings;
use rdma::net::Net;
use rdma::net::NewNet;

/// A namespace: an entry of the list, or the one that a [`NetState`](super::NetState) is the data of.
///
/// # Invariants
///
/// `0` is valid: an entry is removed from the list before its namespace is freed, and borrowed under
/// the lock of the list; the data of a namespace is dropped before it.
pub(super) struct Member(NonNull<bindings::net>);

// SAFETY: Namespaces may be used from any thread.
unsafe impl Send for Member {}
// SAFETY: Same as for `Send`.
unsafe impl Sync for Member {}

impl Member {
    /// Returns a namespace that is being set up, for the list or for its data.
    pub(super) fn of(net: &NewNet) -> Self {
        // INVARIANT: The namespace is valid. `NetState` keeps it, or puts it into the list, from
        // which its drop removes it.
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
