// SPDX-License-Identifier: GPL-2.0

//! The table of present pages of on-demand memory, for lookup in softirqs.
//!
//! Plain data. The owner protects it by a spinlock and keeps it accurate: a page is recorded while
//! the process maps it, and removed before the process stops mapping it.

use super::Absent;
use super::Touch;
use crate::accounted;
use crate::bindings;
use core::ops::Range;
use kernel::ffi::c_ulong;
use kernel::prelude::*;

/// The page may be written.
const WRITABLE: u8 = 1;
/// The page was written.
const WRITTEN: u8 = 2;

/// Maximum number of pages removed while a lock is held.
const AT_A_TIME: usize = 4096;

/// A sequence of pages, each present or absent.
pub(super) struct Pages {
    /// Kernel addresses of the pages; zero if absent.
    at: KVVec<usize>,
    state: KVVec<u8>,
    /// Number of present pages.
    here: usize,
}

/// A page that the core found.
pub(super) struct Found {
    address: usize,
    writable: bool,
}

impl Found {
    /// Converts an entry of the core's list. `None` if it has no page, or one that the kernel does
    /// not map itself, such as those of `memfd_secret`.
    pub(super) fn of(pfn: c_ulong) -> Option<Self> {
        // SAFETY: These functions accept any number; that of the last one names a page, as checked.
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
    /// Creates a table of `count` absent pages, charged to the current task. May sleep.
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

    /// Returns the kernel addresses of all pages; zero for absent ones.
    pub(super) fn addresses(&self) -> &[usize] {
        &self.at
    }

    /// Returns whether all pages are absent.
    pub(super) fn is_empty(&self) -> bool {
        self.here == 0
    }

    /// Checks that pages are present for an access, and records the access.
    ///
    /// # Errors
    ///
    /// [`Absent`]; nothing was recorded then.
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

    /// Records a page as present; the caller ensures that the process maps it now.
    pub(super) fn note(&mut self, index: usize, page: Found) {
        if let (Some(at), Some(state)) = (self.at.get_mut(index), self.state.get_mut(index)) {
            self.here = self.here.saturating_add(usize::from(*at == 0));
            *at = page.address;
            *state = *state & WRITTEN | if page.writable { WRITABLE } else { 0 };
        }
    }

    /// Removes pages from `next` on, which it advances, to `end`: up to a page that was written,
    /// and a limited number per call, because a spinlock is held. `None` once all are removed.
    pub(super) fn forget(&mut self, next: &mut usize, end: usize) -> Option<Forgotten> {
        let end = end.min(self.at.len());
        let pause = next.saturating_add(AT_A_TIME);
        // If no page is present, there is nothing to remove.
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

/// Some pages were removed, and there may be more. If the last one was written, the kernel must be
/// told before the process loses it.
#[must_use]
pub(super) struct Forgotten {
    /// Address of that page.
    written: Option<usize>,
}

impl Forgotten {
    /// Marks the page dirty, if it was written.
    ///
    /// # Safety
    ///
    /// The process must still map the page.
    pub(super) unsafe fn tell(self) {
        if let Some(page) = self.written {
            // SAFETY: It is the address of a page that the process maps (contract of this
            // function).
            unsafe { bindings::rdma_helper_set_page_dirty(page as *const core::ffi::c_void) };
        }
    }
}
