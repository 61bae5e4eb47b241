// SPDX-License-Identifier: GPL-2.0

//! What is read of a file, and what was written to it.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bindings;
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

impl Page<'_> {
    /// Has `write` fill the page at `buf`, and makes of it what a `show` method returns: the
    /// length, or the negative error.
    ///
    /// # Safety
    ///
    /// `buf` is what sysfs handed to a `show` method.
    #[inline]
    pub unsafe fn fill(buf: *mut c_char, write: impl FnOnce(&mut Page<'_>) -> Result) -> isize {
        let Some(start) = NonNull::new(buf.cast()) else {
            return errno(EINVAL);
        };
        // INVARIANT: sysfs lends a page; nothing is written yet.
        let mut page = Page {
            start,
            len: 0,
            _page: PhantomData,
        };
        match write(&mut page) {
            // CAST: less than a page.
            Ok(()) => page.len as isize,
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

impl<'a> Input<'a> {
    /// Has `take` look at the `count` bytes at `buf`, and makes of it what a `store` method
    /// returns: all of the bytes, or the negative error.
    ///
    /// # Safety
    ///
    /// `buf` and `count` are what sysfs handed to a `store` method.
    #[inline]
    pub unsafe fn take(
        buf: *const c_char,
        count: usize,
        take: impl FnOnce(Input<'_>) -> Result,
    ) -> isize {
        // SAFETY: By this function's duty; INVARIANT: kernfs ends what was written with a NUL.
        let bytes = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };
        match take(Input { bytes }) {
            // CAST: a page at most.
            Ok(()) => count as isize,
            Err(e) => errno(e),
        }
    }

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
