// SPDX-License-Identifier: GPL-2.0

//! Structures with an entry of [`crate::restrack`]: the way from the entry to the structure.

use super::cm::CmId;
use super::counter::Counter;
use super::uverbs::TrackedContext;
use super::uverbs::TrackedDmah;
use crate::restrack::Entry;
use crate::restrack::Kind;
use rdma::edge::verbs::Cq;
use rdma::edge::verbs::Mr;
use rdma::edge::verbs::Pd;
use rdma::edge::verbs::Qp;
use rdma::edge::verbs::Srq;
use rdma::edge::View;

/// A structure that is tracked.
///
/// # Safety
///
/// Entries of kind `KIND` are fields of such structures, at `RES`, and of no others.
pub(crate) unsafe trait Tracked: View {
    /// The kind of the entry.
    const KIND: Kind;

    /// Where in the C structure the entry is.
    const RES: usize;

    /// The structure that an entry is a field of, if it is one of this kind.
    fn of_entry(entry: &Entry) -> Option<&Self> {
        if entry.kind() != Some(Self::KIND) {
            return None;
        }
        let c = entry.raw().wrapping_byte_sub(Self::RES).cast();
        // SAFETY: The entry is the `res` field of a structure of the kind that it says
        // (`restrack::Entry`, invariants), which exists while the entry is borrowed.
        Some(unsafe { Self::view(c) })
    }
}

macro_rules! tracked {
    ($($name:ident as $kind:ident;)*) => { $(
        // SAFETY: `enum rdma_restrack_type` has one kind for each structure; the offset is the
        // structure's own.
        unsafe impl Tracked for $name {
            const KIND: Kind = Kind::$kind;
            const RES: usize = core::mem::offset_of!(<$name as View>::C, res);
        }
    )* };
}

tracked! {
    Pd as Pd;
    Cq as Cq;
    Qp as Qp;
    CmId as CmId;
    Mr as Mr;
    TrackedContext as Ctx;
    Counter as Counter;
    Srq as Srq;
    TrackedDmah as Dmah;
}
