// SPDX-License-Identifier: GPL-2.0

//! Work requests as the engine sees them, and the completions that answer them.
//!
//! A request is an owned, checked value: the host read the user's ring once and
//! keeps scatter-gather entries, inline data, address handles and registration
//! parameters in a private slot of its own. The engine only names that slot.
//!
//! Mirrors `struct rxe_send_wr` of `include/uapi/rdma/rdma_user_rxe.h` and
//! `struct ib_wc` of `include/rdma/ib_verbs.h`.

use super::types::Key;
use super::types::Qpn;
use super::types::WcOpcode;
use super::types::WcStatus;

/// The flags of a send request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// A completion is wanted on success too. The host also sets it for every
    /// request of a queue pair created with `IB_SIGNAL_ALL_WR`.
    pub signaled: bool,
    /// The peer's completion shall count as solicited.
    pub solicited: bool,
    /// Wait until all earlier reads and atomics are complete (IBTA 10.8.3.3).
    pub fence: bool,
}

/// Where a datagram goes. Its path is the host's business, by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdDest {
    /// The queue pair that shall receive it.
    pub qpn: Qpn,
    /// The Q_Key to present.
    pub qkey: u32,
}

/// What a send request asks for. Addresses and keys are the peer's, as alleged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// Send, with immediate data if there is any.
    Send {
        /// Immediate data in wire order.
        imm: Option<[u8; 4]>,
    },
    /// Send, and make the peer invalidate one of its keys.
    SendInv {
        /// The peer's key.
        key: Key,
    },
    /// RDMA write, with immediate data if there is any.
    Write {
        /// First byte at the peer.
        va: u64,
        /// The peer's key.
        key: Key,
        /// Immediate data in wire order.
        imm: Option<[u8; 4]>,
    },
    /// RDMA read.
    Read {
        /// First byte at the peer.
        va: u64,
        /// The peer's key.
        key: Key,
    },
    /// Compare, and swap if equal.
    CompareSwap {
        /// Eight aligned bytes at the peer.
        va: u64,
        /// The peer's key.
        key: Key,
        /// What must be there.
        compare: u64,
        /// What is then put there.
        swap: u64,
    },
    /// Add, and return what was there before.
    FetchAdd {
        /// Eight aligned bytes at the peer.
        va: u64,
        /// The peer's key.
        key: Key,
        /// The addend.
        add: u64,
    },
    /// Write eight bytes at once.
    AtomicWrite {
        /// Eight aligned bytes at the peer.
        va: u64,
        /// The peer's key.
        key: Key,
        /// The bytes, in memory order.
        value: [u8; 8],
    },
    /// Make earlier writes visible or persistent.
    Flush {
        /// First byte at the peer.
        va: u64,
        /// The peer's key.
        key: Key,
        /// How many bytes.
        length: u32,
        /// Placement type, four bits of the FETH (`IB_FLUSH_GLOBAL`, `_PERSISTENT`).
        kind: u8,
        /// Selectivity, two bits of the FETH (0 a range, 1 the whole region).
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
    /// What its completion is called.
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

    /// Whether it carries immediate data.
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

    /// Whether it takes effect here, without a packet.
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

    /// Whether the peer answers it with a response of its own, which an
    /// acknowledgement of a later packet does not stand for.
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

/// A send request, copied and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWqe {
    /// The user's name for it.
    pub wr_id: u64,
    /// What it asks for.
    pub op: SendOp,
    /// How it asks.
    pub flags: SendFlags,
    /// The sum of its local buffers in bytes: what is sent, or received by a read.
    /// Atomics have 8 here. At most [`super::types::MAX_MESSAGE`].
    pub length: u32,
    /// Where it goes, on a datagram queue pair; otherwise `None`.
    pub ud: Option<UdDest>,
}

/// What a finished send request leaves on the completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendCompletion {
    /// The user's name for the request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was. Only meaningful on success.
    pub opcode: WcOpcode,
    /// How many bytes it moved. Only meaningful on success.
    pub byte_len: u32,
    /// Whether it carried immediate data (C sets `IB_WC_WITH_IMM` then).
    pub with_imm: bool,
}

/// A receive request, taken off the ring. Its buffers stay with the host, which
/// holds one such request per queue pair at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// The user's name for it.
    pub wr_id: u64,
    /// The sum of its buffers in bytes.
    pub capacity: u32,
}

/// What a finished receive request leaves on the completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvCompletion {
    /// The user's name for the request.
    pub wr_id: u64,
    /// How it ended. Of an error, nothing below is meaningful but `solicited`.
    pub status: WcStatus,
    /// `Recv` or `RecvRdmaWithImm`.
    pub opcode: WcOpcode,
    /// Bytes received; on datagram queue pairs with the 40 of the GRH area.
    pub byte_len: u32,
    /// Immediate data in wire order.
    pub imm: Option<[u8; 4]>,
    /// The local key that the peer made us invalidate.
    pub invalidated: Option<Key>,
    /// Who sent it, on datagram queue pairs.
    pub src_qpn: Option<Qpn>,
    /// Whether a waiter for solicited completions shall wake. Errors always do.
    pub solicited: bool,
}
