// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 of_device

//! What a module keeps in a namespace until its devices leave it, by a device, which may be
//! leaving.

use kernel::error::Error;
use kernel::prelude::*;
use rdma::net::NetDevice;
use rdma::net::NewNet;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;
use rdma::sync::rcu;

#[cfg(not(wrong))]
type Order = rdma::net::pernet::AfterDevices;
#[cfg(wrong)]
type Order = rdma::net::pernet::BeforeDevices;

/// Some data.
pub struct Data(u32);

rdma::static_slot!(impl for Data: PernetSlot);

impl PernetData for Data {
    type Dropped = Order;

    fn new(_net: &NewNet) -> impl PinInit<Self, Error> {
        Ok::<_, Error>(Data(0))
    }
}

/// Reads it.
pub fn read(all: &Pernet<Data>, dev: &NetDevice) -> u32 {
    all.of_device(dev, &rcu::read_lock())
        .map_or(0, |data| data.0)
}
