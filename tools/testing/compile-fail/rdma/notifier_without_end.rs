// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A notifier in a module that does not wait for it: if it is leaked, the kernel calls code that
//! was unloaded.

use kernel::prelude::*;
use rdma::net::NetDevice;
use rdma::net::NetNotifier;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;

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

/// Hears.
pub struct Hears;

impl NetdevEvents for Hears {
    fn event(&self, _event: NetdevEvent, _dev: &NetDevice) {}
}

/// A notifier.
pub fn notifier() -> impl PinInit<NetNotifier<Hears>, Error> {
    NetNotifier::register(rdma::resident!(), Hears)
}
