// SPDX-License-Identifier: GPL-2.0

//! Matching of received MADs with requests.
//!
//! The transaction id alone is not sufficient: two nodes may have chosen the same one. So the
//! addresses are compared, too: a response must arrive where the request was sent from, and a
//! request within a response that is being sent must come from the destination of that response.

use super::wire::class;

/// A GID.
pub type Gid = [u8; 16];

/// Destination and source of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Destination LID.
    pub lid: u32,
    /// Path bits: which of this port's LIDs is the source.
    pub path_bits: u8,
    /// Local and remote GID, if there is a global route.
    pub gids: Option<Ends>,
}

/// The GIDs of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Local GID; `None` if it was not known.
    pub here: Option<Gid>,
    /// Remote GID.
    pub there: Gid,
}

/// Properties of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Transaction id.
    pub tid: u64,
    /// Management class.
    pub class: u8,
    /// Whether it is a response itself.
    pub is_response: bool,
    /// Destination; `None` if the driver does not report it, or was not asked yet.
    pub path: Option<Path>,
}

/// Properties of a received MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Transaction id.
    pub tid: u64,
    /// Management class.
    pub class: u8,
    /// Whether it is a response.
    pub is_response: bool,
    /// LID of the sender.
    pub lid: u32,
    /// Path bits: which of this port's LIDs is the destination.
    pub path_bits: u8,
    /// LID mask control of the port: number of low LID bits that select a path; `None` if not
    /// known.
    pub lmc: Option<u8>,
    /// Source and destination GID, if there is a global route.
    pub gids: Option<(Gid, Gid)>,
}

impl Arrived {
    /// Returns whether this MAD has the transaction and the class of `sent`, whose destination need not
    /// be known for that.
    pub const fn is_of(&self, sent: &Sent) -> bool {
        self.tid == sent.tid && self.class == sent.class
    }

    /// Returns whether this MAD responds to `sent`, as far as can be determined. In a transaction
    /// of many MADs (RMPP), both directions respond to each other.
    pub fn answers(&self, sent: &Sent) -> bool {
        if !self.is_of(sent) {
            return false;
        }
        // On a directed route, LIDs may be permissive at both ends.
        self.class == class::SMI_DIRECTED || self.has_ends_of(sent)
    }

    fn has_ends_of(&self, sent: &Sent) -> bool {
        let Some(path) = sent.path else { return false };
        if self.is_response == sent.is_response {
            return false;
        }
        match (path.gids, self.gids) {
            // A response arrives where the request was sent from.
            (None, None) if self.is_response => self.lmc.is_some_and(|lmc| {
                let mask = 1_u32
                    .checked_shl(u32::from(lmc))
                    .unwrap_or(0)
                    .wrapping_sub(1);
                u32::from(path.path_bits ^ self.path_bits) & mask == 0
            }),
            (Some(ends), Some((_, to))) if self.is_response => ends.here == Some(to),
            // A request within a response that is being sent comes from the destination of that
            // response.
            (None, None) => path.lid == self.lid,
            (Some(ends), Some((from, _))) => ends.there == from,
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}
