// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived out of order and are kept until it is their turn.
//!
//! Kept packets pin network buffers, and a peer decides for how long. So there are limits:
//! [`ROOM`] packets for each half of a queue pair, [`TOTAL`] bytes of buffers for a device. More
//! are dropped, as a responder that keeps nothing would drop all of them. The storage itself, one
//! page, is allocated when the first packet needs it.
//!
//! Context: softirq, or bottom halves off; the runner of the half.

use crate::device::Dev;
use crate::net::KeptPacket;
use crate::net::RxPacket;
use crate::proto::early::Place;
use crate::proto::Early;
use crate::wire::Psn;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// Packets that one half keeps at most.
const ROOM: usize = 256;
/// Bytes of buffers that all halves of a device keep at most.
const TOTAL: usize = 16 << 20;

/// A half at work, which keeps packets.
pub(super) trait Keeper {
    /// There is no present packet any more. Returns it.
    fn take_packet(&mut self) -> Option<RxPacket>;

    /// What it keeps.
    fn stash(&self) -> &Stash;

    /// The same, to be changed.
    fn stash_mut(&mut self) -> (&Dev, &mut Stash);

    /// Keeps the present packet, which came before its turn.
    fn keep_packet(&mut self) {
        if let Some(packet) = self.take_packet() {
            let (dev, stash) = self.stash_mut();
            stash.keep(dev, packet);
        }
    }

    /// Drops what was kept: nobody wants it any more.
    fn forget_early(&mut self) {
        let (dev, stash) = self.stash_mut();
        stash.clear(dev);
    }

    /// Whether packets are kept.
    #[inline]
    fn has_early(&self) -> bool {
        self.stash().first().is_some()
    }
}

/// The early packets of one half. Whoever drops it clears it first.
pub(super) struct Stash(Option<Early<KVec<Place<KeptPacket>>>>);

impl Stash {
    /// There are none.
    pub(super) const EMPTY: Self = Self(None);

    /// The PSN of the first one.
    #[inline]
    pub(super) fn first(&self) -> Option<Psn> {
        self.0.as_ref()?.first()
    }

    /// Keeps a packet, if the limits allow.
    #[cold]
    fn keep(&mut self, dev: &Dev, packet: RxPacket) {
        let psn = packet.start().psn();
        let packet = packet.keep();
        let bytes = packet.bytes();
        let Some(store) = self.store() else {
            return;
        };
        let before = dev.early.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) > TOTAL || store.insert(psn, packet).is_err() {
            let _: usize = dev.early.fetch_sub(bytes, Relaxed);
        }
    }

    /// Takes the first one, if `is_due` says so of its PSN.
    #[inline]
    pub(super) fn take(&mut self, dev: &Dev, is_due: impl FnOnce(Psn) -> bool) -> Option<RxPacket> {
        if !is_due(self.first()?) {
            return None;
        }
        self.pop(dev)
    }

    /// Drops all.
    pub(super) fn clear(&mut self, dev: &Dev) {
        while self.first().is_some() {
            drop(self.pop(dev));
        }
    }

    fn pop(&mut self, dev: &Dev) -> Option<RxPacket> {
        let (_, packet) = self.0.as_mut()?.pop()?;
        let _: usize = dev.early.fetch_sub(packet.bytes(), Relaxed);
        packet.unkeep()
    }

    fn store(&mut self) -> Option<&mut Early<KVec<Place<KeptPacket>>>> {
        if self.0.is_none() {
            let mut places = KVec::with_capacity(ROOM, GFP_ATOMIC).ok()?;
            for _ in 0..ROOM {
                places.push_within_capacity(None).ok()?;
            }
            self.0 = Some(Early::new(places));
        }
        self.0.as_mut()
    }
}
