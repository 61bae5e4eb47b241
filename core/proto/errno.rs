// SPDX-License-Identifier: GPL-2.0

//! Errno that callers of the core see when an engine refuses a request.
//!
//! Each engine has its own error type, whose method `errno` returns the errno of the C core. The
//! numbers are those of `include/uapi/asm-generic/errno-base.h` and `errno.h`; every architecture
//! that has this subsystem takes them from there.

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
    /// Already exists.
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
    /// The negative errno, as a C function returns it.
    pub const fn to_ret(self) -> i32 {
        // OVERFLOW: the numbers are small.
        -(self as i32)
    }
}
