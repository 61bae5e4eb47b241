// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 PortEvent

//! An event of a queue pair, made with a port number: handlers take the number for an address.

use crate::device::event;
use crate::device::Device;
use crate::edge::client::PortEvent;

pub(crate) fn tell(device: &Device) {
    #[cfg(not(wrong))]
    let kind = PortEvent::Error;
    #[cfg(wrong)]
    let kind = rdma::bindings::ib_event_type_IB_EVENT_QP_FATAL;
    event::dispatch(device, kind, 1);
    let _ = PortEvent::Active;
}
