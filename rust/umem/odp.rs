// SPDX-License-Identifier: GPL-2.0

//! On-demand memory: pages of a process that are not pinned. They are faulted in when needed, and
//! the kernel may reclaim them.
//!
//! An [`OnDemand`] is a short range of a process's addresses, with a table of all its pages; a
//! [`Chunked`] is a long range or the whole address space, with tables of the parts that are used.
//! Both are used in two ways:
//!
//! * [`OnDemand::with`], in any context, accesses present pages, and fails if one is absent;
//! * [`OnDemand::fault_in`], which may sleep, faults pages in, so that a later `with` finds them
//!   unless the kernel has reclaimed them in between.
//!
//! Present pages are recorded in a separate table behind a spinlock, because the list of `struct
//! ib_umem_odp` is protected by a mutex, which softirqs cannot take:
//!
//! ```text
//!   fault_in ---> core: page table walk, umem_mutex ---> table <--- with
//!                                                          ^
//!   kernel changes the mapping ---> invalidate, umem_mutex +
//! ```
//!
//! | file | what |
//! |---|---|
//! | `pages` | the table of present pages |
//! | `raw` | the core's structure and its functions |
//! | `chunked` | long ranges and the whole address space |
//! | `uses` | the end of memory of which pages are being faulted in |
//!
//! # Locks
//!
//! `ib_umem_odp::umem_mutex`, then the table's lock. Nothing is allocated under either: the kernel
//! may invalidate pages in order to free memory.
//!
//! C headers: `include/rdma/ib_umem_odp.h`, `include/linux/mmu_notifier.h`, `include/linux/hmm.h`.

mod chunked;
mod pages;
mod raw;
mod uses;

pub use chunked::Chunked;
pub use chunked::There;

use self::pages::Pages;
use self::raw::Owned;
use self::uses::Ends;
use self::uses::Use;
use crate::accounted;
use crate::bindings;
use crate::edge::umem::Umem as Fields;
use crate::edge::View;
use crate::gate::word::Word;
use crate::module::Resident;
use crate::new_spinlock_irq;
use crate::provider::unsupported;
use crate::provider::Access;
use crate::provider::Device;
use crate::provider::Provider;
use crate::provider::RegionMask;
use crate::sync::SpinLockIrq;
use core::ops::Range;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_ulong;
use kernel::page::PAGE_SHIFT;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// A page is absent, or present but not writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent;

/// Intended access to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// None: the pages need not be present.
    Nothing,
    /// Read.
    Read,
    /// Write, or read and write.
    Write,
}

impl Touch {
    /// Returns whether pages of memory are to be faulted in for writing; `None` if they need not be
    /// present.
    ///
    /// # Errors
    ///
    /// `EFAULT` for a write to memory that is not `writable`.
    fn to_fault(self, writable: bool) -> Result<Option<bool>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Read => Ok(Some(false)),
            Self::Write if writable => Ok(Some(true)),
            Self::Write => Err(EFAULT),
        }
    }
}

/// On-demand memory of a process.
///
/// Call [`OnDemand::release`] before dropping it in a context that must not sleep.
///
/// # Invariants
///
/// Until it has ended ([`Ends`]), `umem` is a `struct ib_umem_odp` that this owns, with pages of
/// `PAGE_SIZE` and `private` set to `mirror`. The mirror has an entry for each of its pages.
pub struct OnDemand {
    umem: NonNull<bindings::ib_umem_odp>,
    uses: Word,
    mirror: Pin<KBox<Mirror>>,
    len: usize,
    offset: usize,
    writable: bool,
    /// The notifier is the module's code.
    _resident: Resident,
}

// SAFETY: Any task may release the memory and fault pages in.
unsafe impl Send for OnDemand {}
// SAFETY: Changing data is protected by the umem's mutex or the mirror's lock.
unsafe impl Sync for OnDemand {}

/// The table of present pages.
///
/// # Invariants
///
/// While `pages` is locked, the process maps each page that is recorded as present, and maps it
/// writable if it is recorded as writable: before the mapping changes, the kernel calls
/// [`invalidate`] and waits for it.
#[pin_data]
struct Mirror {
    #[pin]
    pages: SpinLockIrq<Pages>,
}

const OPS: &bindings::mmu_interval_notifier_ops = &raw::ops(invalidate);

impl OnDemand {
    /// Creates on-demand memory from `len` bytes at `addr` of the current process. No page is
    /// present at first. May sleep. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is zero; `EOVERFLOW` if the end is beyond the address space; `ENOMEM`;
    /// `EINTR` if the process is being killed; `EOPNOTSUPP` if the kernel does not support
    /// on-demand paging.
    pub fn get<P: Provider>(
        resident: Resident,
        dev: &Device<P>,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Result<Self> {
        if !Self::is_supported() {
            return Err(unsupported());
        }
        let addr = usize::try_from(addr).map_err(|_| EINVAL)?;
        let len = usize::try_from(len).map_err(|_| EINVAL)?;
        // CAST: Flags, whose sign has no meaning.
        // SAFETY: The device is registered (`Device`), and the operations are a constant of the
        // module, which `resident` keeps. The function checks the other arguments.
        let umem = from_err_ptr(unsafe {
            bindings::rdma_helper_odp_get(dev.as_raw(), addr, len, access.raw() as i32, OPS)
        })?;
        let umem = Owned(NonNull::new(umem).ok_or(ENOMEM)?);
        // SAFETY: `umem` owns the object; these fields do not change.
        let (start, end, shift, c) = unsafe {
            let umem = umem.0.as_ptr();
            (
                bindings::rdma_helper_odp_start(umem),
                bindings::rdma_helper_odp_end(umem),
                (*umem).page_shift,
                Fields::view(&raw mut (*umem).umem),
            )
        };
        let (len, offset, writable) = (c.length(), c.address() & (PAGE_SIZE - 1), c.writable());
        // CAST: A small number.
        if shift != PAGE_SHIFT as u32 {
            return Err(EINVAL);
        }
        let count = usize::try_from(end.saturating_sub(start) >> PAGE_SHIFT)?;
        let pages = Pages::new(count)?;
        let mirror = KBox::pin_init(
            pin_init!(Mirror {
                pages <- new_spinlock_irq!(pages, "umem::odp::Mirror::pages"),
            }),
            accounted::GFP,
        )?;
        // SAFETY: The mirror outlives the notifier, which `end` removes first.
        unsafe { umem.set_private::<Mirror>(&*mirror) };
        // INVARIANT: Established above.
        Ok(Self {
            umem: umem.release(),
            uses: Word::new(),
            mirror,
            len,
            offset,
            writable,
            _resident: resident,
        })
    }

    /// Returns whether memory of `len` bytes should be kept in chunks ([`Chunked`]). The table of a
    /// shorter range is no larger than that of one chunk.
    pub const fn is_long(len: u64) -> bool {
        len > chunked::CHUNK
    }

    /// Returns whether the kernel supports on-demand paging.
    pub const fn is_supported() -> bool {
        cfg!(CONFIG_INFINIBAND_ON_DEMAND_PAGING)
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the length is zero, which never is the case.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset of the memory in its first page, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns whether the device may write to the memory.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Calls `f` with the kernel addresses of all pages. Only the pages in `wanted` are valid,
    /// while `f` runs; they are writable if `touch` says so. `f` runs under a spinlock with
    /// interrupts disabled. Any context.
    ///
    /// # Errors
    ///
    /// [`Absent`]; `f` was not called then.
    pub fn with<R>(
        &self,
        wanted: Range<usize>,
        touch: Touch,
        f: impl FnOnce(&[usize]) -> R,
    ) -> Result<R, Absent> {
        let mut pages = self.mirror.pages.lock();
        pages.claim(wanted, touch)?;
        Ok(f(pages.addresses()))
    }

    /// Faults pages in and returns their number. Without `fault`, only pages that the process has
    /// in memory are made present. May sleep, and take long.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the process does not map the memory, or not writable though `touch` is a write;
    /// `EINVAL` if the process is gone or the memory was released; `EBUSY` if the process changes
    /// its mappings continually.
    pub fn fault_in(&self, wanted: Range<usize>, touch: Touch, fault: bool) -> Result<usize> {
        let Some(write) = touch.to_fault(self.writable)? else {
            return Ok(0);
        };
        let _use = Use::of(self).ok_or(EINVAL)?;
        // SAFETY: While it is used it has not ended, so `umem` is valid, and not implicit (type
        // invariant).
        unsafe {
            raw::bring(self.umem.as_ptr(), wanted, write, fault, |index, page| {
                // INVARIANT: The process maps the page while `bring` reports it.
                self.mirror.pages.lock().note(index, page);
            })
        }
    }

    /// Releases the memory: no more pages become present. Pages that are present, and the memory
    /// itself, are released at once if no `fault_in` runs, otherwise when the last of them ends, for
    /// which this does not wait. May sleep; a second call does not.
    pub fn release(&self) {
        uses::close(self);
    }

    /// See [`Umem::check_rereg`](super::Umem::check_rereg).
    pub fn check_rereg(&self, mask: RegionMask, access: Access) -> Result {
        let _use = Use::of(self).ok_or(EINVAL)?;
        // SAFETY: While it is used it has not ended, so `umem` is valid (type invariant).
        unsafe { raw::check_rereg(self.umem, mask, access) }
    }
}

impl Ends for OnDemand {
    fn uses(&self) -> &Word {
        &self.uses
    }

    unsafe fn end(&self) {
        let umem = self.umem.as_ptr();
        // SAFETY: The umem was owned until now (type invariant), and this is called once (contract
        // of this function). The process maps the pages while the notifier is registered.
        // `odp_release` waits until it does not run any more, so the mirror may be freed afterwards.
        unsafe {
            bindings::rdma_helper_odp_lock(umem);
            self.mirror.forget(0..usize::MAX);
            bindings::rdma_helper_odp_unlock(umem);
            bindings::rdma_helper_odp_release(umem);
        }
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        self.release();
    }
}

impl Mirror {
    /// Records pages as absent. Indices without a page are ignored.
    ///
    /// # Safety
    ///
    /// The umem's mutex must be held, and the process must still map the pages.
    unsafe fn forget(&self, gone: Range<usize>) {
        let mut next = gone.start;
        loop {
            let forgotten = self.pages.lock().forget(&mut next, gone.end);
            match forgotten {
                // SAFETY: The process maps these pages (contract of this function).
                Some(pages) => unsafe { pages.tell() },
                None => return,
            }
        }
    }
}

/// Called by the kernel before it changes what the process maps in a range. May sleep if the range
/// permits it. The pages are not used any more when it returns.
///
/// # Safety
///
/// Only for the memory management, for the notifier of an [`OnDemand`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    // SAFETY: The arguments are those of a call of a notifier by the memory management (contract of
    // this function), before the process's pages change. `raw::invalidate` holds the umem's mutex
    // around the closure.
    unsafe {
        raw::invalidate(notifier, range, seq, |private, _, gone| {
            // `get` sets it after the notifier is registered; before that no page is present.
            if let Some(mirror) = private.cast::<Mirror>().as_ref() {
                mirror.forget(gone);
            }
        })
    }
}
