// SPDX-License-Identifier: GPL-2.0

//! From an entry of [`crate::restrack`] to the structure that contains it.

use super::cm::CmId;
use super::counter::Counter;
use super::uverbs::TrackedCompCntr;
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

/// A structure with a restrack entry.
///
/// # Safety
///
/// Every entry of kind `KIND` is the field at offset `RES` of a structure of this type.
pub(crate) unsafe trait Tracked: View {
    /// Kind of the entry.
    const KIND: Kind;

    /// Offset of the entry in the C structure, in bytes.
    const RES: usize;

    /// Returns the structure that contains an entry; `None` if the entry is of another kind.
    fn of_entry(entry: &Entry) -> Option<&Self> {
        if entry.kind() != Some(Self::KIND) {
            return None;
        }
        let c = entry.raw().wrapping_byte_sub(Self::RES).cast();
        // SAFETY: The entry is the `res` field of a structure of the type that its kind implies
        // (invariants of `restrack::Entry`). The structure is valid while the entry is borrowed.
        Some(unsafe { Self::view(c) })
    }
}

macro_rules! tracked {
    ($($name:ident as $kind:ident;)*) => { $(
        // SAFETY: `enum rdma_restrack_type` has one kind for each structure; the offset is that of
        // the `res` field.
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
    TrackedCompCntr as CompCntr;
}
