// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A UDP socket with callbacks in a module that does not wait for it: if it is leaked, the kernel
//! calls code that was unloaded.

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::net::Net;
use rdma::net::TunnelReceiver;
use rdma::net::UdpTunnel;

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

/// A socket.
///
/// # Safety
///
/// As for `UdpTunnel::open`.
pub unsafe fn tunnel<T: TunnelReceiver>(net: &Net, receiver: Arc<T>) -> Result<UdpTunnel<T>> {
    // SAFETY: Guaranteed by the caller.
    unsafe { UdpTunnel::open(rdma::resident!(), net, false, 1, receiver) }
}
