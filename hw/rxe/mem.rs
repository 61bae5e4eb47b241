// SPDX-License-Identifier: GPL-2.0

//! Memory that the device may access: regions, windows, and the lookup of keys.
//!
//! * [`region`]: memory regions, owned by verbs objects;
//! * [`pages`]: the list of a region's pages;
//! * [`window`]: memory windows;
//! * [`batch`]: a queue pair's access to them during one turn;
//! * [`fill`]: writes whose bytes come from a function;
//! * [`edge`]: copies to and from registered memory; pure, tested on the host;
//! * [`sge`], [`map`]: other pure parts, tested on the host.
//!
//! A key is an index and eight bits of its owner's choice. Local and remote key of an object are
//! equal, and the index distinguishes regions from windows. Every memory reference of a work
//! request or packet is a [`Claim`] until a region has granted it, for the given range, in one
//! call. There is no other access to the bytes.

pub(crate) mod batch;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod edge;
mod fill;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod map;
mod pages;
pub(crate) mod region;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod sge;
pub(crate) mod window;

use crate::edge::random_u8;
use crate::proto::{Key, RemoteFault, WcStatus};
use core::ops::RangeInclusive;
use kernel::prelude::*;
use rdma::gate::Gated;
use rdma::new_table;
use rdma::table::Table;
use rdma::umem::odp::Touch;

pub(crate) use self::batch::Batch;
pub(crate) use self::edge::{Filled, Part, Reach, Room};
pub(crate) use self::fill::{Fill, Locks};
pub(crate) use self::region::{Mr, MrCore};
pub(crate) use self::sge::{Cursor, Sge};
pub(crate) use self::window::{Mw, MwCore, MwKind};

/// Indices of memory regions.
pub(crate) const MR_INDICES: RangeInclusive<u32> = 1..=0x7_ffff;
/// Indices of memory windows.
pub(crate) const MW_INDICES: RangeInclusive<u32> = 0x8_0001..=0xf_ffff;

/// Bits of `enum ib_access_flags`, `include/rdma/ib_verbs.h`.
pub(crate) mod access {
    /// `IB_ACCESS_LOCAL_WRITE`.
    pub(crate) const LOCAL_WRITE: u32 = 1;
    /// `IB_ACCESS_REMOTE_WRITE`.
    pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
    /// `IB_ACCESS_REMOTE_READ`.
    pub(crate) const REMOTE_READ: u32 = 1 << 2;
    /// `IB_ACCESS_REMOTE_ATOMIC`.
    pub(crate) const REMOTE_ATOMIC: u32 = 1 << 3;
    /// `IB_ACCESS_MW_BIND`.
    pub(crate) const MW_BIND: u32 = 1 << 4;
    /// `IB_ZERO_BASED`.
    pub(crate) const ZERO_BASED: u32 = 1 << 5;
    /// `IB_ACCESS_ON_DEMAND`.
    pub(crate) const ON_DEMAND: u32 = 1 << 6;
    /// `IB_ACCESS_FLUSH_GLOBAL`.
    pub(crate) const FLUSH_GLOBAL: u32 = 1 << 8;
    /// `IB_ACCESS_FLUSH_PERSISTENT`.
    pub(crate) const FLUSH_PERSISTENT: u32 = 1 << 9;
    /// `IB_ACCESS_OPTIONAL`: hints, which may be ignored.
    pub(crate) const OPTIONAL: u32 = 0x3ff0_0000;

    /// Rights with any of which a region's pages are pinned for writing.
    pub(crate) const WRITES: u32 = LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC;
    /// All rights of a peer.
    pub(crate) const REMOTE: u32 = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
    /// Rights that a user may request for a region.
    pub(crate) const REGION: u32 =
        REMOTE | LOCAL_WRITE | MW_BIND | ON_DEMAND | FLUSH_GLOBAL | FLUSH_PERSISTENT | OPTIONAL;
    /// Rights that may be requested for a window. Those that do not apply to peers have no effect,
    /// but users request them.
    pub(crate) const WINDOW: u32 = REGION & !ON_DEMAND | ZERO_BASED;
}

/// A protection domain, by a number that is unique for the lifetime of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(pub(crate) u64);

/// Tag of a queue pair, unique for the lifetime of the device. Windows are bound to a tag, since
/// QPNs are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpTag(pub(crate) u64);

/// A request to access memory, with the rights it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The key presented.
    pub(crate) key: u32,
    /// The protection domain of the queue pair.
    pub(crate) pd: PdId,
    /// The rights needed, all of them; see [`access`].
    pub(crate) access: u32,
    /// Whether the address came in a packet.
    pub(crate) from_peer: bool,
    /// How the bytes will be accessed: a window's rights differ from those of its region.
    pub(crate) touch: Touch,
}

impl Claim {
    /// Returns whether the bytes will be written.
    #[inline]
    fn writes(&self) -> bool {
        self.touch == Touch::Write
    }
}

/// Absent pages to fault in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The key of a memory region.
    pub(crate) key: Key,
    /// Address of the first byte.
    pub(crate) va: u64,
    /// Length in bytes.
    pub(crate) len: usize,
    /// How they will be accessed.
    pub(crate) touch: Touch,
}

/// Reasons to refuse access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemError {
    /// The key is unknown, not valid, or not valid for this queue pair.
    Key,
    /// The object belongs to another protection domain.
    Domain,
    /// The object does not grant the right.
    Access,
    /// The object does not contain the range.
    Range,
    /// The address of an atomic operation is not a multiple of eight.
    Misaligned,
    /// Windows are bound to the region.
    Bound,
    /// The scatter-gather list is too short for the message.
    ListTooShort,
    /// Pages of the range are not present. The requester can wait for them.
    Absent,
    /// A [`Fill`] would need a lock, and its caller holds that of a region.
    Locked,
}

impl MemError {
    /// Returns the status with which a local request fails, unless it waits.
    pub(crate) const fn wc_status(self) -> WcStatus {
        match self {
            MemError::Absent
            | MemError::Locked
            | MemError::Key
            | MemError::Domain
            | MemError::Access
            | MemError::Range
            | MemError::Misaligned
            | MemError::Bound => WcStatus::LocProt,
            MemError::ListTooShort => WcStatus::LocLen,
        }
    }
}

impl From<MemError> for RemoteFault {
    fn from(error: MemError) -> Self {
        match error {
            MemError::Misaligned => RemoteFault::Misaligned,
            MemError::Absent => RemoteFault::Absent,
            MemError::Key
            | MemError::Domain
            | MemError::Access
            | MemError::Range
            | MemError::Bound
            | MemError::Locked
            | MemError::ListTooShort => RemoteFault::Access,
        }
    }
}

/// All registered memory of one device.
#[pin_data]
pub(crate) struct Memory {
    #[pin]
    regions: Table<Gated<MrCore>, 256>,
    #[pin]
    windows: Table<MwCore, 64>,
}

impl Memory {
    /// Creates an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            regions <- new_table!("Memory::regions"),
            windows <- new_table!("Memory::windows"),
        })
    }
}

/// Returns a new key for an index. The low eight bits are random, so that a stale key rarely
/// matches.
fn fresh_key(index: u32) -> u32 {
    index << 8 | u32::from(random_u8())
}

/// Returns the index in a key.
const fn index(Key(key): Key) -> u32 {
    key >> 8
}
