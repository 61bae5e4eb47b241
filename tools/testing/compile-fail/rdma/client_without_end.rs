// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A client in a module that does not wait for it: if it is leaked, the kernel calls code that was
//! unloaded.

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::client::Registered;

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

/// Is notified of devices.
pub struct Hears;

rdma::static_slot!(impl for Hears: ClientSlot<Hears>);

impl Client for Hears {
    type Data = ();
    const NAME: &'static CStr = c"hears";

    fn add(&self, _device: DeviceRef) -> Result<()> {
        Ok(())
    }

    fn remove(&self, (): ()) {}

    fn nl_info<'a>(&self, (): &'a (), _device: &DeviceRef, _port: u32) -> Result<NlInfo<'a>> {
        Err(EINVAL)
    }
}

/// A client.
pub fn client() -> Result<Registered<Hears>> {
    Registered::register(Arc::new(Hears, GFP_KERNEL)?, rdma::resident!())
}
