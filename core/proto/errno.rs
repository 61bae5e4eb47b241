// SPDX-License-Identifier: GPL-2.0

//! The errno that callers of the core see for an engine's refusal.
//!
//! An engine's own errors say what was wrong; each has a method `errno` that says
//! what the peer's callers have always been told. The numbers are those of
//! `include/uapi/asm-generic/errno-base.h` and `errno.h`; every architecture that
//! has this subsystem takes them from there.

/// A positive error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Errno {
    /// Operation not permitted.
    Eperm = 1,
    /// No such entry.
    Enoent = 2,
    /// Try again.
    Eagain = 11,
    /// Out of memory.
    Enomem = 12,
    /// Busy.
    Ebusy = 16,
    /// Exists already.
    Eexist = 17,
    /// No such device.
    Enodev = 19,
    /// Invalid argument.
    Einval = 22,
    /// Table overflow.
    Enfile = 23,
    /// No space left.
    Enospc = 28,
    /// Out of range.
    Erange = 34,
    /// No data.
    Enodata = 61,
    /// Message too long.
    Emsgsize = 90,
    /// Not supported.
    Eopnotsupp = 95,
}

impl Errno {
    /// As a function of the C side returns it: negative.
    pub const fn to_ret(self) -> i32 {
        // OVERFLOW: the numbers are small.
        -(self as i32)
    }
}
