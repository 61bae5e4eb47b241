// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 target

//! A queue pair that was added to its domain, destroyed by its creator: the domain still has it.

use kernel::prelude::*;
use rdma::edge::object::Owned;
use rdma::edge::verbs::Qp;
use rdma::edge::xrcd::NewTarget;

/// Adds it, and returns it for destruction.
pub fn add(target: NewTarget) -> Result<(), (Error, Owned<Qp>)> {
    #[cfg(wrong)]
    target.insert()?;
    #[cfg(wrong)]
    return Err((EINVAL, target.into_owned()));
    #[cfg(not(wrong))]
    target.insert()
}
