// SPDX-License-Identifier: GPL-2.0

//! Packets of a reliable connection that arrived early, that is, out of order.
//!
//! A network may reorder packets, and when one is lost, those behind it still arrive. Both halves
//! keep early packets ([`Disposition::Early`]) until the missing one has arrived, so that a single
//! retransmitted packet suffices:
//!
//! ```text
//!   arrives   4  6  7  5        the half wants 5 when 6 comes
//!   kept         6  67          in an Early, which the host owns
//!   handed in 4        5 6 7    in order: the engine executes nothing early
//! ```
//!
//! [`Early`] is the storage. [`ReorderThreshold`] determines when a packet counts as missing; if it
//! was only late, its retransmission was needless.
//!
//! # Bounds
//!
//! The host determines the size of the storage. A packet is kept only if its PSN is within
//! [`REACH`] of the expected one: beyond that, it is more likely forged.
//!
//! IBTA 9.7.5.1.2 permits a responder to drop early packets, but does not require it.
//!
//! [`Disposition::Early`]: super::host::Disposition::Early

use core::ops::DerefMut;

use crate::wire::Psn;

use super::types::ahead;

/// Maximum distance from the expected PSN at which packets are kept, in PSNs.
pub const REACH: u32 = 1 << 14;

/// Packets `P` in the order of their PSNs, in a ring buffer with storage `S`.
#[derive(Debug)]
pub struct Early<S> {
    slots: S,
    /// Index of the first packet.
    head: usize,
    len: usize,
}

/// One place in the storage of an [`Early`].
pub type Place<P> = Option<(Psn, P)>;

impl<P, S: DerefMut<Target = [Place<P>]>> Early<S> {
    /// Creates an empty store from storage whose places are all empty.
    pub fn new(slots: S) -> Self {
        Self {
            slots,
            head: 0,
            len: 0,
        }
    }

    /// Returns the maximum number of packets.
    pub fn room(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the PSN of the first packet.
    pub fn first(&self) -> Option<Psn> {
        match self.slots.get(self.head) {
            Some(Some((psn, _))) if self.len != 0 => Some(*psn),
            Some(_) | None => None,
        }
    }

    /// Keeps a packet.
    ///
    /// # Errors
    ///
    /// Returns the packet if there is no room or its PSN is present already.
    pub fn insert(&mut self, psn: Psn, packet: P) -> Result<(), P> {
        if self.len >= self.slots.len() {
            return Err(packet);
        }
        // It nearly always belongs at the end or close to it.
        let mut k = self.len;
        while let Some(before) = k.checked_sub(1) {
            match self.psn_at(before) {
                Some(other) if other == psn => return Err(packet),
                Some(other) if other.is_after(psn) => k = before,
                Some(_) | None => break,
            }
        }
        let mut last = self.len;
        while last > k {
            let (from, to) = (self.place(last.saturating_sub(1)), self.place(last));
            let moved = self.slots.get_mut(from).and_then(Option::take);
            if let Some(place) = self.slots.get_mut(to) {
                *place = moved;
            }
            last = last.saturating_sub(1);
        }
        let at = self.place(k);
        let Some(place) = self.slots.get_mut(at) else {
            return Err(packet);
        };
        *place = Some((psn, packet));
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Takes the first packet, regardless of its PSN.
    pub fn pop(&mut self) -> Option<(Psn, P)> {
        if self.len == 0 {
            return None;
        }
        let taken = self.slots.get_mut(self.head)?.take();
        self.head = self.place(1);
        self.len = self.len.saturating_sub(1);
        taken
    }

    fn psn_at(&self, k: usize) -> Option<Psn> {
        Some(self.slots.get(self.place(k))?.as_ref()?.0)
    }

    /// Returns the index of packet number `k`, which is at most the room.
    fn place(&self, k: usize) -> usize {
        let at = self.head.saturating_add(k);
        let room = self.slots.len();
        if at >= room {
            at.saturating_sub(room)
        } else {
            at
        }
    }
}

/// Number of packets that must arrive early before the missing one counts as lost.
///
/// It grows on a network that reorders packets, where a premature report causes needless
/// retransmissions, seen as duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReorderThreshold {
    /// Number of packets that arrived early since the last one in order.
    stuck: u32,
    limit: u32,
    /// PSNs that were last reported missing and have not arrived twice; oldest first.
    told: [Option<Psn>; 4],
}

impl ReorderThreshold {
    /// Initial threshold, as in TCP (RFC 5681, 3.2).
    pub(super) const LEAST: u32 = 3;
    pub(super) const MOST: u32 = 256;

    pub(super) const NEW: Self = Self {
        stuck: 0,
        limit: Self::LEAST,
        told: [None; 4],
    };

    /// Records an early packet. `last`: the sender waits for a response after it. Returns whether
    /// to report a packet as missing.
    pub(super) fn is_over(&mut self, last: bool) -> bool {
        self.stuck = self.stuck.saturating_add(1);
        self.stuck >= self.limit || (last && self.limit == Self::LEAST)
    }

    /// Records progress in order.
    pub(super) fn moved(&mut self) {
        self.stuck = 0;
    }

    /// Records that `psn` was reported to the peer as missing.
    pub(super) fn told(&mut self, psn: Psn) {
        self.told.rotate_left(1);
        if let Some(last) = self.told.last_mut() {
            if last.replace(psn).is_some() {
                // A duplicate would have arrived by now, so the packet was indeed lost.
                self.limit = (self.limit / 2).max(Self::LEAST);
            }
        }
    }

    /// Records a duplicate packet.
    pub(super) fn again(&mut self, psn: Psn) {
        for told in &mut self.told {
            if *told == Some(psn) {
                *told = None;
                self.limit = self.limit.saturating_mul(2).min(Self::MOST);
            }
        }
    }
}

/// Returns whether an early packet may be kept when `next` is expected.
pub(super) fn within_reach(next: Psn, psn: Psn) -> bool {
    ahead(next, psn) < REACH
}
