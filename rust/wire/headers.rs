// SPDX-License-Identifier: GPL-2.0

//! Transport headers: each a small plain value of native integers.
//!
//! Their bytes on the wire are in `bytes.rs`. Reserved bits are ignored when read
//! and zero when written, and a field that is narrower on the wire than here is
//! cut to its width when written.
//!
//! Source: IBTA volume 1, 8.3 (GRH) and 9.2 to 9.3 (BTH and extension headers);
//! annexes A14 (XRCETH), A17 (CNP), A19 (FETH).

use super::bytes::{Reader, Writer};
use super::opcode::Opcode;
use super::psn::{Msn, Psn};
use super::timer::RnrTimer;

/// Queue pair, SRQ and similar numbers use 24 bits.
pub const QPN_MASK: u32 = 0x00ff_ffff;

/// Reserved bytes that follow the BTH of a congestion notification packet.
pub const CNP_RESERVED_LEN: usize = 16;

/// Base transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event: the receiver wakes a consumer that asked for these only.
    pub solicited: bool,
    /// Migration state bit.
    pub migrated: bool,
    /// Bytes (0 to 3) added behind the payload to fill a multiple of four; see
    /// [`pad_len`](super::packet::pad_len).
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// Destination queue pair, 24 bits.
    pub dest_qpn: u32,
    /// The sender wants an acknowledge for this packet.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// The partition key that RoCE uses when nothing else is configured.
    pub const DEFAULT_PKEY: u16 = 0xffff;

    /// A header with no flag set, no pad and the default partition key.
    #[inline]
    pub const fn new(opcode: Opcode, dest_qpn: u32, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migrated: false,
            pad: 0,
            pkey: Self::DEFAULT_PKEY,
            fecn: false,
            becn: false,
            dest_qpn: dest_qpn & QPN_MASK,
            ack_req: false,
            psn,
        }
    }
}

/// RDMA extended transport header: a range of the responder's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// Virtual address, in the key's address space.
    pub va: u64,
    /// Key that grants access.
    pub rkey: u32,
    /// Length in bytes of the whole message.
    pub length: u32,
}

/// Atomic extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicEth {
    /// Virtual address of eight bytes, in the key's address space.
    pub va: u64,
    /// Key that grants access.
    pub rkey: u32,
    /// Value to store (compare and swap) or to add (fetch and add).
    pub swap_or_add: u64,
    /// Value to compare with; not used by fetch and add.
    pub compare: u64,
}

/// Atomic acknowledge extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicAckEth {
    /// The value that the memory held before the operation.
    pub original: u64,
}

/// Why a responder refuses a request (IBTA 9.7.5.2, table "NAK codes").
/// Code 4 belongs to reliable datagrams and the rest is reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NakCode {
    /// A packet is missing before this one.
    PsnSequence,
    /// The request is not legal here.
    InvalidRequest,
    /// The key or range does not permit the access.
    RemoteAccess,
    /// The responder failed while carrying the request out.
    RemoteOperation,
}

/// What an acknowledge says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AethSyndrome {
    /// All up to the PSN is done.
    Ack {
        /// Coded end-to-end credit, five bits; see [`AethSyndrome::UNLIMITED`].
        credit: u8,
    },
    /// No receive buffer: try again after this time.
    Rnr(RnrTimer),
    /// Refused.
    Nak(NakCode),
}

impl AethSyndrome {
    /// Credit code that means "no end-to-end flow control".
    pub const UNLIMITED: u8 = 31;

    /// An acknowledge without flow control, the only kind that RoCE senders make.
    pub const ACK: Self = Self::Ack {
        credit: Self::UNLIMITED,
    };

    /// Reads the syndrome byte; `None` when its code is reserved.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        let value = byte & 0x1f;
        // Bit 7 is reserved and, as such, ignored; bits 6 and 5 are the kind.
        match (byte >> 5) & 0x3 {
            0b00 => Some(Self::Ack { credit: value }),
            0b01 => Some(Self::Rnr(RnrTimer::new(value))),
            0b11 => match value {
                0 => Some(Self::Nak(NakCode::PsnSequence)),
                1 => Some(Self::Nak(NakCode::InvalidRequest)),
                2 => Some(Self::Nak(NakCode::RemoteAccess)),
                3 => Some(Self::Nak(NakCode::RemoteOperation)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The syndrome byte.
    #[inline]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credit } => credit & 0x1f,
            Self::Rnr(timer) => 0x20 | timer.code(),
            Self::Nak(NakCode::PsnSequence) => 0x60,
            Self::Nak(NakCode::InvalidRequest) => 0x61,
            Self::Nak(NakCode::RemoteAccess) => 0x62,
            Self::Nak(NakCode::RemoteOperation) => 0x63,
        }
    }
}

/// ACK extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// What the acknowledge says.
    pub syndrome: AethSyndrome,
    /// Messages that the responder has completed.
    pub msn: Msn,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deth {
    /// Key that must equal the receiving queue pair's.
    pub qkey: u32,
    /// The sender's queue pair, 24 bits.
    pub src_qpn: u32,
}

/// Immediate data: four bytes passed on as they are, in wire order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImmDt(pub [u8; 4]);

/// Invalidate extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ieth {
    /// The key that the receiver invalidates.
    pub rkey: u32,
}

/// Flush extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feth {
    /// Placement wanted: bits [`Feth::GLOBAL`] and [`Feth::PERSISTENT`] of four;
    /// the others are reserved.
    pub placement: u8,
    /// Selectivity, two bits: [`Feth::RANGE`], [`Feth::REGION`] or reserved.
    pub selectivity: u8,
}

impl Feth {
    /// Placement: visible to every observer of the memory.
    pub const GLOBAL: u8 = 1;
    /// Placement: survives loss of power.
    pub const PERSISTENT: u8 = 2;
    /// Selectivity: the range in the RETH.
    pub const RANGE: u8 = 0;
    /// Selectivity: the whole memory region of the key.
    pub const REGION: u8 = 1;
}

/// XRC extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XrcEth {
    /// Shared receive queue that the request is meant for, 24 bits.
    pub srqn: u32,
}

/// Global route header. It has the layout of an IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grh {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes that follow the GRH, ICRC included.
    pub payload_len: u16,
    /// What follows: 0x1b means an IBA transport header.
    pub next_header: u8,
    /// Routers that the packet may still pass.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: [u8; 16],
    /// Destination GID.
    pub dgid: [u8; 16],
}

impl Grh {
    /// Reads a GRH from the first 40 bytes of `bytes`; `None` when there are
    /// fewer or the version is not 6.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Reader::new(bytes).take().ok()
    }

    /// Writes the GRH to the first 40 bytes of `buf`; `None` when there are fewer.
    #[must_use = "a buffer that is too short is not written to"]
    pub fn write(&self, buf: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(buf);
        writer.put(self)?;
        Some(writer.written())
    }
}

macro_rules! lengths {
    ($($name:ident: $len:literal,)*) => {
        $(impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;
        })*
    };
}

lengths! {
    Bth: 12, Reth: 16, AtomicEth: 28, AtomicAckEth: 8, Aeth: 4, Deth: 8,
    ImmDt: 4, Ieth: 4, Feth: 4, XrcEth: 4, Grh: 40,
}
