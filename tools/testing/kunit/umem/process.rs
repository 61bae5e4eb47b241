// SPDX-License-Identifier: GPL-2.0

//! Memory of the process that a test runs as, which gets an address space for it.

use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;
use rdma::bindings;

// `include/uapi/asm-generic/mman-common.h`, `include/uapi/linux/mman.h`
const PROT_READ: c_ulong = 1;
const PROT_WRITE: c_ulong = 2;
const MAP_PRIVATE: c_ulong = 2;
const MAP_FIXED: c_ulong = 0x10;
const MAP_ANONYMOUS: c_ulong = 0x20;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Pages that were mapped, and are unmapped with this.
pub(crate) struct Mapping {
    start: usize,
    pages: usize,
}

impl Mapping {
    /// Maps `pages`, none of which is there yet.
    pub(crate) fn new(pages: usize) -> Result<Self> {
        // SAFETY: A test runs in a thread of its own.
        to_result(unsafe { bindings::kunit_attach_mm() })?;
        let start = mmap(0, pages * PAGE, 0)?;
        Ok(Self { start, pages })
    }

    /// The address of a page.
    pub(crate) fn at(&self, page: usize) -> usize {
        self.start + page * PAGE
    }

    /// Writes to the beginning of a page, as the process.
    pub(crate) fn write(&self, page: usize, bytes: &[u8]) -> Result {
        let to = UserPtr::from_addr(self.at(page));
        UserSlice::new(to, bytes.len()).writer().write_slice(bytes)
    }

    /// Takes pages away.
    pub(crate) fn unmap(&mut self, page: usize, count: usize) -> Result {
        // SAFETY: The pages are ours.
        to_result(unsafe { bindings::vm_munmap(self.at(page), count * PAGE) })
    }

    /// Maps pages anew.
    pub(crate) fn map(&mut self, page: usize, count: usize) -> Result {
        let at = self.at(page);
        assert_eq!(mmap(at, count * PAGE, MAP_FIXED)?, at);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The pages are ours; some may be gone already.
        unsafe { bindings::vm_munmap(self.start, self.pages * PAGE) };
    }
}

fn mmap(at: usize, len: usize, flags: c_ulong) -> Result<usize> {
    let protection = PROT_READ | PROT_WRITE;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | flags;
    // SAFETY: The thread has an address space, which nobody else uses.
    let got = unsafe { bindings::vm_mmap(core::ptr::null_mut(), at, len, protection, flags, 0) };
    // CAST: an error is a small negative number.
    match got as isize {
        error @ -4095..0 => Err(Error::from_errno(error as i32)),
        _ => Ok(got),
    }
}
