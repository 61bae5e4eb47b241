// SPDX-License-Identifier: GPL-2.0

//! Calls that programs make all the time, in the form in which libibverbs makes them: [`Ring`], the
//! doorbell of a send queue, and [`Notify`], a request for a completion event.
//!
//! They are recognised by all of their words at once. A call of any other form, or with a fault in
//! it, is none of these, and goes the usual way.
//!
//! ```text
//!   write    | header 8 | struct ib_uverbs_post_send, without requests 24 |
//!   write    | header 8 | struct ib_uverbs_req_notify_cq 8 |
//!   ioctl    | header 24 | the number of the command 16 | struct ib_uverbs_req_notify_cq 16 |
//! ```

use super::ioctl;
use super::ioctl::ATTRIBUTE;
use super::post::SEND;
use super::write;

/// Words of a [`Ring`] that is written.
pub const RING: usize = 4;
/// Words of a [`Notify`] that is written.
pub const NOTIFY: usize = 2;
/// Words of the attributes of a [`Notify`] that is an ioctl.
pub const ATTRIBUTES: usize = 4;

/// `IB_USER_VERBS_CMD_REQ_NOTIFY_CQ`.
pub const REQ_NOTIFY_CQ: u8 = 23;
/// `IB_USER_VERBS_CMD_POST_SEND`.
pub const POST_SEND: u8 = 28;
/// `UVERBS_OBJECT_DEVICE`.
pub const DEVICE: u16 = 0;
/// `UVERBS_METHOD_INVOKE_WRITE`.
pub const INVOKE_WRITE: u16 = 0;
/// `UVERBS_ATTR_CORE_IN`.
pub const CORE_IN: u16 = 0;
/// `UVERBS_ATTR_WRITE_CMD`.
pub const WRITE_CMD: u16 = 2;

/// The header of a command of so many words, with room for an answer of so many bytes.
fn is_header(word: u64, number: u8, words: usize, answer: u16) -> bool {
    let header = write::Header::parse(word.to_ne_bytes());
    header.command == u32::from(number)
        && usize::from(header.in_words) == words.wrapping_mul(2)
        && header.out_words == answer / 4
}

/// The halves of a word, in the order of memory.
const fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}

/// The command `POST_SEND` without work requests: the driver looks into the queue itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The number of the queue pair.
    pub qp: u32,
    /// The address of the answer, a number of 32 bits.
    pub answer: u64,
}

impl Ring {
    /// Recognises what was written.
    #[inline]
    pub fn written(words: &[u64; RING]) -> Option<Self> {
        let [header, answer, first, second] = *words;
        let (qp, requests) = halves(first);
        let (entries, size) = halves(second);
        // CAST: Lossless on 64 bits.
        let is = is_header(header, POST_SEND, RING, 4)
            && requests == 0
            && entries == 0
            && size as usize >= SEND;
        is.then_some(Self { qp, answer })
    }
}

/// The command `REQ_NOTIFY_CQ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The number of the queue.
    pub cq: u32,
    /// For solicited completions only.
    pub solicited: bool,
}

impl Notify {
    const fn new(request: u64) -> Self {
        let (cq, solicited) = halves(request);
        Self {
            cq,
            solicited: solicited != 0,
        }
    }

    /// Recognises what was written.
    #[inline]
    pub fn written(words: &[u64; NOTIFY]) -> Option<Self> {
        let [header, request] = *words;
        is_header(header, REQ_NOTIFY_CQ, NOTIFY, 0).then(|| Self::new(request))
    }

    /// Whether an ioctl with this header, whose driver was checked, may be one.
    #[inline]
    pub fn has_header(header: &ioctl::Header) -> bool {
        usize::from(header.length) == const { ioctl::HEADER + 2 * ATTRIBUTE }
            && (header.object, header.method) == (DEVICE, INVOKE_WRITE)
            && header.attributes == 2
            && (header.reserved1, header.reserved2) == (0, 0)
    }

    /// Recognises it by the attributes that follow such a header.
    #[inline]
    pub fn invoked(words: &[u64; ATTRIBUTES]) -> Option<Self> {
        let [first, number, second, request] = *words;
        let is = is_inline(first, WRITE_CMD)
            && number == u64::from(REQ_NOTIFY_CQ)
            && is_inline(second, CORE_IN);
        is.then(|| Self::new(request))
    }
}

/// Whether an attribute is this one, with eight bytes in itself. Flags do not matter if it is known.
fn is_inline(word: u64, id: u16) -> bool {
    let [a, b, c, d, _, _, choice, reserved] = word.to_ne_bytes();
    u16::from_ne_bytes([a, b]) == id
        && u16::from_ne_bytes([c, d]) == 8
        && (choice, reserved) == (0, 0)
}
