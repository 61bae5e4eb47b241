// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 mr

//! An object is in two lists at once, by one field.

use rdma::edge::chain::Locked;
use rdma::edge::object::Owned;
use rdma::edge::verbs::Mr;

/// Adds a region to one of them.
pub fn add(one: &mut Locked<'_, Mr>, other: &mut Locked<'_, Mr>, mr: Owned<Mr>) {
    one.push_back(mr);
    #[cfg(wrong)]
    other.push_back(mr);
    let _ = other;
}
