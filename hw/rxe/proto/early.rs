// SPDX-License-Identifier: GPL-2.0

//! Packets of a reliable connection that came before their turn.
//!
//! A network may swap packets, and when it loses one, those behind it still arrive. Both
//! halves keep what is early ([`Disposition::Early`]) until what is missing has come, so that
//! one packet sent again mends the stream:
//!
//! ```text
//!   arrives   4  6  7  5        the half wants 5 when 6 comes
//!   kept         6  67          in an Early, which the host owns
//!   handed in 4        5 6 7    in order: the engine executes nothing early
//! ```
//!
//! [`Early`] is the store, [`ReorderThreshold`] the rule when to say that something is missing: if
//! it was only late, whoever is told sends it for nothing.
//!
//! # Bounds
//!
//! The store is as large as the storage that the host gives it. A PSN is kept only within
//! [`REACH`] of the one that must come next: further on it would be a forgery more likely
//! than a packet.
//!
//! IBTA 9.7.5.1.2 lets a responder drop what is early; nothing makes it.
//!
//! [`Disposition::Early`]: super::host::Disposition::Early

use core::ops::DerefMut;

use crate::wire::Psn;

use super::types::ahead;

/// How far ahead of the PSN that must come next packets are kept, in PSNs.
pub const REACH: u32 = 1 << 14;

/// Packets `P` in the order of their PSNs, in a circle of storage `S`.
#[derive(Debug)]
pub struct Early<S> {
    slots: S,
    /// Where the first one is.
    head: usize,
    len: usize,
}

/// One place of an [`Early`]'s storage.
pub type Place<P> = Option<(Psn, P)>;

impl<P, S: DerefMut<Target = [Place<P>]>> Early<S> {
    /// An empty store in this storage, all of whose places are empty.
    pub fn new(slots: S) -> Self {
        Self {
            slots,
            head: 0,
            len: 0,
        }
    }

    /// How many packets there is room for.
    pub fn room(&self) -> usize {
        self.slots.len()
    }

    /// How many packets it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The PSN of the first packet.
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
    /// Hands it back if there is no room, or if there is one with its PSN.
    pub fn insert(&mut self, psn: Psn, packet: P) -> Result<(), P> {
        if self.len >= self.slots.len() {
            return Err(packet);
        }
        // Nearly always it belongs at the end or close to it.
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

    /// Takes the first packet, whatever its PSN is.
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

    /// The place of packet number `k`, which is at most the room.
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

/// How many packets come early before one that is missing counts as lost.
///
/// On a network that swaps packets the number grows: whoever was told too soon sends again
/// what arrives by itself, which then comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReorderThreshold {
    /// Packets that came early since the stream last moved.
    stuck: u32,
    limit: u32,
    /// What was last said to be missing, and did not come twice; the oldest first.
    told: [Option<Psn>; 4],
}

impl ReorderThreshold {
    /// As TCP has it (RFC 5681, 3.2).
    pub(super) const LEAST: u32 = 3;
    pub(super) const MOST: u32 = 256;

    pub(super) const NEW: Self = Self {
        stuck: 0,
        limit: Self::LEAST,
        told: [None; 4],
    };

    /// A packet came early; if `last`, the sender waits for an answer after it. Whether it
    /// is time to say that one is missing.
    pub(super) fn is_over(&mut self, last: bool) -> bool {
        self.stuck = self.stuck.saturating_add(1);
        self.stuck >= self.limit || (last && self.limit == Self::LEAST)
    }

    /// The stream has moved.
    pub(super) fn moved(&mut self) {
        self.stuck = 0;
    }

    /// The peer is told that `psn` is missing.
    pub(super) fn told(&mut self, psn: Psn) {
        self.told.rotate_left(1);
        if let Some(last) = self.told.last_mut() {
            if last.replace(psn).is_some() {
                // By now it would have come twice: it was lost indeed.
                self.limit = (self.limit / 2).max(Self::LEAST);
            }
        }
    }

    /// A packet came that had come before.
    pub(super) fn again(&mut self, psn: Psn) {
        for told in &mut self.told {
            if *told == Some(psn) {
                *told = None;
                self.limit = self.limit.saturating_mul(2).min(Self::MOST);
            }
        }
    }
}

/// Whether a packet may be kept when `next` must come next.
pub(super) fn within_reach(next: Psn, psn: Psn) -> bool {
    ahead(next, psn) < REACH
}
