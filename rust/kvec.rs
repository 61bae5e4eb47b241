// SPDX-License-Identifier: GPL-2.0

//! Operations on vectors that the `kernel` crate lacks.

use core::mem;
use kernel::alloc::Allocator;
use kernel::alloc::Vec;

/// Removes the elements for which `keep` returns false, and preserves the order of the others.
///
/// `Vec::retain` of the `kernel` crate does the same, but it indexes the vector, and the compiler
/// cannot prove that the indices are in range.
pub fn retain<T, A: Allocator>(vec: &mut Vec<T, A>, mut keep: impl FnMut(&mut T) -> bool) {
    let mut kept = 0_usize;
    for at in 0..vec.len() {
        let Some((before, [this, ..])) = vec.split_at_mut_checked(at) else {
            break;
        };
        if keep(this) {
            // `kept` is at most `at`; if they are equal nothing was removed so far.
            if let Some(gap) = before.get_mut(kept) {
                mem::swap(gap, this);
            }
            kept = kept.saturating_add(1);
        }
    }
    vec.truncate(kept);
}

/// Removes and returns the first element that `is` selects. With the last element the memory is freed
/// as well, because a list in a static is never dropped.
pub fn take<T, A: Allocator>(vec: &mut Vec<T, A>, is: impl FnMut(&T) -> bool) -> Option<T> {
    let index = vec.iter().position(is)?;
    let taken = vec.remove(index).ok();
    if vec.is_empty() {
        *vec = Vec::new();
    }
    taken
}
