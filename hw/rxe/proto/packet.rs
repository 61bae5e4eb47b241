// SPDX-License-Identifier: GPL-2.0

//! Received and transmitted packets without their payload.
//!
//! A packet is parsed and its ICRC checked before it becomes an [`RxPacket`]; a [`TxPacket`]
//! contains everything that the host needs to build one.

use crate::wire::Ext;
use crate::wire::Header;
use crate::wire::Opcode;
use crate::wire::Psn;

use super::types::Key;
use super::types::Qpn;

/// A received packet. Its payload stays with the host, which is asked to
/// [scatter](super::host::SendHost::scatter) it while the packet is handled.
#[derive(Clone, Copy, Debug)]
pub struct RxPacket {
    /// Opcode of the packet.
    pub opcode: Opcode,
    /// Packet sequence number.
    pub psn: Psn,
    /// Whether the sender requests an acknowledgment.
    pub ack_req: bool,
    /// Whether the sender requests a solicited event.
    pub solicited: bool,
    /// Extension headers of the opcode.
    pub ext: Ext,
    /// Payload bytes, excluding pad and ICRC.
    pub len: u32,
    /// Segment size in bytes with which the sender splits this message, if it is not the path MTU.
    /// Set for requests; responses use that of their request.
    pub mtu: Option<u32>,
}

impl From<&Header> for RxPacket {
    fn from(header: &Header) -> Self {
        Self {
            opcode: header.bth.opcode,
            psn: header.bth.psn,
            ack_req: header.bth.ack_req,
            solicited: header.bth.solicited,
            ext: header.ext,
            // No datagram is longer; if one were, it would fail every length check.
            len: u32::try_from(header.payload_len).unwrap_or(u32::MAX),
            mtu: None,
        }
    }
}

/// A packet to send.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket {
    /// Opcode of the packet.
    pub opcode: Opcode,
    /// Packet sequence number.
    pub psn: Psn,
    /// Whether to request an acknowledgment.
    pub ack_req: bool,
    /// Whether the peer's completion is to be solicited.
    pub solicited: bool,
    /// Extension headers of the opcode.
    pub ext: Ext,
    /// Payload of the packet.
    pub payload: Payload,
    /// Destination of the packet.
    pub dest: Dest,
    /// Segment size in bytes of its message, or of the request that it answers.
    pub mtu: u32,
}

/// Source of a packet's payload. The host pads it with zeros to a multiple of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// No payload.
    None,
    /// The buffers of the send request in this slot.
    Slot {
        /// Slot number.
        slot: u32,
        /// Offset of the first byte in the message.
        offset: u32,
        /// Length in bytes.
        len: u32,
    },
    /// A region that the peer reads.
    Remote {
        /// Key that the peer presented. It was checked when the request arrived, but the region may
        /// be gone since.
        key: Key,
        /// Address of the first byte.
        va: u64,
        /// Length in bytes.
        len: u32,
    },
    /// Immediate bytes.
    Bytes([u8; 8]),
}

impl Payload {
    /// Returns the length in bytes, without padding.
    #[must_use]
    pub const fn len(&self) -> u32 {
        match *self {
            Payload::None => 0,
            Payload::Slot {
                slot: _,
                offset: _,
                len,
            } => len,
            Payload::Remote { key: _, va: _, len } => len,
            Payload::Bytes(_) => 8,
        }
    }

    /// Returns whether there is no payload.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// The given queue pair, along the queue pair's own path.
    Peer(Qpn),
    /// The address handle of the send request in this slot.
    Datagram {
        /// Slot number.
        slot: u32,
        /// QPN of the receiver.
        qpn: Qpn,
    },
}

impl Dest {
    /// Returns the queue pair number for the BTH.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        match *self {
            Dest::Peer(qpn) => qpn,
            Dest::Datagram { slot: _, qpn } => qpn,
        }
    }
}
