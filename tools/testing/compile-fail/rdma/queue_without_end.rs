// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A workqueue in a module that does not wait for it: if it is leaked, or a delayed item keeps it,
//! the kernel runs code that was unloaded.

use kernel::prelude::*;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

/// A module.
pub struct Plain;

impl kernel::Module for Plain {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

// What `module!` makes of its `type:`.
#[cfg(not(wrong))]
rdma::resident_module! { struct LocalModule(Plain); }
#[cfg(wrong)]
type LocalModule = Plain;

/// A queue.
pub fn queue() -> Result<OwnedQueue> {
    QueueOptions::unbound().create(c"queue", rdma::resident!())
}
