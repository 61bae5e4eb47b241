// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 CountedNet

//! A message to the socket of a namespace that may be going: its socket may be freed meanwhile.

use crate::netlink;
use crate::netlink::Message;
use kernel::prelude::*;
#[cfg(not(wrong))]
use rdma::net::CountedNet;
#[cfg(wrong)]
use rdma::net::Net as CountedNet;

pub(crate) fn tell(net: &CountedNet, message: Message) -> Result {
    netlink::multicast(net, message, 0)
}
