// SPDX-License-Identifier: GPL-2.0

//! States, types and attributes of queue pairs.
//!
//! The numbers are those of `enum ib_qp_state`, `enum ib_qp_type` and
//! `enum ib_qp_attr_mask` of `include/rdma/ib_verbs.h`, which users see as well.

/// State of a queue pair (`enum ib_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum QpState {
    /// Just made, or put back to nothing.
    Reset,
    /// Knows its port and keys; may be given receive requests.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained or draining.
    Sqd,
    /// Send queue in error.
    Sqe,
    /// In error; all is flushed.
    Err,
}

impl QpState {
    /// Every state, in the order of its number.
    pub const ALL: [QpState; 7] = [
        QpState::Reset,
        QpState::Init,
        QpState::Rtr,
        QpState::Rts,
        QpState::Sqd,
        QpState::Sqe,
        QpState::Err,
    ];

    /// The state of this number, which may come from anybody.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::Rtr,
            3 => Self::Rts,
            4 => Self::Sqd,
            5 => Self::Sqe,
            6 => Self::Err,
            _ => return None,
        })
    }

    /// Its number.
    pub const fn raw(self) -> u32 {
        self as u32
    }

    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether the attribute [`Attrs::CUR_STATE`] may name it: the user says which
    /// state it believes the queue pair to be in, for changes that race with one
    /// that the device makes by itself (RTS to SQE, SQD to its drained part).
    pub(super) const fn can_be_claimed(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }
}

/// Type of a queue pair (`enum ib_qp_type`), without the drivers' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum QpType {
    /// Subnet management, QP 0.
    Smi = 0,
    /// General services, QP 1.
    Gsi = 1,
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// Raw IPv6, which nobody implements.
    RawIpv6 = 5,
    /// Raw Ethertype, which nobody implements.
    RawEthertype = 6,
    /// Raw Ethernet frames.
    RawPacket = 8,
    /// Initiator of an extended reliable connection.
    XrcIni = 9,
    /// Target of an extended reliable connection.
    XrcTgt = 10,
}

impl QpType {
    /// Every type, in the order of its number.
    pub const ALL: [QpType; 10] = [
        QpType::Smi,
        QpType::Gsi,
        QpType::Rc,
        QpType::Uc,
        QpType::Ud,
        QpType::RawIpv6,
        QpType::RawEthertype,
        QpType::RawPacket,
        QpType::XrcIni,
        QpType::XrcTgt,
    ];

    /// The type of this number. None for 7, which has no name, and for the types
    /// that belong to a driver (from `IB_QPT_DRIVER` on): such a driver has its own
    /// rules, or asks for those of a type it resembles.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Smi,
            1 => Self::Gsi,
            2 => Self::Rc,
            3 => Self::Uc,
            4 => Self::Ud,
            5 => Self::RawIpv6,
            6 => Self::RawEthertype,
            8 => Self::RawPacket,
            9 => Self::XrcIni,
            10 => Self::XrcTgt,
            _ => return None,
        })
    }

    /// Its number.
    pub const fn raw(self) -> u32 {
        self as u32
    }

    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of attributes (`enum ib_qp_attr_mask`). Bits that name nothing may be set:
/// they come from users, and no change allows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attrs(pub u32);

impl Attrs {
    /// None.
    pub const NONE: Attrs = Attrs(0);
    /// The state to go to.
    pub const STATE: Attrs = Attrs(1);
    /// The state that the user believes to be the present one.
    pub const CUR_STATE: Attrs = Attrs(1 << 1);
    /// Whether an event tells that the send queue is drained.
    pub const EN_SQD_ASYNC_NOTIFY: Attrs = Attrs(1 << 2);
    /// What the peer may do.
    pub const ACCESS_FLAGS: Attrs = Attrs(1 << 3);
    /// Index of the partition key.
    pub const PKEY_INDEX: Attrs = Attrs(1 << 4);
    /// The port.
    pub const PORT: Attrs = Attrs(1 << 5);
    /// The datagrams' key.
    pub const QKEY: Attrs = Attrs(1 << 6);
    /// The path to the peer.
    pub const AV: Attrs = Attrs(1 << 7);
    /// The path's MTU.
    pub const PATH_MTU: Attrs = Attrs(1 << 8);
    /// Local acknowledgement timeout.
    pub const TIMEOUT: Attrs = Attrs(1 << 9);
    /// How often a lost packet is sent again.
    pub const RETRY_CNT: Attrs = Attrs(1 << 10);
    /// How often a receiver that is not ready is asked again.
    pub const RNR_RETRY: Attrs = Attrs(1 << 11);
    /// The first packet number to expect.
    pub const RQ_PSN: Attrs = Attrs(1 << 12);
    /// How many reads and atomics may be outstanding as requester.
    pub const MAX_QP_RD_ATOMIC: Attrs = Attrs(1 << 13);
    /// The alternate path.
    pub const ALT_PATH: Attrs = Attrs(1 << 14);
    /// How long a peer is told to wait when no receive request is there.
    pub const MIN_RNR_TIMER: Attrs = Attrs(1 << 15);
    /// The first packet number to send.
    pub const SQ_PSN: Attrs = Attrs(1 << 16);
    /// How many reads and atomics may be outstanding as responder.
    pub const MAX_DEST_RD_ATOMIC: Attrs = Attrs(1 << 17);
    /// Where path migration stands.
    pub const PATH_MIG_STATE: Attrs = Attrs(1 << 18);
    /// Sizes of the queues.
    pub const CAP: Attrs = Attrs(1 << 19);
    /// The peer's number.
    pub const DEST_QPN: Attrs = Attrs(1 << 20);
    /// Limit of the packet pace.
    pub const RATE_LIMIT: Attrs = Attrs(1 << 25);

    /// All of both.
    #[must_use]
    pub const fn and(self, other: Attrs) -> Attrs {
        Attrs(self.0 | other.0)
    }

    /// Those that the other has not.
    #[must_use]
    pub const fn without(self, other: Attrs) -> Attrs {
        Attrs(self.0 & !other.0)
    }

    /// Whether one of the others is among these.
    pub const fn has_any(self, others: Attrs) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
