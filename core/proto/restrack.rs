// SPDX-License-Identifier: GPL-2.0

//! Tracked objects: their kinds, ids of queue pairs, and what is shown of their owners.
//!
//! Each object of a device is in a table of its kind, under an id that `rdma res` shows. Numbers
//! are those of `enum rdma_restrack_type` (`include/rdma/restrack.h`).

/// Kind of an object.
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
    /// User context.
    Ctx,
    /// Counter of queue pairs.
    Counter,
    /// Shared receive queue.
    Srq,
    /// DMA handle.
    Dmah,
    /// Completion counter. Only kernels that have `struct ib_comp_cntr` have this kind.
    CompCntr,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Kind; 10] = [
        Kind::Pd,
        Kind::Cq,
        Kind::Qp,
        Kind::CmId,
        Kind::Mr,
        Kind::Ctx,
        Kind::Counter,
        Kind::Srq,
        Kind::Dmah,
        Kind::CompCntr,
    ];

    /// Name in the summary of `rdma res`; `None` for kinds that it does not list.
    pub const fn summary_name(self) -> Option<&'static str> {
        match self {
            Self::Pd => Some("pd"),
            Self::Cq => Some("cq"),
            Self::Qp => Some("qp"),
            Self::CmId => Some("cm_id"),
            Self::Mr => Some("mr"),
            Self::Ctx => Some("ctx"),
            Self::Srq => Some("srq"),
            Self::CompCntr => Some("comp_cntr"),
            Self::Counter | Self::Dmah => None,
        }
    }
}

/// The id of a queue pair: its number. The two special queue pairs of each port have the same
/// numbers on all ports, so their ids carry the port in the high byte.
///
/// `None` if the driver assigned a number of more than 24 bits, or the port number has more than 8
/// bits. Such a queue pair cannot be tracked.
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

/// Owner of an object, as shown in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<N> {
    /// Name of a kernel module or subsystem.
    KernelName(N),
    /// Process id in the reader's pid namespace.
    Pid(u32),
    /// Nothing: the process has exited, or is not visible in the reader's pid namespace.
    Nothing,
}
