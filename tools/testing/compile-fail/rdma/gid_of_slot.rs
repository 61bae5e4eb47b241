// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 get

//! A reference to the GID in a field, whose owner another thread replaces meanwhile. Only code that
//! knows that the field does not change may look at the entry in place.

use rdma::edge::object::GidSlot;

/// The index of the entry.
pub fn index(slot: &GidSlot) -> Option<u16> {
    #[cfg(not(wrong))]
    // SAFETY: The example changes no fields.
    let gid = unsafe { slot.get() };
    #[cfg(wrong)]
    let gid = slot.get();
    gid.map(|gid| gid.index())
}
