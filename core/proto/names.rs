// SPDX-License-Identifier: GPL-2.0

//! Names of devices: validity and assignment.
//!
//! A driver registers a device under a name, or under a pattern with one `%d` for the smallest free
//! index; a user may rename it, and may name it when it is moved to another network namespace. Which
//! names are in use where is the caller's business: on some kernels a name is unique in the system,
//! on others among the devices that a namespace sees.
//!
//! A name is a directory in sysfs, so it must not be empty, `.` or `..`, nor contain a slash. The C
//! core accepts such names in some paths (the driver core then turns a slash into `!`, or sysfs
//! fails half-way); here they are refused. The C core also truncates a name of 64 bytes or more in
//! the copy that consumers read, so that the copy may be another device's name; here it is refused,
//! too. All other bytes are legal, `%` among them, except in a pattern.
//!
//! The caller holds the lock that keeps the set of names stable (the write side of the devices'
//! lock), and passes the names in use as an iterator that can be restarted: the search allocates
//! nothing.

use super::errno::Errno;

/// Size of a name in bytes, including the terminating NUL (`IB_DEVICE_NAME_MAX`).
pub const NAME_MAX: usize = 64;

/// Indices of a pattern are below this: they are printed as a C `int`.
const INDEX_END: u32 = i32::MAX as u32;

/// A legal name, at most `NAME_MAX - 1` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

/// Why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is empty.
    Empty,
    /// It has more than `NAME_MAX - 1` bytes, perhaps only once the index is inserted.
    TooLong,
    /// It is `.` or `..`, or contains a slash or a NUL.
    Illegal,
    /// It has a percent sign that is not the start of its only `%d`.
    BadPattern,
    /// Another device has it.
    InUse,
    /// Every index of the pattern is taken.
    NoIndex,
}

/// What the name is for: the errno of a refusal depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// `ib_register_device`.
    Register,
    /// `RDMA_NLDEV_CMD_SET` with a name, with a namespace, or with both.
    Set,
}

/// What a device is to be called in the namespace that it is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming<'a> {
    /// As it is called now.
    Kept,
    /// By this name.
    Given(&'a [u8]),
    /// As it is called now or, if that name is in use, by another one: its namespace ends, and it
    /// must move.
    Any,
}

impl Refusal {
    /// The errno that the caller sees.
    pub const fn errno(self, occasion: Occasion) -> Errno {
        match (self, occasion) {
            (Self::InUse, Occasion::Register) => Errno::Enfile,
            (Self::InUse, Occasion::Set) => Errno::Eexist,
            (Self::NoIndex, _) => Errno::Enospc,
            (Self::Empty | Self::TooLong | Self::Illegal | Self::BadPattern, _) => Errno::Einval,
        }
    }
}

impl core::fmt::Debug for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for byte in self.as_bytes() {
            for c in core::ascii::escape_default(*byte) {
                core::fmt::Write::write_char(f, char::from(c))?;
            }
        }
        Ok(())
    }
}

impl Name {
    const EMPTY: Name = Name {
        bytes: [0; NAME_MAX],
        len: 0,
    };

    /// A name of these bytes, which have no terminating NUL.
    pub fn new(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut name = Self::EMPTY;
        name.push(bytes)?;
        name.checked()
    }

    /// The bytes of the name, without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The name as a C array, padded with at least one NUL.
    pub const fn as_c_array(&self) -> &[u8; NAME_MAX] {
        &self.bytes
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let end = self.len.saturating_add(bytes.len());
        if end >= NAME_MAX {
            return Err(Refusal::TooLong);
        }
        let room = self.bytes.get_mut(self.len..end);
        for (to, from) in room.ok_or(Refusal::TooLong)?.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.len = end;
        Ok(())
    }

    fn checked(self) -> Result<Self, Refusal> {
        let bytes = self.as_bytes();
        if bytes.is_empty() {
            Err(Refusal::Empty)
        } else if bytes == b"." || bytes == b".." || bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            Err(Refusal::Illegal)
        } else {
            Ok(self)
        }
    }
}

/// A name with a placeholder for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern<'a> {
    before: &'a [u8],
    after: &'a [u8],
}

impl<'a> Pattern<'a> {
    /// Parses a pattern. `None` if there is no percent sign.
    fn parse(bytes: &'a [u8]) -> Result<Option<Self>, Refusal> {
        let mut parts = bytes.splitn(2, |b| *b == b'%');
        let before = parts.next().unwrap_or_default();
        let Some(rest) = parts.next() else {
            return Ok(None);
        };
        match rest {
            [b'd', after @ ..] if !after.contains(&b'%') => Ok(Some(Self { before, after })),
            _ => Err(Refusal::BadPattern),
        }
    }

    fn print(&self, index: u32) -> Result<Name, Refusal> {
        let mut digits = [0; 10];
        let mut first = digits.len();
        let mut rest = index;
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            // CAST, OVERFLOW: a decimal digit.
            *digit = b'0' + (rest % 10) as u8;
            first = at;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let mut name = Name::EMPTY;
        name.push(self.before)?;
        name.push(digits.get(first..).unwrap_or_default())?;
        name.push(self.after)?;
        name.checked()
    }

    /// The index that this name is printed from, if there is one. `rxe01`, `rxe+1` and `rxe 1` are
    /// separate names and take no index of `rxe%d`.
    fn index_of(&self, name: &[u8]) -> Option<u32> {
        let digits = name.strip_prefix(self.before)?.strip_suffix(self.after)?;
        if digits.is_empty() || (digits.len() > 1 && digits.starts_with(b"0")) {
            return None;
        }
        let index = digits.iter().try_fold(0_u32, |sum, digit| {
            let value = char::from(*digit).to_digit(10)?;
            sum.checked_mul(10)?.checked_add(value)
        })?;
        (index < INDEX_END).then_some(index)
    }
}

/// The pattern of names for devices whose own name is in use.
const FALLBACK: Pattern<'_> = Pattern {
    before: b"ibdev",
    after: b"",
};

/// Number of indices examined in one pass over the names.
const WINDOW: u32 = u128::BITS;

/// The smallest index whose printed name is not in use.
fn smallest_free<'n>(
    pattern: &Pattern<'_>,
    in_use: impl Iterator<Item = &'n [u8]> + Clone,
) -> Result<u32, Refusal> {
    let mut start = 0_u32;
    while start < INDEX_END {
        let mut taken = 0_u128;
        for name in in_use.clone() {
            if let Some(offset) = pattern
                .index_of(name)
                .and_then(|index| index.checked_sub(start))
                .filter(|offset| *offset < WINDOW)
            {
                taken |= 1 << offset;
            }
        }
        let free = taken.trailing_ones();
        if free < WINDOW {
            return match start.saturating_add(free) {
                index if index < INDEX_END => Ok(index),
                _ => Err(Refusal::NoIndex),
            };
        }
        start = start.saturating_add(WINDOW);
    }
    Err(Refusal::NoIndex)
}

/// Returns the name under which a device is registered: the wanted name, or the pattern with the
/// smallest free index.
pub fn assign<'n>(
    wanted: &[u8],
    in_use: impl Iterator<Item = &'n [u8]> + Clone,
) -> Result<Name, Refusal> {
    let name = match Pattern::parse(wanted)? {
        Some(pattern) => {
            // Fails early if the pattern is too long.
            let _: Name = pattern.print(0)?;
            pattern.print(smallest_free(&pattern, in_use.clone())?)?
        }
        None => Name::new(wanted)?,
    };
    free(&name, in_use)?;
    Ok(name)
}

/// Returns the new name of a device, or `None` if it already has that name. `in_use` may include
/// the device's own name.
pub fn rename<'n>(
    present: &Name,
    wanted: &[u8],
    in_use: impl Iterator<Item = &'n [u8]> + Clone,
) -> Result<Option<Name>, Refusal> {
    let name = Name::new(wanted)?;
    if name == *present {
        return Ok(None);
    }
    free(&name, in_use)?;
    Ok(Some(name))
}

/// Returns the name of a device in the namespace that it is moved to. `in_use` are the names there,
/// without the device's own. With [`Naming::Any`] a device whose name is in use is called `ibdev`
/// with its `index`, or with the smallest number that is free. That does not fail: if there were none,
/// it would keep its name.
pub fn moved<'n>(
    present: &Name,
    index: u32,
    naming: Naming<'_>,
    in_use: impl Iterator<Item = &'n [u8]> + Clone,
) -> Result<Name, Refusal> {
    let wanted = match naming {
        Naming::Kept | Naming::Any => *present,
        Naming::Given(name) => Name::new(name)?,
    };
    match (free(&wanted, in_use.clone()), naming) {
        (Ok(()), _) => Ok(wanted),
        (Err(_), Naming::Any) => Ok(fallback(index, in_use).unwrap_or(wanted)),
        (Err(refusal), Naming::Kept | Naming::Given(_)) => Err(refusal),
    }
}

fn fallback<'n>(
    index: u32,
    in_use: impl Iterator<Item = &'n [u8]> + Clone,
) -> Result<Name, Refusal> {
    let by_index = FALLBACK.print(index)?;
    match free(&by_index, in_use.clone()) {
        Ok(()) => Ok(by_index),
        Err(_) => FALLBACK.print(smallest_free(&FALLBACK, in_use)?),
    }
}

fn free<'n>(name: &Name, mut in_use: impl Iterator<Item = &'n [u8]>) -> Result<(), Refusal> {
    if in_use.any(|other| other == name.as_bytes()) {
        return Err(Refusal::InUse);
    }
    Ok(())
}
