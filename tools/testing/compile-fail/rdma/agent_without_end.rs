// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! An agent for management datagrams in a module that does not wait for it: if it is leaked, the kernel
//! calls code that was unloaded.

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::DeviceRef;
use rdma::mad::Agent;
use rdma::mad::MadUser;
use rdma::mad::Registration;

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

/// An agent.
pub fn agent<U: MadUser>(device: &DeviceRef, how: &Registration, user: Arc<U>) -> Result<Agent<U>> {
    Agent::register(rdma::resident!(), device, 1, how, user)
}
