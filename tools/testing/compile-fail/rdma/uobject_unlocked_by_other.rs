// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 unlock

//! A handle, unlocked by a function that has not locked it: its object is destroyed while the owner
//! of the lock uses it.

use rdma::edge::uverbs::Access;
use rdma::edge::uverbs::Uobject;

pub fn look(handle: &Uobject) -> bool {
    #[cfg(not(wrong))]
    handle.assert_locked(Access::Read);
    #[cfg(wrong)]
    handle.unlock(Access::Read);
    #[cfg(wrong)]
    handle.unlock_any();
    handle.object().is_null()
}
