// SPDX-License-Identifier: GPL-2.0

//! Access to elements of an array that a program selects.
//!
//! A bounds check alone does not suffice for the index: the CPU may execute the access before the
//! check, with an index that is out of bounds, and leave traces of what it has read (Spectre,
//! variant 1). Here the index is also limited by a computation, which the CPU does not guess.
//!
//! C header: `include/linux/nospec.h`.

use crate::bindings;

/// Returns `index` if it is less than `len`. The result is less than `len` in speculative execution,
/// too. Any context.
#[inline]
fn limit(index: usize, len: usize) -> Option<usize> {
    if index >= len {
        return None;
    }
    // SAFETY: The helper accepts any numbers.
    Some(unsafe { bindings::rdma_helper_array_index_nospec(index, len) })
}

/// Returns an element. Any context.
///
/// # Examples
///
/// ```ignore
/// let slot = nospec::get(&slots, header.id as usize).ok_or(EINVAL)?;
/// ```
#[inline]
pub fn get<T>(array: &[T], index: usize) -> Option<&T> {
    array.get(limit(index, array.len())?)
}

/// Returns an element. Any context.
#[inline]
pub fn get_mut<T>(array: &mut [T], index: usize) -> Option<&mut T> {
    let index = limit(index, array.len())?;
    array.get_mut(index)
}
