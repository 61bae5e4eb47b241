// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A device in a module that does not wait for it: if it is leaked, the kernel
//! calls code that was unloaded.

use kernel::prelude::*;
use rdma::provider::Provider;
use rdma::provider::Unregistered;

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

/// A device.
pub fn device<P: Provider>(
    module: &'static ThisModule,
    data: impl PinInit<P, Error>,
) -> Result<Unregistered<P>> {
    Unregistered::new(rdma::resident!(), module, data)
}
