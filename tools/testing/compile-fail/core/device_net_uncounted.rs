// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 CountedNet

//! A device, moved to a namespace that is being removed: nobody moves it out again, and it refers to
//! freed memory.

use crate::device::RegistrationLock;
use rdma::net::CountedNet;
use rdma::net::Net;

#[cfg(not(wrong))]
type Target = CountedNet;
#[cfg(wrong)]
type Target = Net;

pub(crate) fn move_to(device: &RegistrationLock<'_>, net: &Target) -> bool {
    device.set_net(net);
    core::mem::size_of::<Net>() == core::mem::size_of::<CountedNet>()
}
