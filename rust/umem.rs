// SPDX-License-Identifier: GPL-2.0

//! User memory, pinned for a device.
//!
//! A [`Umem`] owns the pins and the charge against `RLIMIT_MEMLOCK` of the process; drop releases
//! both. The process can still access the memory, so its content may change at any time: copy it
//! through raw pointers, never create a reference to it.
//!
//! The pages come in runs that are contiguous in physical memory; [`Umem::pages`] splits them into
//! pages of `PAGE_SIZE`.
//!
//! C header: `include/rdma/ib_umem.h`.

pub mod dmabuf;
pub mod odp;

use crate::bindings;
use crate::edge::device::model;
use crate::edge::sg_table::Entries;
use crate::edge::umem::Umem as Fields;
use crate::edge::IntoC;
use crate::edge::View;
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

/// Pinned user memory.
///
/// # Invariants
///
/// `0` is a `struct ib_umem` that this owns, not one for on-demand paging. Its fields do not
/// change, except `iova`. This has a reference to the memory of its device.
pub struct Umem(NonNull<bindings::ib_umem>);

// SAFETY: Any task may release it and read its table.
unsafe impl Send for Umem {}
// SAFETY: Nothing is written through a shared reference.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `addr` of the current process. May sleep, and take long.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is zero, or the end is beyond the address space; `EPERM` or `ENOMEM` if
    /// the process exceeds its limit of locked memory; `EFAULT` if the memory does not exist, or is
    /// not writable but `access` requires it; `EOPNOTSUPP` for on-demand paging.
    pub fn get<P: Provider>(dev: &Device<P>, addr: u64, len: u64, access: Access) -> Result<Self> {
        let addr = usize::try_from(addr).map_err(|_| EINVAL)?;
        let len = usize::try_from(len).map_err(|_| EINVAL)?;
        // CAST: Flags, whose sign has no meaning.
        // SAFETY: The device is registered (`Device`). The function checks the other arguments.
        let umem = from_err_ptr(unsafe {
            bindings::rdma_helper_ib_umem_get_va(dev.as_raw(), addr, len, access.raw() as i32)
        })?;
        let umem = NonNull::new(umem).ok_or(ENOMEM)?;
        // Dropped by `drop`.
        core::mem::forget(dev.reference());
        // INVARIANT: The function returned a new object, which this owns, and the reference to its
        // device was just taken.
        Ok(Self(umem))
    }

    /// Returns the fields of the C structure.
    #[inline(always)]
    fn c(&self) -> &Fields {
        // SAFETY: The object is owned by this (type invariant). The view makes no reference to the C
        // structure, whose `iova` changes.
        unsafe { Fields::view(self.0.as_ptr()) }
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.c().length()
    }

    /// Returns whether the length is zero, which never is the case.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset of the memory in its first page, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        self.c().address() & (PAGE_SIZE - 1)
    }

    /// Returns whether the device may write to the memory.
    #[inline]
    pub fn writable(&self) -> bool {
        self.c().writable()
    }

    /// Returns the number of pages.
    #[inline]
    pub fn page_count(&self) -> usize {
        // OVERFLOW: `get` refuses memory whose end is beyond the address space.
        self.offset().wrapping_add(self.len()).div_ceil(PAGE_SIZE)
    }

    /// Returns the runs of contiguous pages, in order.
    #[inline]
    pub fn runs(&self) -> Runs<'_> {
        // INVARIANT: The entries are those of pinned memory that `self` owns (type invariant).
        Runs {
            entries: self.c().pages().entries(),
            _p: PhantomData,
        }
    }

    /// Returns the pages, in order. The memory begins in the first page, at [`Self::offset`].
    #[inline]
    pub fn pages(&self) -> Pages<'_> {
        Pages {
            runs: self.runs(),
            run: None,
        }
    }

    /// Checks whether a region of this memory can be given these access flags in place, for
    /// [`Provider::rereg_user_mr`].
    ///
    /// # Errors
    ///
    /// `EACCES` if they allow writing, the memory is not writable and `mask` does not replace it.
    pub fn check_rereg(&self, mask: crate::provider::RegionMask, access: Access) -> Result {
        // CAST: Flags, whose sign has no meaning.
        // SAFETY: The object is owned by this (type invariant); the function only reads it.
        to_result(unsafe {
            bindings::ib_umem_check_rereg(self.0.as_ptr(), mask.raw() as i32, access.raw() as i32)
        })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: The object is owned by this, with a reference to its device (type invariant).
        unsafe {
            let dev = (*self.0.as_ptr()).ibdev;
            bindings::ib_umem_release(self.0.as_ptr());
            bindings::put_device(model(dev));
        }
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
    /// Returns the number of pages.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether all pages are persistent memory. Any context.
    #[inline]
    pub fn is_pmem(&self) -> bool {
        // SAFETY: The pages are pinned (type invariant); the function only looks up their physical
        // addresses.
        unsafe { bindings::rdma_helper_is_pmem(self.page, self.count) }
    }

    /// Returns the kernel address of the first page. 64-bit kernels map all pages, so the addresses
    /// of a run are contiguous.
    #[inline]
    pub fn address(&self) -> usize {
        // SAFETY: The page is pinned (type invariant); the function only computes its address.
        unsafe { bindings::rdma_helper_page_address(self.page) as usize }
    }
}

/// Iterator over the runs of a [`Umem`].
///
/// # Invariants
///
/// The pages of each entry are contiguous, and pinned for `'a` (`ib_umem_get`).
pub struct Runs<'a> {
    entries: Entries<'a>,
    _p: PhantomData<&'a Umem>,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        // Entries of pinned memory start at a page boundary.
        let (page, count) = self.entries.next()?.pages();
        // INVARIANT: The pages of an entry are contiguous, and pinned for `'a` (invariant of
        // `Runs`).
        Some(Run {
            page: page.into_c(),
            count,
            _pinned: PhantomData,
        })
    }
}

impl FusedIterator for Runs<'_> {}

/// Iterator over the pages of a [`Umem`].
pub struct Pages<'a> {
    runs: Runs<'a>,
    /// The current run, and the number of its pages that were returned.
    run: Option<(Run<'a>, usize)>,
}

impl Iterator for Pages<'_> {
    type Item = NonNull<bindings::page>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match &mut self.run {
                Some((run, done)) if *done < run.count => {
                    // SAFETY: `done` is less than the number of pages of the run.
                    let page = unsafe { bindings::rdma_helper_nth_page(run.page, *done) };
                    // OVERFLOW: `done` was less than the count.
                    *done += 1;
                    return NonNull::new(page);
                }
                _ => self.run = Some((self.runs.next()?, 0)),
            }
        }
    }
}

impl FusedIterator for Pages<'_> {}
