// SPDX-License-Identifier: GPL-2.0

//! Packets on their way in and out, without their bytes.
//!
//! A received packet has been parsed and its ICRC checked before it becomes an
//! [`RxPacket`]; a [`TxPacket`] says everything the host needs to write one.

use crate::wire::Ext;
use crate::wire::Header;
use crate::wire::Opcode;
use crate::wire::Psn;

use super::types::Key;
use super::types::Qpn;

/// A packet that arrived. Its payload stays with the host, which is asked to
/// [scatter](super::host::SendHost::scatter) it while the packet is handled.
#[derive(Clone, Copy, Debug)]
pub struct RxPacket {
    /// What it is.
    pub opcode: Opcode,
    /// Its sequence number.
    pub psn: Psn,
    /// The sender wants an acknowledgement.
    pub ack_req: bool,
    /// The sender wants a solicited event.
    pub solicited: bool,
    /// The extension headers of its opcode.
    pub ext: Ext,
    /// Payload bytes, pad and ICRC not counted.
    pub len: u32,
    /// Into pieces of how many bytes its sender cuts this message, if that is not
    /// the path MTU. Of a request; responses are as their request was.
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
    /// What it is.
    pub opcode: Opcode,
    /// Its sequence number.
    pub psn: Psn,
    /// An acknowledgement is wanted.
    pub ack_req: bool,
    /// The peer's completion shall count as solicited.
    pub solicited: bool,
    /// The extension headers of its opcode.
    pub ext: Ext,
    /// What it carries.
    pub payload: Payload,
    /// Where it goes.
    pub dest: Dest,
    /// Into pieces of how many bytes its message is cut, or the message it answers.
    pub mtu: u32,
}

/// Where the bytes of a packet come from. The host pads to four with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There are none.
    None,
    /// From the buffers of the send request in this slot.
    Slot {
        /// The slot.
        slot: u32,
        /// First byte, counted from the start of the message.
        offset: u32,
        /// How many bytes.
        len: u32,
    },
    /// From a region that the peer reads.
    Remote {
        /// The peer alleged this key, and it was checked when the request came. The
        /// region may be gone since.
        key: Key,
        /// First byte.
        va: u64,
        /// How many bytes.
        len: u32,
    },
    /// These bytes.
    Bytes([u8; 8]),
}

impl Payload {
    /// How many bytes, without padding.
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

    /// Whether there is nothing to carry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// Along the queue pair's own path, to this queue pair.
    Peer(Qpn),
    /// Along the address handle of the send request in this slot.
    Datagram {
        /// The slot.
        slot: u32,
        /// The receiving queue pair.
        qpn: Qpn,
    },
}

impl Dest {
    /// The queue pair number for the BTH.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        match *self {
            Dest::Peer(qpn) => qpn,
            Dest::Datagram { slot: _, qpn } => qpn,
        }
    }
}
