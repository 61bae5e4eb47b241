// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A notifier of neighbours' changes in a module that does not wait for it: if it is leaked, the kernel
//! calls code that was unloaded.

use kernel::prelude::*;
use rdma::net::neighbour::ChangeNotifier;
use rdma::net::neighbour::Changes;

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

/// A notifier.
pub fn notifier(changes: &'static Changes) -> impl PinInit<ChangeNotifier, Error> {
    ChangeNotifier::register(rdma::resident!(), changes, |_| ())
}
