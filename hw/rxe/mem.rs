// SPDX-License-Identifier: GPL-2.0

//! Memory that the device may touch: regions, windows, and the way from a key.
//!
//! * [`region`]: memory regions, owned by verbs objects;
//! * [`pages`]: the list of a region's pages;
//! * [`window`]: memory windows;
//! * [`batch`]: what a queue pair does with them while it runs;
//! * [`sge`], [`map`], [`copy`]: the pure parts, which the host tests.
//!
//! A key is an index and eight bits of its owner's choice; local and remote keys of
//! an object are equal, and the index tells regions from windows. Everything that a
//! work request or a packet says about memory is a [`Claim`] until a region has
//! agreed to it, for this range, in one call. There is no other way to the bytes.

pub(crate) mod batch;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod copy;
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
use rdma::new_table;
use rdma::table::Table;
use rdma::umem::odp::Touch;

pub(crate) use self::batch::{Batch, Fill};
pub(crate) use self::copy::{Part, Room};
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
    /// `IB_ACCESS_OPTIONAL`: hints, which need not be understood.
    pub(crate) const OPTIONAL: u32 = 0x3ff0_0000;

    /// Any right of a peer.
    pub(crate) const REMOTE: u32 = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
    /// What a user's region may ask for.
    pub(crate) const REGION: u32 =
        REMOTE | LOCAL_WRITE | MW_BIND | ON_DEMAND | FLUSH_GLOBAL | FLUSH_PERSISTENT | OPTIONAL;
    /// What a window may be asked for. What is no right of a peer means nothing there,
    /// but users ask for it.
    pub(crate) const WINDOW: u32 = REGION & !ON_DEMAND | ZERO_BASED;
}

/// A protection domain, by the number its device gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId(pub(crate) u32);

/// A queue pair, by a number that no other queue pair of the device ever had.
/// Windows are bound to it, and QPNs come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpTag(pub(crate) u64);

/// Who wants to touch memory, by what right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The key presented.
    pub(crate) key: u32,
    /// The protection domain of the queue pair.
    pub(crate) pd: PdId,
    /// All of these rights are needed; see [`access`].
    pub(crate) access: u32,
    /// Whether the address came in a packet.
    pub(crate) from_peer: bool,
    /// What will be done with the bytes: a window's rights are not those of its region.
    pub(crate) touch: Touch,
}

impl Claim {
    /// Whether the bytes will be written.
    #[inline]
    fn writes(&self) -> bool {
        self.touch == Touch::Write
    }
}

/// Pages that somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The key of a memory region.
    pub(crate) key: Key,
    /// Where the bytes begin.
    pub(crate) va: u64,
    /// How many there are.
    pub(crate) len: usize,
    /// What is to be done with them.
    pub(crate) touch: Touch,
}

/// Why memory may not be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemError {
    /// The key names nothing, or nothing valid, or not to this queue pair.
    Key,
    /// It belongs to another protection domain.
    Domain,
    /// It does not grant the right.
    Access,
    /// It does not contain the range.
    Range,
    /// The address of an atomic is no multiple of eight.
    Misaligned,
    /// It has windows bound to it.
    Bound,
    /// The scatter-gather list is too short for the message.
    ListTooShort,
    /// Pages of the range are not there. Who wants them can wait for them.
    Absent,
}

impl MemError {
    /// How a local request fails over it, if it does not wait.
    pub(crate) const fn wc_status(self) -> WcStatus {
        match self {
            MemError::Absent
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
            | MemError::ListTooShort => RemoteFault::Access,
        }
    }
}

/// All registered memory of one device.
#[pin_data]
pub(crate) struct Memory {
    #[pin]
    regions: Table<MrCore, 256>,
    #[pin]
    windows: Table<MwCore, 64>,
}

impl Memory {
    /// With nothing registered.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            regions <- new_table!("Memory::regions"),
            windows <- new_table!("Memory::windows"),
        })
    }
}

/// A new key for an index: its low eight bits are random, so that a stale key
/// rarely fits.
fn fresh_key(index: u32) -> u32 {
    index << 8 | u32::from(random_u8())
}

/// The index in a key.
const fn index(Key(key): Key) -> u32 {
    key >> 8
}
