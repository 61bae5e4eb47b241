// SPDX-License-Identifier: GPL-2.0

//! Received packets, and the interface through which a device receives them.
//!
//! * [`packet`]: one packet that has passed all checks that need no queue pair;
//! * [`run`]: packets that arrived together, checked one by one;
//! * [`queue`]: packets queued for a busy queue pair.
//!
//! Source: IBTA 9.6 (packet header validation), annex A17.9.

mod packet;
mod queue;
mod run;

pub(in crate::net) use packet::grh_of;
pub(crate) use packet::KeptPacket;
pub(crate) use packet::RxPacket;
pub(crate) use queue::RxBatch;
pub(crate) use queue::RxQueue;
pub(crate) use run::RxRun;
pub(crate) use run::Stream;

use rdma::net::NetDevice;
use rdma::net::NetdevEvent;
use rdma::wire;

/// A device's handlers of network input.
pub(crate) trait RxSink: Send + Sync + 'static {
    /// Packets have arrived; at least one. Softirq, within an RCU read-side critical section.
    fn receive(&self, run: &mut RxRun<'_>);

    /// A packet for this device was dropped. Softirq.
    fn dropped(&self, reason: DropReason);

    /// An event of the device's network device. After [`NetdevEvent::Unregister`] no more packets
    /// arrive. Process context, may sleep; RTNL is held.
    fn link_event(&self, event: NetdevEvent, ndev: &NetDevice);
}

/// Reasons to drop a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DropReason {
    /// No memory to linearize it.
    NoMemory,
    /// It has IP options or extension headers, which RoCEv2 excludes.
    IpHeader,
    /// Its transport headers are invalid.
    Header(wire::DropReason),
    /// Its ICRC is wrong.
    Icrc,
}
