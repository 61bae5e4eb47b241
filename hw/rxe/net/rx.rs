// SPDX-License-Identifier: GPL-2.0

//! Received packets: what a device gets of them, and why some are dropped.
//!
//! * [`packet`]: one packet, which has passed all checks that need no queue pair;
//! * [`run`]: packets that arrived together, checked one by one;
//! * [`queue`]: packets that wait for a busy queue pair.
//!
//! Source: IBTA 9.6 (packet header validation), annex A17.9.

mod packet;
mod queue;
mod run;

pub(crate) use packet::KeptPacket;
pub(crate) use packet::RxPacket;
pub(crate) use queue::RxBatch;
pub(crate) use queue::RxQueue;
pub(crate) use run::RxRun;
pub(crate) use run::Stream;

use rdma::net::NetDevice;
use rdma::net::NetdevEvent;
use rdma::wire;

/// What a device does with what comes from the network.
pub(crate) trait RxSink: Send + Sync + 'static {
    /// Packets have arrived, at least one. Softirq, inside an RCU read-side section.
    fn receive(&self, run: &mut RxRun<'_>);

    /// A packet for this device was dropped. Softirq.
    fn dropped(&self, reason: DropReason);

    /// Something happened to the device's network device. After
    /// [`NetdevEvent::Unregister`] no more packets come. Process context, may sleep;
    /// RTNL is held.
    fn link_event(&self, event: NetdevEvent, ndev: &NetDevice);
}

/// Why a received packet is no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DropReason {
    /// There was no memory to bring it into one piece.
    NoMemory,
    /// It has IP options or extension headers, which RoCEv2 excludes.
    IpHeader,
    /// Its transport headers are wrong.
    Header(wire::DropReason),
    /// Its ICRC is wrong.
    Icrc,
}
