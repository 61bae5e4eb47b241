// SPDX-License-Identifier: GPL-2.0

//! States, types and attributes of queue pairs.
//!
//! The numbers are those of `enum ib_qp_state`, `enum ib_qp_type` and
//! `enum ib_qp_attr_mask` of `include/rdma/ib_verbs.h`, which are ABI to user space as well.

/// State of a queue pair (`enum ib_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum QpState {
    /// Just created, or reset.
    Reset,
    /// Port and keys are set; receive requests may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained or draining.
    Sqd,
    /// Send queue in error.
    Sqe,
    /// In error; all requests are flushed.
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

    /// The state of this number, which may come from an untrusted user.
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

    /// Number of the state.
    pub const fn raw(self) -> u32 {
        self as u32
    }

    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns whether [`Attrs::CUR_STATE`] may name this state: the user says which state it
    /// assumes the queue pair to be in, for changes that race with a transition by the device
    /// itself (RTS to SQE, SQD draining to drained).
    pub(super) const fn can_be_claimed(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }
}

/// Type of a queue pair (`enum ib_qp_type`), without driver-specific types.
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
    /// Raw IPv6; no driver implements it.
    RawIpv6 = 5,
    /// Raw Ethertype; no driver implements it.
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

    /// The type of this number. `None` for 7, which has no name, and for driver-specific types
    /// (from `IB_QPT_DRIVER` on): such a driver has its own rules, or uses those of a similar type.
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

    /// Number of the type.
    pub const fn raw(self) -> u32 {
        self as u32
    }

    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of attributes (`enum ib_qp_attr_mask`). Undefined bits may be set: the set comes from
/// users, and no state change allows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attrs(pub u32);

impl Attrs {
    /// No attribute.
    pub const NONE: Attrs = Attrs(0);
    /// New state.
    pub const STATE: Attrs = Attrs(1);
    /// State that the user assumes to be the current one.
    pub const CUR_STATE: Attrs = Attrs(1 << 1);
    /// Whether an event reports that the send queue is drained.
    pub const EN_SQD_ASYNC_NOTIFY: Attrs = Attrs(1 << 2);
    /// Remote access flags.
    pub const ACCESS_FLAGS: Attrs = Attrs(1 << 3);
    /// P_Key index.
    pub const PKEY_INDEX: Attrs = Attrs(1 << 4);
    /// Port number.
    pub const PORT: Attrs = Attrs(1 << 5);
    /// Q_Key of datagrams.
    pub const QKEY: Attrs = Attrs(1 << 6);
    /// Address vector of the path to the peer.
    pub const AV: Attrs = Attrs(1 << 7);
    /// MTU of the path.
    pub const PATH_MTU: Attrs = Attrs(1 << 8);
    /// Local acknowledgement timeout.
    pub const TIMEOUT: Attrs = Attrs(1 << 9);
    /// Maximum number of retries after a lost packet.
    pub const RETRY_CNT: Attrs = Attrs(1 << 10);
    /// Maximum number of retries after a receiver-not-ready NAK.
    pub const RNR_RETRY: Attrs = Attrs(1 << 11);
    /// First PSN to receive.
    pub const RQ_PSN: Attrs = Attrs(1 << 12);
    /// Maximum number of outstanding RDMA READs and atomics as requester.
    pub const MAX_QP_RD_ATOMIC: Attrs = Attrs(1 << 13);
    /// Alternate path.
    pub const ALT_PATH: Attrs = Attrs(1 << 14);
    /// RNR timer: how long a peer is told to wait if there is no receive request.
    pub const MIN_RNR_TIMER: Attrs = Attrs(1 << 15);
    /// First PSN to send.
    pub const SQ_PSN: Attrs = Attrs(1 << 16);
    /// Maximum number of outstanding RDMA READs and atomics as responder.
    pub const MAX_DEST_RD_ATOMIC: Attrs = Attrs(1 << 17);
    /// Path migration state.
    pub const PATH_MIG_STATE: Attrs = Attrs(1 << 18);
    /// Queue sizes.
    pub const CAP: Attrs = Attrs(1 << 19);
    /// QP number of the peer.
    pub const DEST_QPN: Attrs = Attrs(1 << 20);
    /// Rate limit of packets.
    pub const RATE_LIMIT: Attrs = Attrs(1 << 25);

    /// Union of both sets.
    #[must_use]
    pub const fn and(self, other: Attrs) -> Attrs {
        Attrs(self.0 | other.0)
    }

    /// Those that are not in the other set.
    #[must_use]
    pub const fn without(self, other: Attrs) -> Attrs {
        Attrs(self.0 & !other.0)
    }

    /// Returns whether the sets intersect.
    pub const fn has_any(self, others: Attrs) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
