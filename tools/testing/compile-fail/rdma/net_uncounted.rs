// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 AlwaysRefCounted

//! A reference that is counted, of a namespace whose count may be zero: the count would come back
//! from the dead, and the namespace be freed under it.

use kernel::sync::aref::ARef;
#[cfg(not(wrong))]
use rdma::net::CountedNet;
use rdma::net::Net;

/// Keeps it.
#[cfg(not(wrong))]
pub fn keep(net: &Net) -> Option<ARef<CountedNet>> {
    net.try_hold()
}

/// Keeps it.
#[cfg(wrong)]
pub fn keep(net: &Net) -> Option<ARef<Net>> {
    Some(ARef::from(net))
}
