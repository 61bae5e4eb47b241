// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 try_hold

//! A reference to a namespace that is being set up: if the set-up fails, the namespace is freed
//! although it is counted.

use kernel::error::Error;
use kernel::prelude::*;
use rdma::net::NewNet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;

/// Some data.
pub struct Data(usize);

rdma::static_slot!(impl for Data: PernetSlot);

impl PernetData for Data {
    type Dropped = rdma::net::pernet::AfterDevices;

    fn new(net: &NewNet) -> impl PinInit<Self, Error> {
        #[cfg(wrong)]
        core::mem::forget(net.try_hold());
        Ok::<_, Error>(Data(net.identity()))
    }
}
