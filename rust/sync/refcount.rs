// SPDX-License-Identifier: GPL-2.0

//! Reference counts that are fields of C structures (`refcount_t`, `struct kref`).
//!
//! A table of [`c_struct!`](macro@crate::c_struct) names such a field with [`CRefcount`]:
//! `embed count at kref.refcount: CRefcount`. Everybody who can reach the object may take
//! references. Only the types that own one drop it, because the object is freed with the last one.
//!
//! C headers: `include/linux/refcount.h`, `include/linux/kref.h`.

use crate::bindings;
use crate::edge::View;
use kernel::ffi::c_int;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Refcount;

/// A reference count in a C structure. Any context.
#[repr(transparent)]
pub struct CRefcount(Refcount);

// SAFETY: `Refcount` is transparent over `Opaque<refcount_t>`, see its definition in
// `rust/kernel/sync/refcount.rs`.
unsafe impl View for CRefcount {
    type C = bindings::refcount_t;
}

crate::import! {
    in crate::bindings;

    fn refcount_inc_not_zero(count: &CRefcount) -> bool = rdma_helper_refcount_inc_not_zero;
}

impl CRefcount {
    /// Sets the count of an object that has no references.
    ///
    /// # Safety
    ///
    /// Nobody has a reference to the object. The caller owns the `references` new ones.
    #[inline]
    pub unsafe fn init(&self, references: c_int) {
        self.0.set(references);
    }

    /// Increments the count, for a reference to an object that has at least one. A count that is
    /// zero, or too large, is saturated, and the object is never freed.
    #[inline]
    pub fn inc(&self) {
        self.0.inc();
    }

    /// Increments the count unless it is zero. Returns whether it did.
    #[inline]
    #[must_use = "the reference leaks unless it is dropped"]
    pub fn inc_not_zero(&self) -> bool {
        refcount_inc_not_zero(self)
    }

    /// Returns whether there is no reference now.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.0.as_atomic().load(Relaxed) == 0
    }

    /// Drops a reference. Returns whether it was the last one.
    ///
    /// # Safety
    ///
    /// The caller owns a reference, which it gives up.
    #[inline]
    #[must_use = "the last reference ends the object"]
    pub unsafe fn put(&self) -> bool {
        self.0.dec_and_test()
    }
}
