// SPDX-License-Identifier: GPL-2.0

//! The packets of one turn, in the order of their arrival: the parked packet, the backlog of the
//! turn before, the queue, and then those that are handed to the half directly, which came last.
//!
//! Context: softirq, or bottom halves off; the runner of the half.

use super::BACKLOG;
use crate::net::RxBatch;
use crate::net::RxPacket;
use crate::net::RxQueue;
use crate::net::RxRun;
use crate::net::Stream;

/// Packets that go to a half at once.
pub(super) struct Source<'s, 'r> {
    pub(super) stream: Stream,
    pub(super) run: &'s mut RxRun<'r>,
    /// How many of them it may be.
    pub(super) most: u32,
    /// The next one was looked at, and is of the stream.
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

    /// Leaves what is left in the queue of the half; what exceeds that is dropped.
    /// Answers whether there was any.
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

/// The packets for a turn of a half, without the parked one.
pub(super) struct Feed<'a, 's, 'r> {
    pub(super) queue: &'a RxQueue,
    /// There may be packets in the queue.
    pub(super) more: bool,
    /// Taken off the queue, and not handled yet.
    pub(super) backlog: &'a mut Option<RxBatch>,
    /// Those that just came.
    pub(super) source: &'a mut Option<Source<'s, 'r>>,
    /// What the turn's budget has left.
    pub(super) left: &'a mut u32,
}

impl Feed<'_, '_, '_> {
    /// Begins the turn, with a packet that was `parked` or without. Whatever came behind that
    /// is in the queue, if not in the backlog.
    #[inline(always)]
    pub(super) fn begin(&mut self, parked: bool) {
        self.more |= parked || self.backlog.is_some();
    }

    /// Takes the next packet, if the budget allows; an exhausted source becomes `None`.
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

    /// Whether there may be any.
    #[inline(always)]
    pub(super) fn has_any(&self) -> bool {
        self.has_more() || self.source.is_some()
    }

    /// Whether the budget has left some that only another turn looks at: what is left of
    /// the source goes to the queue.
    #[inline(always)]
    pub(super) fn has_more(&self) -> bool {
        self.more || self.backlog.is_some()
    }
}
