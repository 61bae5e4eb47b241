// SPDX-License-Identifier: GPL-2.0

//! Which request a MAD answers.
//!
//! The transaction's number alone does not tell: two nodes may have chosen the same one.
//! So the ends are compared, too: what was sent to a node is answered by that node, from
//! where it was sent to.

use super::wire::class;

/// A GID.
pub type Gid = [u8; 16];

/// Where a send goes to, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its LID.
    pub lid: u32,
    /// Which of this port's LIDs it leaves by.
    pub path_bits: u8,
    /// GIDs of this end and the other, if there is a global route.
    pub gids: Option<Ends>,
}

/// The GIDs of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// This end. None, if it was not known.
    pub here: Option<Gid>,
    /// The other end.
    pub there: Gid,
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Transaction.
    pub tid: u64,
    /// Management class.
    pub class: u8,
    /// Whether it is a response itself.
    pub is_response: bool,
    /// Where it went; none, if the driver does not tell.
    pub path: Option<Path>,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Transaction.
    pub tid: u64,
    /// Management class.
    pub class: u8,
    /// Whether it is a response.
    pub is_response: bool,
    /// LID of who sent it.
    pub lid: u32,
    /// Which of this port's LIDs it came to.
    pub path_bits: u8,
    /// How many low bits of a LID are the port's to choose; none, if that is not known.
    pub lmc: Option<u8>,
    /// GIDs, if it has a global route.
    pub gids: Option<(Gid, Gid)>,
}

impl Arrived {
    /// Whether it answers this, as far as can be told. A transaction of many MADs
    /// (RMPP) is answered in both directions.
    pub fn answers(&self, sent: &Sent) -> bool {
        if self.tid != sent.tid || self.class != sent.class {
            return false;
        }
        // On a directed route LIDs may be permissive ones, on both ends.
        self.class == class::SMI_DIRECTED || self.has_ends_of(sent)
    }

    fn has_ends_of(&self, sent: &Sent) -> bool {
        let Some(path) = sent.path else { return false };
        if self.is_response == sent.is_response {
            return false;
        }
        match (path.gids, self.gids) {
            // A response comes to where the request left from.
            (None, None) if self.is_response => self.lmc.is_some_and(|lmc| {
                let mask = 1_u32
                    .checked_shl(u32::from(lmc))
                    .unwrap_or(0)
                    .wrapping_sub(1);
                u32::from(path.path_bits ^ self.path_bits) & mask == 0
            }),
            (Some(ends), Some((_, to))) if self.is_response => ends.here == Some(to),
            // A request within an answer that is sent comes from where that goes.
            (None, None) => path.lid == self.lid,
            (Some(ends), Some((from, _))) => ends.there == from,
            _ => false,
        }
    }
}
