// SPDX-License-Identifier: GPL-2.0

//! A MAD that a program sends: its lengths, and detection of duplicates.
//!
//! A program may do RMPP itself, or leave it to the core. In the second case it passes a message of
//! any length, headers first, which the core segments.

use super::header::Header;
use super::header::Layout;
use super::wire::bytes;
use super::wire::class;
use super::wire::data_offset;
use super::wire::has_rmpp;
use super::wire::method;
use super::wire::HEADER;
use super::wire::OPA_MAD_SIZE;
use super::wire::RMPP_HEADER;
use super::Invalid;
use core::cmp::Ordering;

/// Flag of an RMPP header: the MAD belongs to a transfer.
const ACTIVE: u8 = 1;

/// The beginning of a MAD, including a possible RMPP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start(pub [u8; RMPP_HEADER]);

impl Start {
    /// Returns the common MAD header.
    pub fn mad(&self) -> &[u8; HEADER] {
        let (header, _) = self.0.split_first_chunk().unwrap_or((&[0; HEADER], &[]));
        header
    }

    /// Returns the class.
    pub fn class(&self) -> u8 {
        let [_, class, ..] = self.0;
        class
    }

    /// Returns the base version.
    pub fn base_version(&self) -> u8 {
        let [version, ..] = self.0;
        version
    }

    /// Returns the transaction ID.
    pub fn tid(&self) -> u64 {
        bytes(&self.0, 8).map_or(0, u64::from_be_bytes)
    }

    /// Sets the upper half of the transaction ID to the number of an agent, by which the response
    /// is matched.
    pub fn set_hi_tid(&mut self, hi: u32) {
        if let Some(place) = self.0.get_mut(8..12) {
            place.copy_from_slice(&hi.to_be_bytes());
        }
    }

    /// Returns whether it is a response, by class and method (C13-9.1.1, 13.4.6.4).
    pub fn is_response(&self) -> bool {
        let [_, in_class, _, of_method, ..] = self.0;
        let [_, _, _, modifier] = bytes(&self.0, 20).unwrap_or_default();
        of_method & method::RESPONSE != 0
            || of_method == method::TRAP_REPRESS
            || in_class == class::BM && modifier & 1 != 0
    }

    /// Returns the bytes to be sent, with the RMPP header that `rmpp` selects.
    pub fn sent(mut self, rmpp: Rmpp) -> [u8; RMPP_HEADER] {
        let written = match rmpp {
            Rmpp::Program | Rmpp::Core => RMPP_HEADER,
            Rmpp::Cleared => HEADER,
        };
        if let Some(rest) = self.0.get_mut(written..) {
            rest.fill(0);
        }
        self.0
    }

    /// Returns whether the RMPP header marks a MAD of a transfer.
    fn is_active(&self) -> bool {
        let [.., flags, _, _, _, _, _, _, _, _, _] = self.0;
        flags & ACTIVE != 0
    }
}

/// The RMPP header of a MAD, or the bytes in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmpp {
    /// As written by the program, which does RMPP itself, or the class has no RMPP.
    Program,
    /// Zeros: the core does RMPP for the agent, but this MAD does not belong to a transfer.
    Cleared,
    /// Written by the core, which makes a transfer of the MAD.
    Core,
}

/// Plan for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The RMPP header.
    pub rmpp: Rmpp,
    /// Length of the headers in bytes.
    pub headers: usize,
    /// Length of the data in bytes.
    pub data: usize,
    /// Whether it counts as a duplicate if it equals an outstanding send. Segments of a transfer
    /// that the program does itself are equal.
    pub may_repeat: bool,
    /// Number of bytes of the MAD to be copied from the program. The core refuses MADs beyond the
    /// maximum length, so no more is copied.
    pub copied: usize,
}

impl Plan {
    /// Creates the plan for a write of `count` bytes by an agent.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is shorter than the headers of its class.
    pub fn new(
        count: usize,
        layout: Layout,
        start: &Start,
        kernel_rmpp: bool,
    ) -> Result<Self, Invalid> {
        let of_class = has_rmpp(start.class());
        let rmpp = match (of_class && kernel_rmpp, start.is_active()) {
            (false, _) => Rmpp::Program,
            (true, false) => Rmpp::Cleared,
            (true, true) => Rmpp::Core,
        };
        let headers = data_offset(start.class());
        let mad = count.checked_sub(layout.size()).ok_or(Invalid)?;
        let data = mad.checked_sub(headers).ok_or(Invalid)?;
        Ok(Self {
            rmpp,
            headers,
            data,
            may_repeat: of_class && !kernel_rmpp && start.is_active(),
            copied: match rmpp {
                Rmpp::Core => mad,
                Rmpp::Program | Rmpp::Cleared => mad.min(OPA_MAD_SIZE),
            },
        })
    }
}

/// Key of a send. Two sends with the same transaction ID, class and direction are duplicates if
/// they are requests, or responses to the same port. Ordered so that these are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    tid: u64,
    class: u8,
    response: bool,
    /// Sequence number of the send.
    seq: u64,
}

impl Key {
    /// Creates the key of a MAD as it is sent.
    pub fn new(start: &Start, seq: u64) -> Self {
        Self {
            tid: start.tid(),
            class: start.class(),
            response: start.is_response(),
            seq,
        }
    }

    /// Returns the least key with the same transaction ID, class and direction.
    pub fn first_alike(self) -> Self {
        Self { seq: 0, ..self }
    }

    /// Returns whether only the sequence number differs.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.first_alike() == other.first_alike()
    }

    /// Returns whether a send to `header` repeats `other`, which has the same key except the
    /// sequence number, and is outstanding to `its_header`.
    pub fn repeats(&self, header: &Header, other: &Self, its_header: &Header) -> bool {
        self.is_alike(other) && (!self.response || header.same_destination(its_header))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.tid, self.class, self.response, self.seq).cmp(&(
            other.tid,
            other.class,
            other.response,
            other.seq,
        ))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
