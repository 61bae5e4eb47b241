// SPDX-License-Identifier: GPL-2.0

//! Reference counts that are fields of C structures (`refcount_t`, `struct kref`).
//!
//! The type is [`Refcount`] of the `kernel` crate. Here it becomes a [`View`], so that a table of
//! [`c_struct!`](crate::c_struct) can name the field: `embed count at kref.refcount: Refcount`.
//!
//! C headers: `include/linux/refcount.h`, `include/linux/kref.h`.

use crate::bindings;
use crate::edge::View;
use kernel::sync::Refcount;

// SAFETY: `Refcount` is transparent over `Opaque<refcount_t>`, see its definition in
// `rust/kernel/sync/refcount.rs`.
unsafe impl View for Refcount {
    type C = bindings::refcount_t;
}

/// Operations that the `kernel` crate's [`Refcount`] lacks.
pub trait IncNotZero {
    /// Increments the count unless it is zero. Returns whether it did. Any context.
    fn inc_not_zero(&self) -> bool;
}

crate::import! {
    in crate::bindings;

    fn refcount_inc_not_zero(count: &Refcount) -> bool = rdma_helper_refcount_inc_not_zero;
}

impl IncNotZero for Refcount {
    #[inline]
    fn inc_not_zero(&self) -> bool {
        refcount_inc_not_zero(self)
    }
}
