// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 CountedNet

//! What a module keeps in a namespace, of a namespace that may be going: it is dropped before the
//! namespace's memory is freed.

use kernel::error::Error;
use kernel::prelude::*;
use rdma::net::pernet::AfterDevices;
#[cfg(not(wrong))]
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::NewNet;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;

/// Some data.
pub struct Data(u32);

rdma::static_slot!(impl for Data: PernetSlot);

impl PernetData for Data {
    type Dropped = AfterDevices;

    fn new(_net: &NewNet) -> impl PinInit<Self, Error> {
        Ok::<_, Error>(Data(0))
    }
}

#[cfg(not(wrong))]
type Asked = CountedNet;
#[cfg(wrong)]
type Asked = Net;

/// Reads it.
pub fn read(all: &Pernet<Data>, net: &Asked) -> u32 {
    all.of(net).map_or(0, |data| data.0)
}
