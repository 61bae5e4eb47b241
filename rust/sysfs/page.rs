// SPDX-License-Identifier: GPL-2.0

//! What is read of a file, and what was written to it.

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

/// The page that a file fills when it is read. What does not fit is cut off, as by `sysfs_emit`.
///
/// # Invariants
///
/// `start` points to `PAGE_SIZE` bytes that this alone accesses for `'a`; `len < PAGE_SIZE`, and
/// the first `len` bytes are written.
pub struct Page<'a> {
    start: NonNull<u8>,
    len: usize,
    _page: PhantomData<&'a mut [u8]>,
}

// SAFETY: `from_c`'s contract: what sysfs hands to a `show` method.
unsafe impl FromC for Page<'_> {
    type C = *mut c_char;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: sysfs lends a page for the call; nothing is written yet.
        Self {
            // SAFETY: sysfs lends a page (contract of this function).
            start: unsafe { NonNull::new_unchecked(c.cast()) },
            len: 0,
            _page: PhantomData,
        }
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Page<'a> {}

impl Page<'_> {
    /// Has `write` fill the page, and makes of it what a `show` method returns: the length, or the
    /// negative error.
    #[inline]
    pub fn show(mut self, write: impl FnOnce(&mut Page<'_>) -> Result) -> isize {
        match write(&mut self) {
            // CAST: less than a page.
            Ok(()) => self.len as isize,
            Err(e) => errno(e),
        }
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let room = PAGE_SIZE.saturating_sub(1).saturating_sub(self.len);
        let count = bytes.len().min(room);
        // SAFETY: `count` bytes fit behind the `len` that are there; the page is ours alone.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(self.len), count)
        };
        // INVARIANT: At most `PAGE_SIZE - 1`, and these bytes are written now.
        self.len = self.len.saturating_add(count);
    }

    /// Appends text.
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

/// What was written to a file.
///
/// # Invariants
///
/// `bytes` is followed by a NUL.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    bytes: &'a [u8],
}

/// Where sysfs has what was written to a file. Only C makes one, for a call of a `store` method.
pub struct Written<'a>(*const c_char, PhantomData<&'a [u8]>);

/// The number of bytes that were written. Only C makes one, for a call of a `store` method.
pub struct Count<'a>(usize, PhantomData<&'a [u8]>);

// SAFETY: `from_c`'s contract: what sysfs hands to a `store` method, with the number of bytes.
unsafe impl FromC for Written<'_> {
    type C = *const c_char;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Written<'a> {}

// SAFETY: `from_c`'s contract: what sysfs hands to a `store` method, with the place of the bytes.
unsafe impl FromC for Count<'_> {
    type C = usize;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c, PhantomData)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for Count<'a> {}

impl<'a> Written<'a> {
    /// Has `take` look at what was written, and makes of it what a `store` method returns: all of
    /// the bytes, or the negative error. `count` is of the same call.
    #[inline]
    pub fn store(self, count: Count<'a>, take: impl FnOnce(Input<'_>) -> Result) -> isize {
        // SAFETY: Both are of one call, for as long as that lasts, since calls of a `store` method do
        // not nest (contract of their `from_c`). INVARIANT: kernfs ends what was written with a NUL.
        let bytes = unsafe { core::slice::from_raw_parts(self.0.cast::<u8>(), count.0) };
        match take(Input { bytes }) {
            // CAST: a page at most.
            Ok(()) => count.0 as isize,
            Err(e) => errno(e),
        }
    }
}

impl<'a> Input<'a> {
    /// All of it, with the newline if there is one.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The decimal number that it is, as `kstrtoint` reads it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is none, `ERANGE` if it is too great.
    pub fn number(self) -> Result<i32> {
        let mut value = 0;
        // SAFETY: By the type invariant the string ends with a NUL.
        to_result(unsafe { bindings::kstrtoint(self.bytes.as_ptr().cast(), 10, &mut value) })?;
        Ok(value)
    }
}

/// A method's negative error.
pub(super) fn errno(e: Error) -> isize {
    // CAST: a small negative number.
    e.to_errno() as isize
}
