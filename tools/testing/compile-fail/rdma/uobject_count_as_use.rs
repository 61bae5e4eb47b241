// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 count

//! The count of a handle's lock, used as the count of uses of an object: a handle that is locked
//! exclusively becomes an unlocked one.

use rdma::edge::uverbs::Uobject;

pub fn look(handle: &Uobject) -> bool {
    let users = handle.users();
    #[cfg(wrong)]
    users.count().keep();
    core::ptr::eq(users, handle.users())
}
