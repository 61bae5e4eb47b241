// SPDX-License-Identifier: GPL-2.0

//! Work requests that a program posts by a write command.
//!
//! ```text
//!   command | work requests, each of the size that the command says | all their scatter entries
//! ```
//!
//! Specification: `struct ib_uverbs_post_send`, `struct ib_uverbs_send_wr`,
//! `struct ib_uverbs_recv_wr`, `struct ib_uverbs_sge` of `include/uapi/rdma/ib_user_verbs.h`.

use super::Refusal;

/// The number at an offset of bytes that have it.
macro_rules! number {
    ($bytes:expr, $at:expr, $t:ty) => {{
        const AT: usize = $at;
        const LEN: usize = size_of::<$t>();
        let mut number = [0; LEN];
        for (to, from) in number.iter_mut().zip($bytes.iter().skip(AT)) {
            *to = *from;
        }
        <$t>::from_ne_bytes(number)
    }};
}

/// Bytes of a scatter entry.
pub const SGE: usize = 16;
/// Bytes of a work request to send that this kernel knows; a program's may be longer.
pub const SEND: usize = 56;
/// Bytes of a work request to receive.
pub const RECV: usize = 16;
/// A request with so many scatter entries is one that no memory is allocated for.
const ENTRIES: u32 = u32::MAX / 16 - 8;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a send queue.
    Send,
    /// To a receive queue.
    Recv,
}

impl Way {
    const fn size(self) -> usize {
        match self {
            Self::Send => SEND,
            Self::Recv => RECV,
        }
    }
}

/// Where the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a work request.
    pub size: usize,
    /// Bytes of all of them; they begin where the command ends.
    pub requests: usize,
    /// Number of scatter entries, which follow.
    pub entries: u32,
    /// Bytes from the begin of the work requests to the end of the entries; what is behind must be
    /// 0.
    pub end: usize,
}

/// Finds the parts in the `room` bytes behind a command of `count` work requests of `size` bytes, and
/// so many scatter entries. `cleared` tells whether all bytes from a place on are 0; it is asked if
/// there are any.
///
/// # Errors
///
/// [`Refusal::NoSpace`]: there is less; [`Refusal::NotSupported`]: there is more, and not zeros;
/// [`Refusal::Invalid`]: a work request is too short. Of several faults, to send the size is looked
/// at last, to receive it is looked at first.
pub fn layout(
    way: Way,
    (count, size, entries): (u32, u32, u32),
    room: usize,
    cleared: impl FnOnce(usize) -> bool,
) -> Result<Layout, Refusal> {
    // CAST: Lossless on 64 bits.
    let (count, size) = (count as usize, size as usize);
    let short = size < way.size();
    if short && way == Way::Recv {
        return Err(Refusal::Invalid);
    }
    let requests = size.checked_mul(count).filter(|bytes| *bytes <= room);
    let requests = requests.ok_or(Refusal::NoSpace)?;
    // CAST: Lossless on 64 bits.
    let end = (entries as usize)
        .checked_mul(SGE)
        .and_then(|bytes| bytes.checked_add(requests))
        .filter(|end| *end <= room)
        .ok_or(Refusal::NoSpace)?;
    if end < room && !cleared(end) {
        return Err(Refusal::NotSupported);
    }
    if short {
        return Err(Refusal::Invalid);
    }
    Ok(Layout {
        size,
        requests,
        entries,
        end,
    })
}

/// The scatter entries that the work requests have taken so far.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    taken: u32,
    of: u32,
}

impl Entries {
    /// None of these.
    pub const fn new(layout: &Layout) -> Self {
        Self {
            taken: 0,
            of: layout.entries,
        }
    }

    /// How many were taken.
    pub const fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether so many more are there, without those that no memory could be allocated for.
    ///
    /// # Errors
    ///
    /// [`Refusal::Invalid`].
    pub fn check(&self, count: u32) -> Result<(), Refusal> {
        // Counted with 32 bits: more than there can be is found by `take`.
        if count.wrapping_add(self.taken) > self.of {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }

    /// Takes the next ones, and gives the index of the first.
    ///
    /// # Errors
    ///
    /// No memory could be allocated for them: to send [`Refusal::NoMemory`], to receive
    /// [`Refusal::Invalid`]. [`Refusal::Invalid`] as [`check`](Self::check).
    pub fn take(&mut self, way: Way, count: u32) -> Result<u32, Refusal> {
        self.check(count)?;
        if count >= ENTRIES {
            return Err(match way {
                Way::Send => Refusal::NoMemory,
                Way::Recv => Refusal::Invalid,
            });
        }
        let first = self.taken;
        self.taken = first.checked_add(count).ok_or(Refusal::Invalid)?;
        Ok(first)
    }
}

/// What the kernel makes of a work request to send, besides what all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing more.
    Plain,
    /// A remote address and key.
    Rdma,
    /// A remote address and key, and two operands.
    Atomic,
    /// An address handle, a queue pair and a Q_Key.
    Ud,
}

/// What the field `ex` of a work request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// It is not used.
    None,
    /// Immediate data.
    Immediate,
    /// A key to be invalidated.
    Invalidate,
}

/// A work request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// What the completion tells the program.
    pub id: u64,
    /// Number of scatter entries.
    pub entries: u32,
    /// `enum ib_uverbs_wr_opcode`.
    pub opcode: u32,
    /// `enum ib_send_flags`.
    pub flags: u32,
    /// Immediate data, as it is on the wire, or a key: see [`Extra`].
    pub extra: u32,
    /// Remote address, for [`Form::Rdma`] and [`Form::Atomic`].
    pub address: u64,
    /// Remote key, for [`Form::Rdma`].
    pub key: u32,
    /// First operand, for [`Form::Atomic`].
    pub compare_add: u64,
    /// Second operand, for [`Form::Atomic`].
    pub swap: u64,
    /// Remote key, for [`Form::Atomic`].
    pub atomic_key: u32,
    /// Number of the address handle, for [`Form::Ud`].
    pub ah: u32,
    /// Number of the remote queue pair, for [`Form::Ud`].
    pub qpn: u32,
    /// Q_Key, for [`Form::Ud`].
    pub qkey: u32,
}

/// Flags that drivers use among themselves (`IB_SEND_RESERVED_START` to `_END`): a program cannot
/// set them.
const INTERNAL_FLAGS: u32 = 0xfc00_0000;

impl SendRequest {
    /// Reads a work request.
    pub fn parse(bytes: &[u8; SEND]) -> Self {
        Self {
            id: number!(bytes, 0, u64),
            entries: number!(bytes, 8, u32),
            opcode: number!(bytes, 12, u32),
            flags: number!(bytes, 16, u32) & !INTERNAL_FLAGS,
            extra: number!(bytes, 20, u32),
            address: number!(bytes, 24, u64),
            key: number!(bytes, 32, u32),
            compare_add: number!(bytes, 32, u64),
            swap: number!(bytes, 40, u64),
            atomic_key: number!(bytes, 48, u32),
            ah: number!(bytes, 24, u32),
            qpn: number!(bytes, 28, u32),
            qkey: number!(bytes, 32, u32),
        }
    }
}

/// A work request to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvRequest {
    /// What the completion tells the program.
    pub id: u64,
    /// Number of scatter entries.
    pub entries: u32,
}

impl RecvRequest {
    /// Reads a work request.
    pub fn parse(bytes: &[u8; RECV]) -> Self {
        Self {
            id: number!(bytes, 0, u64),
            entries: number!(bytes, 8, u32),
        }
    }
}

/// Which form a work request to send has (`enum ib_wr_opcode`).
///
/// # Errors
///
/// [`Refusal::Invalid`]: the opcode is not for programs, or not for datagrams.
pub const fn form(opcode: u32, is_ud: bool) -> Result<(Form, Extra), Refusal> {
    let (form, extra) = match opcode {
        0 => (Form::Rdma, Extra::None),
        1 => (Form::Rdma, Extra::Immediate),
        2 => (Form::Plain, Extra::None),
        3 => (Form::Plain, Extra::Immediate),
        4 => (Form::Rdma, Extra::None),
        5 | 6 => (Form::Atomic, Extra::None),
        9 => (Form::Plain, Extra::Invalidate),
        _ => return Err(Refusal::Invalid),
    };
    if !is_ud {
        return Ok((form, extra));
    }
    match opcode {
        2 | 3 => Ok((Form::Ud, extra)),
        _ => Err(Refusal::Invalid),
    }
}
