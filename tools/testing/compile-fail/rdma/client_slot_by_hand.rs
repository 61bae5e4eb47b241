// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0200 StaticSlot

//! A client with a function that may return another slot at each call: it would register one and
//! unregister another. Only `static_slot!` gives slots to types.

use kernel::prelude::*;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;

/// Is notified of devices.
pub struct Hears;

#[cfg(not(wrong))]
rdma::static_slot!(impl for Hears: ClientSlot<Hears>);

#[cfg(wrong)]
impl rdma::slot::StaticSlot<ClientSlot<Hears>> for Hears {
    fn slot() -> &'static ClientSlot<Hears> {
        static SLOT: ClientSlot<Hears> = ClientSlot::new();
        &SLOT
    }
}

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
