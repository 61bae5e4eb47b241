// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 set_object

//! A handle that is given something that is not an object of its type: who looks the handle up uses
//! it as one.

use rdma::edge::uverbs::Uobject;

/// Forgets the object.
pub fn forget(handle: &Uobject) {
    #[cfg(not(wrong))]
    handle.clear_context();
    #[cfg(wrong)]
    handle.set_object(core::ptr::null_mut());
}
