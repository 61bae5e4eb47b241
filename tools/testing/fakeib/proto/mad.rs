// SPDX-License-Identifier: GPL-2.0

//! The head of a management datagram, and what is common to all answers (IBA 13.4, 14.2.1).

use super::fields::Fields;

/// Length of a management datagram.
pub const LEN: usize = 256;
/// A management datagram.
pub type Mad = [u8; LEN];

/// Where fields are, in bytes.
pub mod at {
    /// The class.
    pub const CLASS: usize = 1;
    /// Version of the class.
    pub const CLASS_VERSION: usize = 2;
    /// The method.
    pub const METHOD: usize = 3;
    /// Status, whose top bit tells the direction of a directed-route datagram.
    pub const STATUS: usize = 4;
    /// Place on the path, of directed-route datagrams.
    pub const HOP_POINTER: usize = 6;
    /// Length of the path.
    pub const HOP_COUNT: usize = 7;
    /// Transaction, chosen by who asks.
    pub const TRANSACTION: usize = 8;
    /// The attribute.
    pub const ATTRIBUTE: usize = 16;
    /// Which part of the attribute.
    pub const MODIFIER: usize = 20;
    /// M_Key, of subnet management.
    pub const MKEY: usize = 24;
    /// Where the directed part of the path began.
    pub const DR_SLID: usize = 32;
    /// Where it ends.
    pub const DR_DLID: usize = 34;
    /// The attribute's data, of 64 bytes in subnet management.
    pub const DATA: usize = 64;
    /// Ports to leave by.
    pub const INITIAL_PATH: usize = 128;
    /// Ports that it came in by.
    pub const RETURN_PATH: usize = 192;
}

/// Bytes of an attribute of subnet management.
pub const SMP_DATA: usize = 64;
/// Longest path.
pub const MAX_HOPS: u8 = 63;
/// The LID that stands for none, and for all.
pub const PERMISSIVE: u16 = 0xffff;
/// Queue key of management datagrams (IBA 10.2.5).
pub const GSI_QKEY: u32 = 0x8001_0000;

/// Subnet management, routed by LIDs.
pub const CLASS_LID: u8 = 0x01;
/// Subnet management, routed by the datagram itself.
pub const CLASS_DIRECTED: u8 = 0x81;
/// Performance management.
pub const CLASS_PERF: u8 = 0x04;

/// A question.
pub const GET: u8 = 0x01;
/// A change.
pub const SET: u8 = 0x02;
/// Tells the manager of something.
pub const TRAP: u8 = 0x05;
/// The manager has heard.
pub const TRAP_REPRESS: u8 = 0x07;
/// The answer to both.
pub const GET_RESP: u8 = 0x81;

/// Status of an answer (IBA 13.4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Done.
    Good = 0,
    /// Of a version that we do not know.
    BadVersion = 1 << 2,
    /// No such method.
    BadMethod = 2 << 2,
    /// No such attribute, or not with this method.
    BadAttribute = 3 << 2,
    /// A value that cannot be.
    BadField = 7 << 2,
}

/// Top bit of the status: it is on its way back.
pub const RETURNING: u16 = 0x8000;

/// What becomes of a datagram that was handed to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is now its own answer, to be sent back.
    Reply,
    /// It was taken, and there is nothing to send.
    Taken,
    /// It is for others on this node.
    Others,
}

/// Whether a path's datagram is on its way back.
pub fn is_returning(mad: &Mad) -> bool {
    mad.u16(at::STATUS) & RETURNING != 0
}

/// Makes a request its answer, with a status.
pub fn into_answer(mad: &mut Mad, status: Status) {
    mad.put_u8(at::METHOD, GET_RESP);
    // CAST: the enum is `repr(u16)`.
    let mut word = status as u16;
    if mad.u8(at::CLASS) == CLASS_DIRECTED {
        word |= RETURNING;
    }
    mad.put_u16(at::STATUS, word);
}

/// The data of a subnet management attribute.
pub fn data(mad: &Mad) -> [u8; SMP_DATA] {
    mad.bytes(at::DATA)
}
