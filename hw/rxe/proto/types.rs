// SPDX-License-Identifier: GPL-2.0

//! Basic types of the engine: identifiers, times, limits, status codes.
//!
//! Numbers that user space sees (`enum ib_wc_status`, `enum ib_wc_opcode` and
//! `enum ib_access_flags` of `include/rdma/ib_verbs.h`) are the discriminants here, so that the
//! host converts with [`WcStatus::code`] and the like.

use crate::wire::Psn;

/// Maximum message length in bytes (IBTA C9-94).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Q_Key of the general services queue pair (`IB_QP1_QKEY`).
pub const GSI_QKEY: u32 = 0x8001_0000;

/// Maximum number of outstanding PSNs: half the PSN space (IBTA 9.7.2). With more, the peer could
/// not distinguish new from old.
pub(crate) const MAX_OUTSTANDING: u32 = 1 << 23;

/// A queue pair number; 24 bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qpn(pub u32);

/// A memory key, local or remote: an index and eight bits of the owner's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key(pub u32);

/// A point in time or a duration, in nanoseconds of a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Returns this time plus a duration, saturating.
    #[must_use]
    pub const fn after(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

/// Returns the number of PSNs from `from` up to, but not including, `to`, modulo 2^24.
///
/// Outstanding PSNs never exceed half the PSN space, so if `to` may be older than `from`, the
/// caller compares the result with the number outstanding.
pub(crate) fn ahead(from: Psn, to: Psn) -> u32 {
    to.get().wrapping_sub(from.get()) & 0x00ff_ffff
}

/// Returns the number of packets for `len` bytes. An empty message takes one.
pub(crate) fn packets(len: u32, mtu: u32) -> u32 {
    len.div_ceil(mtu.max(1)).max(1)
}

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// The general services queue pair, number 1: a datagram QP with a fixed Q_Key.
    Gsi,
}

impl QpType {
    /// Returns whether every packet is a separate message with its own destination.
    #[must_use]
    pub const fn is_datagram(self) -> bool {
        match self {
            QpType::Ud | QpType::Gsi => true,
            QpType::Rc | QpType::Uc => false,
        }
    }
}

/// Number of retries before an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryLimit {
    /// This many times.
    Limited(u8),
    /// Without limit.
    Endless,
}

impl RetryLimit {
    /// Converts `retry_cnt` of modify_qp: three bits. 7 means seven retries, since IBTA 9.9.2
    /// defines no infinite value; the C driver treats it as infinite.
    #[must_use]
    pub const fn from_retry_cnt(n: u8) -> Self {
        RetryLimit::Limited(n & 7)
    }

    /// Converts `rnr_retry` of modify_qp: three bits. 7 means infinite (IBTA 9.7.5.2.8).
    #[must_use]
    pub const fn from_rnr_retry(n: u8) -> Self {
        match n & 7 {
            7 => RetryLimit::Endless,
            n => RetryLimit::Limited(n),
        }
    }

    /// Returns the limit after one more retry; `None` if none was left.
    #[must_use]
    pub(crate) const fn spend(self) -> Option<Self> {
        match self {
            RetryLimit::Endless => Some(RetryLimit::Endless),
            RetryLimit::Limited(0) => None,
            RetryLimit::Limited(n) => Some(RetryLimit::Limited(n.wrapping_sub(1))),
        }
    }
}

/// Rights of a peer, as a set of `enum ib_access_flags` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessFlags(pub u32);

impl AccessFlags {
    /// No rights.
    pub const NONE: Self = Self(0);
    /// `IB_ACCESS_REMOTE_WRITE`.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// `IB_ACCESS_REMOTE_READ`.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// `IB_ACCESS_REMOTE_ATOMIC`.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// `IB_ACCESS_FLUSH_GLOBAL`.
    pub const FLUSH_GLOBAL: Self = Self(1 << 8);
    /// `IB_ACCESS_FLUSH_PERSISTENT`.
    pub const FLUSH_PERSISTENT: Self = Self(1 << 9);

    /// Returns whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Result of a work request; the numbers are those of `enum ib_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WcStatus {
    /// The request succeeded.
    Success = 0,
    /// A message did not fit the local buffers or exceeds the maximum length.
    LocLen = 1,
    /// The queue pair does not support the request, or it was malformed.
    LocQpOp = 2,
    /// A local buffer does not permit the access.
    LocProt = 4,
    /// The queue pair was in the error state.
    WrFlush = 5,
    /// A memory window could not be bound.
    MwBind = 6,
    /// A response did not belong to the request.
    BadResp = 7,
    /// The peer's access to local memory was refused; reported by this receive request.
    LocAccess = 8,
    /// The peer reported the request as invalid.
    RemInvReq = 9,
    /// The peer refused the access.
    RemAccess = 10,
    /// The peer failed to execute the request.
    RemOp = 11,
    /// The peer did not respond within the permitted retries.
    RetryExc = 12,
    /// The peer was not ready within the permitted retries.
    RnrRetryExc = 13,
}

impl WcStatus {
    /// Returns the number of `enum ib_wc_status`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Operation of a completion; the numbers are those of `enum ib_wc_opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WcOpcode {
    /// `IB_WC_SEND`.
    Send = 0,
    /// `IB_WC_RDMA_WRITE`.
    RdmaWrite = 1,
    /// `IB_WC_RDMA_READ`.
    RdmaRead = 2,
    /// `IB_WC_COMP_SWAP`.
    CompSwap = 3,
    /// `IB_WC_FETCH_ADD`.
    FetchAdd = 4,
    /// `IB_WC_BIND_MW`.
    BindMw = 5,
    /// `IB_WC_LOCAL_INV`.
    LocalInv = 6,
    /// `IB_WC_FLUSH`.
    Flush = 8,
    /// `IB_WC_ATOMIC_WRITE`.
    AtomicWrite = 9,
    /// `IB_WC_REG_MR`; a kernel-only request, so no user sees the number.
    RegMr = 10,
    /// `IB_WC_RECV`.
    Recv = 128,
    /// `IB_WC_RECV_RDMA_WITH_IMM`.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    /// Returns the number of `enum ib_wc_opcode`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}
