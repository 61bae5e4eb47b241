// SPDX-License-Identifier: GPL-2.0

//! Memory of a process, pinned for a device.
//!
//! A [`Umem`] owns the pins and the charge against the process's limit of locked memory; dropping
//! it gives both back. The process goes on using the memory, so what lies in it may change at any
//! time: copy it by raw pointers, never make a reference to it.
//!
//! The pages come as runs that are contiguous in physical memory; [`Umem::pages`] cuts them into
//! single pages of `PAGE_SIZE`.
//!
//! C header: `include/rdma/ib_umem.h`.

pub mod dmabuf;
pub mod odp;

use crate::bindings;
use crate::provider::Access;
use crate::provider::Device;
use crate::provider::Provider;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// Pinned memory of a process.
///
/// # Invariants
///
/// `0` is a `struct ib_umem` that we own, not for paging on demand, all of whose fields but `iova`
/// stay as they are.
pub struct Umem(NonNull<bindings::ib_umem>);

// SAFETY: Any task may release it and read its table.
unsafe impl Send for Umem {}
// SAFETY: Nothing is written through a shared reference.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `addr` of the current process. May sleep, for long.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, or an end beyond the address space; `EPERM` or `ENOMEM` if the
    /// process may not lock as much; `EFAULT` if it has no such memory, or none it may write to
    /// and `access` is to write; `EOPNOTSUPP` for paging on demand.
    pub fn get<P: Provider>(dev: &Device<P>, addr: u64, len: u64, access: Access) -> Result<Self> {
        let addr = usize::try_from(addr).map_err(|_| EINVAL)?;
        let len = usize::try_from(len).map_err(|_| EINVAL)?;
        // CAST: flags, whose sign has no meaning.
        // SAFETY: The device is registered. The function checks the other arguments.
        let umem = from_err_ptr(unsafe {
            bindings::rdma_helper_ib_umem_get_va(dev.as_raw(), addr, len, access.raw() as i32)
        })?;
        // INVARIANT: We own what the function made.
        Ok(Self(NonNull::new(umem).ok_or(ENOMEM)?))
    }

    fn c(&self) -> &bindings::ib_umem {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.c().length
    }

    /// Whether it has no bytes; never so.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where in the first page it begins, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        self.c().address & (PAGE_SIZE - 1)
    }

    /// Whether the device may write to it.
    #[inline]
    pub fn writable(&self) -> bool {
        self.c().writable() != 0
    }

    /// The number of pages.
    #[inline]
    pub fn page_count(&self) -> usize {
        // OVERFLOW: `get` refused memory that does not end within the address space.
        self.offset().wrapping_add(self.len()).div_ceil(PAGE_SIZE)
    }

    /// Its runs of contiguous pages, in order.
    #[inline]
    pub fn runs(&self) -> Runs<'_> {
        let table = &self.c().sgt_append.sgt;
        Runs {
            sg: table.sgl,
            left: table.orig_nents,
            _p: PhantomData,
        }
    }

    /// Its pages, in order. The memory begins in the first one at [`Self::offset`].
    #[inline]
    pub fn pages(&self) -> Pages<'_> {
        Pages {
            runs: self.runs(),
            run: None,
        }
    }

    /// Whether a region of this memory can take these new access flags as it is, for
    /// [`Provider::rereg_user_mr`]. May sleep.
    pub fn check_rereg(&self, mask: crate::provider::RegionMask, access: Access) -> Result {
        // CAST: flags, whose sign has no meaning.
        // SAFETY: The memory is ours; the function only looks.
        to_result(unsafe {
            bindings::ib_umem_check_rereg(self.0.as_ptr(), mask.raw() as i32, access.raw() as i32)
        })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: By the type invariant we own it.
        unsafe { bindings::ib_umem_release(self.0.as_ptr()) };
    }
}

/// A run of pages that are contiguous in physical memory.
///
/// # Invariants
///
/// `page` is the first of `count` pages, which are pinned for `'a`.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    page: *mut bindings::page,
    count: usize,
    _pinned: PhantomData<&'a Umem>,
}

impl Run<'_> {
    /// How many pages.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether all of them are persistent memory. Any context.
    #[inline]
    pub fn is_pmem(&self) -> bool {
        // SAFETY: The pages are pinned (type invariant); the function only looks up their physical
        // addresses.
        unsafe { bindings::rdma_helper_is_pmem(self.page, self.count) }
    }

    /// The kernel address of the first page. 64-bit kernels map all pages, and those of a run side
    /// by side.
    #[inline]
    pub fn address(&self) -> usize {
        // SAFETY: The page is pinned (type invariant); the function only computes its address.
        unsafe { bindings::rdma_helper_page_address(self.page) as usize }
    }
}

/// The runs of a [`Umem`].
///
/// # Invariants
///
/// `sg` is the next of `left` entries of a table that lives for `'a`, or `left` is 0. The pages of
/// each entry are contiguous, and pinned for `'a` (`ib_umem_get`).
pub struct Runs<'a> {
    sg: *mut bindings::scatterlist,
    left: u32,
    _p: PhantomData<&'a Umem>,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        if self.left == 0 || self.sg.is_null() {
            return None;
        }
        // SAFETY: By the type invariant.
        let (page, len) = unsafe { (bindings::rdma_helper_sg_page(self.sg), (*self.sg).length) };
        // INVARIANT: One entry less.
        // SAFETY: The table chains its entries; after the last one this is null.
        self.sg = unsafe { bindings::sg_next(self.sg) };
        // OVERFLOW: it was not zero.
        self.left -= 1;
        // CAST: 64-bit kernels only have lengths that fit; pinned pages start at an offset of 0.
        let count = (len as usize).div_ceil(PAGE_SIZE);
        // INVARIANT: That of this type.
        Some(Run {
            page,
            count,
            _pinned: PhantomData,
        })
    }
}

impl FusedIterator for Runs<'_> {}

/// The pages of a [`Umem`].
pub struct Pages<'a> {
    runs: Runs<'a>,
    /// The run at hand, and how many of its pages were given out.
    run: Option<(Run<'a>, usize)>,
}

impl Iterator for Pages<'_> {
    type Item = NonNull<bindings::page>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match &mut self.run {
                Some((run, done)) if *done < run.count => {
                    // SAFETY: The page is one of the run.
                    let page = unsafe { bindings::rdma_helper_nth_page(run.page, *done) };
                    // OVERFLOW: it was below the count.
                    *done += 1;
                    return NonNull::new(page);
                }
                _ => self.run = Some((self.runs.next()?, 0)),
            }
        }
    }
}

impl FusedIterator for Pages<'_> {}
