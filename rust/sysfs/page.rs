// SPDX-License-Identifier: GPL-2.0

//! Output of a `show` method, and input of a `store` method.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bindings;
use crate::edge::FromC;
use crate::edge::Within;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::fmt;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// The page that a `show` method fills. Output that does not fit is truncated, as by `sysfs_emit`.
///
/// # Invariants
///
/// `start` points to `PAGE_SIZE` bytes that only this accesses during `'a`; `len < PAGE_SIZE`, and
/// the first `len` bytes are written.
pub struct Page<'a> {
    start: NonNull<u8>,
    len: usize,
    _page: PhantomData<&'a mut [u8]>,
}

// SAFETY: The contract of `from_c` is that `c` is the page that sysfs passes to a `show` method.
unsafe impl FromC for Page<'_> {
    type C = *mut c_char;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Sysfs passes a page for the duration of the call; nothing is written yet.
        Self {
            // SAFETY: `c` is a page, so it is not null (contract of this function).
            start: unsafe { NonNull::new_unchecked(c.cast()) },
            len: 0,
            _page: PhantomData,
        }
    }
}
// SAFETY: The page has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Page<'a> {}

impl Page<'_> {
    /// Calls `write` to fill the page. Returns the result of the `show` method: the length, or a
    /// negative errno.
    #[inline]
    pub fn show(mut self, write: impl FnOnce(&mut Page<'_>) -> Result) -> isize {
        match write(&mut self) {
            // CAST: Less than a page.
            Ok(()) => self.len as isize,
            Err(e) => errno(e),
        }
    }

    /// Appends bytes, as many as fit.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let room = PAGE_SIZE.saturating_sub(1).saturating_sub(self.len);
        let count = bytes.len().min(room);
        // SAFETY: `count` bytes fit behind the first `len` bytes; only this accesses the page (type
        // invariant).
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(self.len), count)
        };
        // INVARIANT: At most `PAGE_SIZE - 1`, and these bytes are written.
        self.len = self.len.saturating_add(count);
    }

    /// Appends text, as much as fits.
    #[inline]
    pub fn text(&mut self, text: fmt::Arguments<'_>) -> Result {
        fmt::Write::write_fmt(self, text)?;
        Ok(())
    }
}

impl fmt::Write for Page<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// Input of a `store` method.
///
/// # Invariants
///
/// `bytes` is followed by a NUL.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

/// Address of the input of a `store` method. Created only by a call of C, for the duration of the
/// call.
pub struct Written<'a>(*const c_char, PhantomData<&'a [u8]>);

/// Number of bytes of the input of a `store` method. Created only by a call of C, for its duration.
pub struct Count<'a>(usize, PhantomData<&'a [u8]>);

// SAFETY: The contract of `from_c` is that `c` is the address that sysfs passes to a `store`
// method, with the number of bytes.
unsafe impl FromC for Written<'_> {
    type C = *const c_char;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: The value has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Written<'a> {}

// SAFETY: The contract of `from_c` is that `c` is the number of bytes that sysfs passes to a
// `store` method, with their address.
unsafe impl FromC for Count<'_> {
    type C = usize;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: The value has the lifetime `'a`.
unsafe impl<'a> Within<'a> for Count<'a> {}

impl<'a> Written<'a> {
    /// Calls `take` with the input. Returns the result of the `store` method: the number of all
    /// bytes, or a negative errno. `count` is the argument of the same call.
    #[inline]
    pub fn store(self, count: Count<'a>, take: impl FnOnce(Input<'_>) -> Result) -> isize {
        // SAFETY: Both belong to one call, which lasts as long as they exist, because calls of
        // `store` methods do not nest (contract of their `from_c`).
        // INVARIANT: Kernfs terminates the input with a NUL.
        let bytes = unsafe { core::slice::from_raw_parts(self.0.cast::<u8>(), count.0) };
        match take(Input { bytes }) {
            // CAST: A page at most.
            Ok(()) => count.0 as isize,
            Err(e) => errno(e),
        }
    }
}

impl<'a> Input<'a> {
    /// Returns the whole input, including the newline, if any.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Parses the input as a decimal number, as `kstrtoint` does.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not a number, `ERANGE` if it is out of range.
    pub fn number(self) -> Result<i32> {
        let mut value = 0;
        // SAFETY: The input is followed by a NUL (type invariant).
        to_result(unsafe { bindings::kstrtoint(self.bytes.as_ptr().cast(), 10, &mut value) })?;
        Ok(value)
    }
}

/// Returns a negative errno as the result of a method.
pub(super) fn errno(e: Error) -> isize {
    // CAST: A small negative number.
    e.to_errno() as isize
}
