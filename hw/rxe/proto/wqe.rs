// SPDX-License-Identifier: GPL-2.0

//! Work requests as the engine sees them, and their completions.
//!
//! A request is an owned, validated value: the host has read the user's ring once and keeps
//! scatter-gather entries, inline data, address handles and registration parameters in a private
//! slot. The engine refers to them by slot number only.
//!
//! Mirrors `struct rxe_send_wr` of `include/uapi/rdma/rdma_user_rxe.h` and
//! `struct ib_wc` of `include/rdma/ib_verbs.h`.

use super::types::Key;
use super::types::Qpn;
use super::types::WcOpcode;
use super::types::WcStatus;

/// Flags of a send request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Whether success also generates a completion. The host sets it for every request of a queue
    /// pair created with `IB_SIGNAL_ALL_WR`.
    pub signaled: bool,
    /// Whether the peer's completion is to be solicited.
    pub solicited: bool,
    /// Whether to wait until all earlier reads and atomics are complete (IBTA 10.8.3.3).
    pub fence: bool,
}

/// Destination of a datagram. The host knows its path by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdDest {
    /// QPN of the receiver.
    pub qpn: Qpn,
    /// Q_Key to present.
    pub qkey: u32,
}

/// Operation of a send request. Addresses and keys of the peer are not validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// Send, optionally with immediate data.
    Send {
        /// Immediate data in wire order.
        imm: Option<[u8; 4]>,
    },
    /// Send, and invalidate one of the peer's keys.
    SendInv {
        /// Key of the peer.
        key: Key,
    },
    /// RDMA write, optionally with immediate data.
    Write {
        /// Address of the first byte at the peer.
        va: u64,
        /// Key of the peer.
        key: Key,
        /// Immediate data in wire order.
        imm: Option<[u8; 4]>,
    },
    /// RDMA read.
    Read {
        /// Address of the first byte at the peer.
        va: u64,
        /// Key of the peer.
        key: Key,
    },
    /// Compare and swap.
    CompareSwap {
        /// Address of eight aligned bytes at the peer.
        va: u64,
        /// Key of the peer.
        key: Key,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Fetch and add.
    FetchAdd {
        /// Address of eight aligned bytes at the peer.
        va: u64,
        /// Key of the peer.
        key: Key,
        /// The addend.
        add: u64,
    },
    /// Write eight bytes atomically.
    AtomicWrite {
        /// Address of eight aligned bytes at the peer.
        va: u64,
        /// Key of the peer.
        key: Key,
        /// The bytes, in memory order.
        value: [u8; 8],
    },
    /// Make earlier writes visible or persistent.
    Flush {
        /// Address of the first byte at the peer.
        va: u64,
        /// Key of the peer.
        key: Key,
        /// Length in bytes.
        length: u32,
        /// Placement type, four bits of the FETH (`IB_FLUSH_GLOBAL`, `IB_FLUSH_PERSISTENT`).
        kind: u8,
        /// Selectivity, two bits of the FETH (0: a range, 1: the whole region).
        level: u8,
    },
    /// Invalidate a local key.
    LocalInv {
        /// The key.
        key: Key,
    },
    /// Register a fast-registration region; parameters by slot.
    RegMr,
    /// Bind a memory window; parameters by slot.
    BindMw,
}

impl SendOp {
    /// Returns the opcode of its completion.
    #[must_use]
    pub const fn wc_opcode(&self) -> WcOpcode {
        match self {
            SendOp::Send { imm: _ } | SendOp::SendInv { key: _ } => WcOpcode::Send,
            SendOp::Write { .. } => WcOpcode::RdmaWrite,
            SendOp::Read { .. } => WcOpcode::RdmaRead,
            SendOp::CompareSwap { .. } => WcOpcode::CompSwap,
            SendOp::FetchAdd { .. } => WcOpcode::FetchAdd,
            SendOp::AtomicWrite { .. } => WcOpcode::AtomicWrite,
            SendOp::Flush { .. } => WcOpcode::Flush,
            SendOp::LocalInv { key: _ } => WcOpcode::LocalInv,
            SendOp::RegMr => WcOpcode::RegMr,
            SendOp::BindMw => WcOpcode::BindMw,
        }
    }

    /// Returns whether it carries immediate data.
    #[must_use]
    pub const fn has_imm(&self) -> bool {
        match self {
            SendOp::Send { imm } | SendOp::Write { va: _, key: _, imm } => imm.is_some(),
            SendOp::SendInv { .. }
            | SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. }
            | SendOp::LocalInv { .. }
            | SendOp::RegMr
            | SendOp::BindMw => false,
        }
    }

    /// Returns whether it is a local operation, without packets.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        match self {
            SendOp::LocalInv { .. } | SendOp::RegMr | SendOp::BindMw => true,
            SendOp::Send { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. } => false,
        }
    }

    /// Returns whether the peer must send an individual response; an acknowledgment of a later
    /// packet does not replace it.
    #[must_use]
    pub const fn wants_response(&self) -> bool {
        match self {
            SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. } => true,
            SendOp::Send { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::LocalInv { .. }
            | SendOp::RegMr
            | SendOp::BindMw => false,
        }
    }
}

/// A send request, copied and validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWqe {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Flags of the request.
    pub flags: SendFlags,
    /// Total length of its local buffers in bytes: the data sent, or received by a read. 8 for
    /// atomics. At most [`super::types::MAX_MESSAGE`].
    pub length: u32,
    /// Destination, on a datagram queue pair; otherwise `None`.
    pub ud: Option<UdDest>,
}

/// Completion of a send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendCompletion {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// Status of the request.
    pub status: WcStatus,
    /// Operation of the request. Valid only on success.
    pub opcode: WcOpcode,
    /// Number of bytes transferred. Valid only on success.
    pub byte_len: u32,
    /// Whether it carried immediate data (the C driver sets `IB_WC_WITH_IMM` then).
    pub with_imm: bool,
}

/// A receive request, taken off the ring. Its buffers stay with the host, which holds one such
/// request per queue pair at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// Total length of its buffers in bytes.
    pub capacity: u32,
}

/// Completion of a receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// Status of the request. On error, of the fields below only `solicited` is valid.
    pub status: WcStatus,
    /// `Recv` or `RecvRdmaWithImm`.
    pub opcode: WcOpcode,
    /// Bytes received; on datagram queue pairs including the 40 of the GRH.
    pub byte_len: u32,
    /// Immediate data in wire order.
    pub imm: Option<[u8; 4]>,
    /// Local key that the peer invalidated.
    pub invalidated: Option<Key>,
    /// QPN of the sender, on datagram queue pairs.
    pub src_qpn: Option<Qpn>,
    /// Whether it notifies consumers that wait for solicited completions. Set for errors.
    pub solicited: bool,
}
