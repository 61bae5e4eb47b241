// SPDX-License-Identifier: GPL-2.0

//! Packets queued for a busy queue pair.
//!
//! Any CPU appends; the runner of the half takes all at once. The queue owns the buffers. Any
//! context, without a lock ([`SkbQueue`]).

use super::packet::KeptPacket;
use super::packet::RxPacket;
use rdma::net::skb::SkbBatch;
use rdma::net::SkbQueue;

/// A lock-free queue of packets: any number of CPUs append, one at a time empties it. Packets are
/// linked through their buffers, so no memory is allocated.
pub(crate) struct RxQueue(SkbQueue);

impl RxQueue {
    /// Creates an empty queue.
    pub(crate) const fn new() -> Self {
        Self(SkbQueue::new())
    }

    /// Returns the approximate number of packets.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.len()
    }

    /// Appends a packet. Returns whether the queue was empty before.
    #[inline]
    pub(crate) fn push(&self, packet: RxPacket) -> bool {
        self.0.push(packet.keep().0)
    }

    /// Takes all packets, oldest first. Packets left in the batch are dropped with it.
    #[inline]
    pub(crate) fn take_all(&self) -> RxBatch {
        RxBatch(self.0.take_all())
    }
}

/// Packets taken from a queue.
pub(crate) struct RxBatch(SkbBatch);

impl Iterator for RxBatch {
    type Item = RxPacket;

    #[inline]
    fn next(&mut self) -> Option<RxPacket> {
        KeptPacket(self.0.next()?).unkeep()
    }
}
