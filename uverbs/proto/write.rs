// SPDX-License-Identifier: GPL-2.0

//! The headers of a command that a program writes, and where its parts are.
//!
//! ```text
//!   plain     | header 8 |         core request | driver request |
//!   extended  | header 8 | ext. 16 | core request | driver request |
//! ```
//!
//! An extended header has the address of the answer; of a plain command the request begins with it.

use super::Refusal;

/// Bytes of a [`Header`].
pub const HEADER: usize = 8;
/// Bytes of an [`ExtendedHeader`], which follows.
pub const EXTENDED_HEADER: usize = 16;

/// Bit of extended commands.
const EXTENDED: u32 = 1 << 31;
/// Bits of the number.
const NUMBER: u32 = 0xff;
/// `IB_USER_VERBS_CMD_DESTROY_CQ`.
const DESTROY_CQ: u32 = 20;

/// The number of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Of a plain one.
    Plain(u8),
    /// Of an extended one.
    Extended(u8),
}

/// What is known of a command (`struct uverbs_api_write_method`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// It has an extended header.
    pub is_extended: bool,
    /// Bytes of the core's request.
    pub request: u8,
    /// Bytes of the core's answer.
    pub response: u8,
    /// It has an answer, for whose address the request begins.
    pub has_response: bool,
    /// What is beyond the core's request and answer is the driver's.
    pub has_udata: bool,
}

impl Command {
    /// In place of a command that a device does not have, below the highest that it has. As with
    /// the C module, its header is checked as that of a plain command, also if its number is that
    /// of an extended one.
    pub const UNKNOWN: Self = Self {
        is_extended: false,
        request: 0,
        response: 0,
        has_response: false,
        has_udata: false,
    };
}

/// `struct ib_uverbs_cmd_hdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number, with a bit for extended commands.
    pub command: u32,
    /// Length of the request, header included, in words of 4 bytes. Extended: of the core's
    /// request, in words of 8 bytes.
    pub in_words: u16,
    /// Room for the answer, in the same words.
    pub out_words: u16,
}

impl Header {
    /// Reads it.
    pub const fn parse([a, b, c, d, e, f, g, h]: [u8; HEADER]) -> Self {
        Self {
            command: u32::from_ne_bytes([a, b, c, d]),
            in_words: u16::from_ne_bytes([e, f]),
            out_words: u16::from_ne_bytes([g, h]),
        }
    }

    /// The number.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`]: there are other bits.
    pub const fn number(&self) -> Result<Number, Refusal> {
        if self.command & !(EXTENDED | NUMBER) != 0 {
            return Err(Refusal::Invalid);
        }
        // CAST: The low eight bits.
        let number = self.command as u8;
        Ok(if self.command & EXTENDED != 0 {
            Number::Extended(number)
        } else {
            Number::Plain(number)
        })
    }
}

/// `struct ib_uverbs_ex_cmd_hdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedHeader {
    /// The address of the answer; 0 for none.
    pub response: u64,
    /// Length of the driver's request, in words of 8 bytes.
    pub provider_in_words: u16,
    /// Room for the driver's answer, in words of 8 bytes.
    pub provider_out_words: u16,
    /// Must be 0.
    pub reserved: u32,
}

impl ExtendedHeader {
    /// Reads it.
    pub const fn parse(bytes: [u8; EXTENDED_HEADER]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            response: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            provider_in_words: u16::from_ne_bytes([i, j]),
            provider_out_words: u16::from_ne_bytes([k, l]),
            reserved: u32::from_ne_bytes([m, n, o, p]),
        }
    }
}

/// A part of a request or answer. One of no length has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes from the begin.
    pub at: usize,
    /// Bytes.
    pub len: usize,
}

/// Where a command's answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has none.
    None,
    /// To the address in the first eight bytes of the core's request.
    InRequest,
    /// To this address.
    At(u64),
}

/// The parts of a command. Lengths are at most those that the program gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The core's request, in what was written.
    pub core_in: Span,
    /// The driver's request.
    pub driver_in: Span,
    /// Where the answer goes.
    pub answer: Answer,
    /// The core's part of the answer.
    pub core_out: Span,
    /// The driver's part of the answer.
    pub driver_out: Span,
}

/// Words as bytes.
const fn bytes(words: u16, size: usize) -> usize {
    // In range: less than 2^19.
    (words as usize).wrapping_mul(size)
}

/// Checks a plain command of which `count` bytes were written.
///
/// # Errors
///
/// [`Refusal::Invalid`]: the header has another length; [`Refusal::NoSpace`]: request or answer are
/// too short.
pub fn plain(header: &Header, count: usize, command: &Command) -> Result<Layout, Refusal> {
    let mut len = bytes(header.in_words, 4);
    let request = usize::from(command.request);
    if len != count {
        return Err(Refusal::Invalid);
    }
    let fits = |len: usize| len.checked_sub(HEADER).filter(|rest| *rest >= request);
    let room = bytes(header.out_words, 4);
    let response = usize::from(command.response);
    let rest = match fits(len) {
        Some(rest) => {
            if room < response {
                return Err(Refusal::NoSpace);
            }
            rest
        }
        // rdma-core 18 and 19 write 16 of the 24 bytes. What follows in their memory is read, and
        // the answer's length is not checked.
        None if header.command == DESTROY_CQ && count == 16 => {
            len = 24;
            fits(len).ok_or(Refusal::NoSpace)?
        }
        None => return Err(Refusal::NoSpace),
    };
    let (core_in, driver_in) = match command.has_udata {
        true => (request, rest.saturating_sub(request)),
        false => (rest, 0),
    };
    let (core_out, driver_out) = match (command.has_udata, command.has_response) {
        (true, true) => (room.min(response), room.saturating_sub(response)),
        _ => (room, 0),
    };
    Ok(Layout {
        core_in: Span {
            at: HEADER,
            len: core_in,
        },
        driver_in: Span {
            at: HEADER.saturating_add(core_in),
            len: driver_in,
        },
        answer: if command.has_response {
            Answer::InRequest
        } else {
            Answer::None
        },
        core_out: Span {
            at: 0,
            len: core_out,
        },
        driver_out: Span {
            at: core_out,
            len: driver_out,
        },
    })
}

/// Checks an extended command of which `count` bytes were written, at least both headers.
/// `writable` tells whether a user address with so many bytes may be written to.
///
/// # Errors
///
/// [`Refusal::Invalid`]: lengths that do not agree, a reserved field that is not 0, an address
/// without room or room without an address; [`Refusal::NoSpace`]: request or answer are too short;
/// [`Refusal::Fault`].
pub fn extended(
    header: &Header,
    more: &ExtendedHeader,
    count: usize,
    command: &Command,
    writable: impl FnOnce(u64, usize) -> bool,
) -> Result<Layout, Refusal> {
    let headers = HEADER.saturating_add(EXTENDED_HEADER);
    let core_in = bytes(header.in_words, 8);
    let driver_in = bytes(more.provider_in_words, 8);
    let core_out = bytes(header.out_words, 8);
    let driver_out = bytes(more.provider_out_words, 8);
    if count.checked_sub(headers) != core_in.checked_add(driver_in) {
        return Err(Refusal::Invalid);
    }
    if core_in < usize::from(command.request) {
        return Err(Refusal::NoSpace);
    }
    if more.reserved != 0 {
        return Err(Refusal::Invalid);
    }
    let room = core_out.saturating_add(driver_out);
    if (more.response != 0) != (room != 0) {
        return Err(Refusal::Invalid);
    }
    if more.response != 0 {
        if core_out < usize::from(command.response) {
            return Err(Refusal::NoSpace);
        }
        if !writable(more.response, room) {
            return Err(Refusal::Fault);
        }
    }
    Ok(Layout {
        core_in: Span {
            at: headers,
            len: core_in,
        },
        driver_in: Span {
            at: headers.saturating_add(core_in),
            len: driver_in,
        },
        answer: if more.response == 0 {
            Answer::None
        } else {
            Answer::At(more.response)
        },
        core_out: Span {
            at: 0,
            len: core_out,
        },
        driver_out: Span {
            at: core_out,
            len: driver_out,
        },
    })
}
