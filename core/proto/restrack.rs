// SPDX-License-Identifier: GPL-2.0

//! Objects that are tracked: their kinds, the ids of queue pairs, and what is shown of
//! who owns them.
//!
//! Every object of a device is in a table of its kind, by an id that `rdma res`
//! shows. Numbers are those of `enum rdma_restrack_type`
//! (`include/rdma/restrack.h`).

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Protection domain.
    Pd,
    /// Completion queue.
    Cq,
    /// Queue pair.
    Qp,
    /// Connection manager's id.
    CmId,
    /// Memory region.
    Mr,
    /// User's context.
    Ctx,
    /// Counter of queue pairs.
    Counter,
    /// Shared receive queue.
    Srq,
    /// DMA handle.
    Dmah,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Kind; 9] = [
        Kind::Pd,
        Kind::Cq,
        Kind::Qp,
        Kind::CmId,
        Kind::Mr,
        Kind::Ctx,
        Kind::Counter,
        Kind::Srq,
        Kind::Dmah,
    ];

    /// Its name in the summary of `rdma res`; some are not in there.
    pub const fn summary_name(self) -> Option<&'static str> {
        match self {
            Self::Pd => Some("pd"),
            Self::Cq => Some("cq"),
            Self::Qp => Some("qp"),
            Self::CmId => Some("cm_id"),
            Self::Mr => Some("mr"),
            Self::Ctx => Some("ctx"),
            Self::Srq => Some("srq"),
            Self::Counter | Self::Dmah => None,
        }
    }
}

/// The id of a queue pair: its number. The two special ones of each port share
/// numbers with the other ports', and carry the port in the high byte.
///
/// None, if the driver gave a number of more than 24 bits, or a port of more than 8.
/// Such a queue pair cannot be tracked.
pub fn qp_id(qpn: u32, port: u32, is_special: bool) -> Option<u32> {
    let port = u8::try_from(port).ok()?;
    if qpn >> 24 != 0 {
        return None;
    }
    Some(if is_special {
        qpn | u32::from(port) << 24
    } else {
        qpn
    })
}

/// What a dump says of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<N> {
    /// The name of a part of the kernel.
    KernelName(N),
    /// The process, as the reader's pid namespace numbers it.
    Pid(u32),
    /// Nothing: the process has gone, or the reader's namespace does not have it.
    Nothing,
}
