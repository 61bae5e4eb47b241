// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 clear_object

//! The object of a handle, forgotten while another task uses it by the handle; and a handle that
//! takes the number of another one, which is freed with it.

use rdma::edge::uverbs::Uobject;

pub fn look(handle: &Uobject, other: &Uobject) -> bool {
    #[cfg(wrong)]
    handle.clear_object();
    #[cfg(wrong)]
    handle.set_id(other.id());
    handle.object().is_null() && handle.id() == other.id()
}
