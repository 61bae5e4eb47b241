// SPDX-License-Identifier: GPL-2.0

//! Partition keys: who may talk to whom, and where a key is in a port's table.
//!
//! IBTA volume 1, 10.9: the low 15 bits name the partition, the highest one says
//! whether the owner is a full member or a limited one.

use super::errno::Errno;

/// A partition key. Zero in the low 15 bits is no partition (10.9.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pkey(pub u16);

impl Pkey {
    /// The default partition, full member.
    pub const DEFAULT: Pkey = Pkey(0xffff);

    /// The partition, without membership.
    pub const fn base(self) -> u16 {
        self.0 & 0x7fff
    }

    /// Whether the owner is a full member.
    pub const fn is_full(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// Whether it names a partition at all.
    pub const fn is_valid(self) -> bool {
        self.base() != 0
    }

    /// Whether owners of the two keys may talk: they are in the same partition,
    /// and not both of them limited members (IBTA 10.9.3).
    pub const fn matches(self, other: Pkey) -> bool {
        self.is_valid() && self.base() == other.base() && (self.is_full() || other.is_full())
    }
}

/// Which of several limited entries of the same partition is taken, when the
/// table has no full one. The peer's two functions differ, and so do their callers'
/// indices, which users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// The first: `ib_find_pkey`.
    First,
    /// The last: `ib_find_cached_pkey`.
    Last,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The index is outside the table, or there is no table yet.
    NoSuchIndex,
    /// No entry is of the partition.
    NotFound,
}

impl Refusal {
    /// The number that the caller is told.
    pub const fn errno(self) -> Errno {
        match self {
            Self::NoSuchIndex => Errno::Einval,
            Self::NotFound => Errno::Enoent,
        }
    }
}

/// The entry of an index, which may come from a user.
pub fn get(table: &[Pkey], index: i32) -> Result<Pkey, Refusal> {
    let index = usize::try_from(index).map_err(|_| Refusal::NoSuchIndex)?;
    table.get(index).copied().ok_or(Refusal::NoSuchIndex)
}

/// The index of a partition's entry. The membership of `pkey` is not looked at; a
/// full member's entry goes before a limited one's.
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
