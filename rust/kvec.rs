// SPDX-License-Identifier: GPL-2.0

//! What vectors of the `kernel` crate lack.

use core::mem;
use kernel::alloc::Allocator;
use kernel::alloc::Vec;

/// Removes the elements for which `keep` answers false; the others stay in their order.
///
/// `Vec::retain` of the `kernel` crate does the same. It indexes the vector, and the compiler cannot
/// prove that the indices are in range.
pub fn retain<T, A: Allocator>(vec: &mut Vec<T, A>, mut keep: impl FnMut(&mut T) -> bool) {
    let mut kept = 0_usize;
    for at in 0..vec.len() {
        let Some((before, [this, ..])) = vec.split_at_mut_checked(at) else {
            break;
        };
        if keep(this) {
            // Nothing was removed so far, if it is not before this one.
            if let Some(gap) = before.get_mut(kept) {
                mem::swap(gap, this);
            }
            kept = kept.saturating_add(1);
        }
    }
    vec.truncate(kept);
}
