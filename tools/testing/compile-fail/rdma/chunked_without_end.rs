// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! On-demand memory of a whole process in a module that does not wait for it: if it is leaked, the kernel
//! calls code that was unloaded.

use kernel::prelude::*;
use rdma::provider::Access;
use rdma::provider::Device;
use rdma::provider::Provider;
use rdma::umem::odp::Chunked;

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

/// All memory.
pub fn all<P: Provider>(dev: &Device<P>, access: Access) -> Result<Chunked> {
    Chunked::whole(rdma::resident!(), dev, access)
}
