// SPDX-License-Identifier: GPL-2.0

//! Packets that arrived out of order and are kept until the gap before them is filled.
//!
//! Kept packets pin network buffers, and the peer controls for how long. Hence the limits: [`ROOM`]
//! packets per half of a queue pair, [`TOTAL`] bytes of buffers per device. Packets beyond the
//! limits are dropped, as the specification allows for all of them. The storage, one page, is
//! allocated with the first packet.
//!
//! Context: softirq, or bottom halves off; called by the runner of the half.

use crate::device::Dev;
use crate::net::KeptPacket;
use crate::net::RxPacket;
use crate::proto::early::Place;
use crate::proto::Early;
use crate::wire::Psn;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// Maximum number of packets that one half keeps.
const ROOM: usize = 256;
/// Maximum number of buffer bytes that all halves of a device keep.
const TOTAL: usize = 16 << 20;

/// Host of a half that keeps early packets.
pub(super) trait Keeper {
    /// Removes and returns the current packet.
    fn take_packet(&mut self) -> Option<RxPacket>;

    /// Returns the kept packets.
    fn stash(&self) -> &Stash;

    /// Returns the kept packets mutably, with the device that counts their bytes.
    fn stash_mut(&mut self) -> (&Dev, &mut Stash);

    /// Keeps the current packet, which arrived early.
    fn keep_packet(&mut self) {
        if let Some(packet) = self.take_packet() {
            let (dev, stash) = self.stash_mut();
            stash.keep(dev, packet);
        }
    }

    /// Drops all kept packets.
    fn forget_early(&mut self) {
        let (dev, stash) = self.stash_mut();
        stash.clear(dev);
    }

    /// Returns whether packets are kept.
    #[inline]
    fn has_early(&self) -> bool {
        self.stash().first().is_some()
    }
}

/// Early packets of one half. The owner must clear it before dropping it.
pub(super) struct Stash(Option<Early<KVec<Place<KeptPacket>>>>);

impl Stash {
    /// An empty stash.
    pub(super) const EMPTY: Self = Self(None);

    /// Returns the PSN of the first packet.
    #[inline]
    pub(super) fn first(&self) -> Option<Psn> {
        self.0.as_ref()?.first()
    }

    /// Keeps a packet if the limits allow it.
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

    /// Takes the first packet if `is_due` returns true for its PSN.
    #[inline]
    pub(super) fn take(&mut self, dev: &Dev, is_due: impl FnOnce(Psn) -> bool) -> Option<RxPacket> {
        if !is_due(self.first()?) {
            return None;
        }
        self.pop(dev)
    }

    /// Drops all packets.
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
