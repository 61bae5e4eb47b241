// SPDX-License-Identifier: GPL-2.0

//! The packets of one turn in order of arrival: the parked packet, the backlog of the previous
//! turn, the queue, and last the packets passed to the half directly.
//!
//! Context: softirq, or bottom halves off; called by the runner of the half.

use super::BACKLOG;
use crate::net::RxBatch;
use crate::net::RxPacket;
use crate::net::RxQueue;
use crate::net::RxRun;
use crate::net::Stream;

/// Packets passed to a half directly.
pub(super) struct Source<'s, 'r> {
    pub(super) stream: Stream,
    pub(super) run: &'s mut RxRun<'r>,
    /// Maximum number of packets to take.
    pub(super) most: u32,
    /// The next packet has been examined and belongs to the stream.
    pub(super) looked_at: bool,
}

impl Source<'_, '_> {
    #[inline(always)]
    fn next(&mut self) -> Option<RxPacket> {
        self.most = self.most.checked_sub(1)?;
        if core::mem::take(&mut self.looked_at) {
            return self.run.take_peeked();
        }
        self.run.take_of(self.stream)
    }

    /// Moves the remaining packets to the queue of the half and drops those that exceed its limit.
    /// Returns whether any were queued.
    pub(super) fn leave(mut self, queue: &RxQueue) -> bool {
        let mut any = false;
        while let Some(packet) = self.next() {
            if queue.len() < BACKLOG {
                queue.push(packet);
                any = true;
            }
        }
        any
    }
}

/// Packets for a turn of a half, except the parked one.
pub(super) struct Feed<'a, 's, 'r> {
    pub(super) queue: &'a RxQueue,
    /// The queue may hold packets.
    pub(super) more: bool,
    /// Packets taken off the queue but not handled yet.
    pub(super) backlog: &'a mut Option<RxBatch>,
    /// Packets that have just arrived.
    pub(super) source: &'a mut Option<Source<'s, 'r>>,
    /// Remaining budget of the turn.
    pub(super) left: &'a mut u32,
}

impl Feed<'_, '_, '_> {
    /// Begins the turn. `parked`: there is a parked packet; those behind it are in the backlog or
    /// in the queue.
    #[inline(always)]
    pub(super) fn begin(&mut self, parked: bool) {
        self.more |= parked || self.backlog.is_some();
    }

    /// Takes the next packet if the budget allows; sets an exhausted source to `None`.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<RxPacket> {
        while let Some(less) = self.left.checked_sub(1) {
            if let Some(backlog) = self.backlog {
                if let Some(packet) = backlog.next() {
                    *self.left = less;
                    return Some(packet);
                }
                *self.backlog = None;
            }
            if core::mem::take(&mut self.more) {
                *self.backlog = Some(self.queue.take_all());
                continue;
            }
            let packet = self.source.as_mut()?.next();
            match packet {
                Some(_) => *self.left = less,
                None => *self.source = None,
            }
            return packet;
        }
        None
    }

    /// Returns whether there may be packets.
    #[inline(always)]
    pub(super) fn has_any(&self) -> bool {
        self.has_more() || self.source.is_some()
    }

    /// Returns whether packets remain that need another turn. Those left in the source are not
    /// counted: they are moved to the queue.
    #[inline(always)]
    pub(super) fn has_more(&self) -> bool {
        self.more || self.backlog.is_some()
    }
}
