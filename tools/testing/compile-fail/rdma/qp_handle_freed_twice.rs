// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 handle

//! A handle to a shared queue pair, closed twice: it would be removed from the list twice, and its
//! use of the queue pair dropped twice.

use kernel::prelude::*;
use rdma::edge::object::Owned;
use rdma::edge::verbs::Qp;
use rdma::edge::xrcd::Unlisted;

/// Closes a handle.
pub fn close(handle: Owned<Qp>) -> Result {
    #[cfg(not(wrong))]
    let closed = Unlisted::of(handle)?;
    #[cfg(wrong)]
    let closed = Unlisted::of(handle).and_then(|_| Unlisted::of(handle))?;
    closed.free();
    Ok(())
}
