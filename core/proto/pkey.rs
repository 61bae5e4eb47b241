// SPDX-License-Identifier: GPL-2.0

//! Partition keys: matching, and lookup in a port's table.
//!
//! IBTA volume 1, 10.9: the low 15 bits identify the partition, the highest bit says whether the
//! owner is a full or a limited member.

use super::errno::Errno;

/// A partition key. Zero in the low 15 bits is no partition (10.9.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pkey(pub u16);

impl Pkey {
    /// The default partition, full member.
    pub const DEFAULT: Pkey = Pkey(0xffff);

    /// The partition number, without the membership bit.
    pub const fn base(self) -> u16 {
        self.0 & 0x7fff
    }

    /// Returns whether the owner is a full member.
    pub const fn is_full(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// Returns whether the key identifies a partition.
    pub const fn is_valid(self) -> bool {
        self.base() != 0
    }

    /// Returns whether owners of the two keys may communicate: both are in the same partition, and
    /// at least one is a full member (IBTA 10.9.3).
    pub const fn matches(self, other: Pkey) -> bool {
        self.is_valid() && self.base() == other.base() && (self.is_full() || other.is_full())
    }
}

/// Which of several limited entries of a partition is returned when the table has no full one. The
/// two functions of the C core differ, and the resulting indices are visible to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// The first: `ib_find_pkey`.
    First,
    /// The last: `ib_find_cached_pkey`.
    Last,
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The index is outside the table, or there is no table yet.
    NoSuchIndex,
    /// No entry belongs to the partition.
    NotFound,
}

impl Refusal {
    /// The errno that the caller sees.
    pub const fn errno(self) -> Errno {
        match self {
            Self::NoSuchIndex => Errno::Einval,
            Self::NotFound => Errno::Enoent,
        }
    }
}

/// Returns the entry at an index, which may come from a user.
pub fn get(table: &[Pkey], index: i32) -> Result<Pkey, Refusal> {
    let index = usize::try_from(index).map_err(|_| Refusal::NoSuchIndex)?;
    table.get(index).copied().ok_or(Refusal::NoSuchIndex)
}

/// Returns the index of a partition's entry. The membership bit of `pkey` is ignored; a full
/// member's entry is preferred to a limited one.
pub fn find(table: &[Pkey], pkey: Pkey, limited: Limited) -> Result<u16, Refusal> {
    let mut ours = table
        .iter()
        .zip(0_u16..=u16::MAX)
        .filter(|(entry, _)| entry.base() == pkey.base());
    let mut second_best = None;
    for (entry, index) in &mut ours {
        if entry.is_full() {
            return Ok(index);
        }
        second_best = match (limited, second_best) {
            (Limited::First, Some(first)) => Some(first),
            (Limited::First, None) | (Limited::Last, _) => Some(index),
        };
    }
    second_best.ok_or(Refusal::NotFound)
}
