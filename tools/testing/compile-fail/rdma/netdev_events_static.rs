// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0310

//! A listener of network devices that borrows: its registration can be leaked, and the listener
//! called after what it borrows has gone.

use rdma::net::NetDevice;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;

/// A listener that has something of another.
pub struct Listener<T>(pub T);

#[cfg(not(wrong))]
impl<T: Send + Sync + 'static> NetdevEvents for Listener<T> {
    fn event(&self, _event: NetdevEvent, _dev: &NetDevice) {}
}

#[cfg(wrong)]
impl<T: Send + Sync> NetdevEvents for Listener<T> {
    fn event(&self, _event: NetdevEvent, _dev: &NetDevice) {}
}
