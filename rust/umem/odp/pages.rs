// SPDX-License-Identifier: GPL-2.0

//! Which pages of on-demand memory are there, as softirqs see it.
//!
//! Plain data; whoever owns it has it behind a spinlock, and keeps it true: a page is
//! noted while the process maps it, and forgotten before the process does not any more.

use super::Absent;
use super::Touch;
use crate::accounted;
use crate::bindings;
use core::ops::Range;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

/// The page may be written to.
const WRITABLE: u8 = 1;
/// The page was written to.
const WRITTEN: u8 = 2;

/// How many pages are forgotten under one lock.
const AT_A_TIME: usize = 4096;

/// A row of pages, some of which are there.
pub(super) struct Pages {
    /// Kernel addresses of pages, or zero.
    at: KVVec<usize>,
    state: KVVec<u8>,
    /// How many are there.
    here: usize,
}

/// A page that the core has found.
pub(super) struct Found {
    address: usize,
    writable: bool,
}

impl Found {
    /// What an entry of the core's list says; `None` if it has no page, or one that the kernel
    /// does not map for itself, as those of `memfd_secret`.
    pub(super) fn of(pfn: c_ulong) -> Option<Self> {
        // SAFETY: These functions take any number; the last one's names a page.
        let (address, writable) = unsafe {
            if !bindings::rdma_helper_hmm_pfn_valid(pfn) {
                return None;
            }
            (
                bindings::rdma_helper_hmm_pfn_address(pfn) as usize,
                bindings::rdma_helper_hmm_pfn_writable(pfn),
            )
        };
        (address != 0).then_some(Self { address, writable })
    }
}

impl Pages {
    /// `count` pages, none of which is there, charged to the current task. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(count: usize) -> Result<Self> {
        Ok(Self {
            at: accounted::from_elem(0usize, count)?,
            state: accounted::from_elem(0u8, count)?,
            here: 0,
        })
    }

    /// The kernel's addresses of all pages, zero of those that are not there.
    pub(super) fn addresses(&self) -> &[usize] {
        &self.at
    }

    /// Whether no page is there.
    pub(super) fn is_empty(&self) -> bool {
        self.here == 0
    }

    /// Checks that pages are there for what is about to be done, and notes it.
    ///
    /// # Errors
    ///
    /// [`Absent`]; nothing is noted then.
    pub(super) fn claim(&mut self, wanted: Range<usize>, touch: Touch) -> Result<(), Absent> {
        let there = self.at.get(wanted.clone()).ok_or(Absent)?;
        let states = self.state.get_mut(wanted).ok_or(Absent)?;
        match touch {
            Touch::Nothing => {}
            Touch::Read if there.contains(&0) => return Err(Absent),
            Touch::Read => {}
            Touch::Write => {
                if there.contains(&0) || states.iter().any(|state| state & WRITABLE == 0) {
                    return Err(Absent);
                }
                states.iter_mut().for_each(|state| *state |= WRITTEN);
            }
        }
        Ok(())
    }

    /// Notes a page; the caller sees to it that the process maps it now.
    pub(super) fn note(&mut self, index: usize, page: Found) {
        if let (Some(at), Some(state)) = (self.at.get_mut(index), self.state.get_mut(index)) {
            self.here = self.here.saturating_add(usize::from(*at == 0));
            *at = page.address;
            *state = *state & WRITTEN | if page.writable { WRITABLE } else { 0 };
        }
    }

    /// Forgets pages from `next` on, which it moves along, before `end`: up to one that was
    /// written to, and not so many at a time that a spinlock would be held for long. `None` if
    /// all are forgotten.
    pub(super) fn forget(&mut self, next: &mut usize, end: usize) -> Option<Forgotten> {
        let end = end.min(self.at.len());
        let pause = next.saturating_add(AT_A_TIME);
        // Where none is there, nothing is noted either.
        while *next < end && self.here != 0 {
            if *next == pause {
                return Some(Forgotten { written: None });
            }
            let index = *next;
            *next = index.saturating_add(1);
            if let (Some(at), Some(state)) = (self.at.get_mut(index), self.state.get_mut(index)) {
                let (was, written) = (*at, *state & WRITTEN != 0);
                *at = 0;
                *state = 0;
                if was != 0 {
                    self.here = self.here.saturating_sub(1);
                    if written {
                        return Some(Forgotten { written: Some(was) });
                    }
                }
            }
        }
        None
    }
}

/// Some pages were forgotten, and there may be more. If the last was written to, the kernel has
/// to be told before the process loses it.
#[must_use]
pub(super) struct Forgotten {
    /// The address of that page.
    written: Option<usize>,
}

impl Forgotten {
    /// Tells the kernel.
    ///
    /// # Safety
    ///
    /// The process maps the page still.
    pub(super) unsafe fn tell(self) {
        if let Some(page) = self.written {
            // SAFETY: It is the address of a page that the process maps (contract).
            unsafe { bindings::rdma_helper_set_page_dirty(page as *const core::ffi::c_void) };
        }
    }
}
