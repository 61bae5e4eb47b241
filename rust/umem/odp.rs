// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that is not pinned: pages come when they are wanted, and the
//! kernel takes them back when it wants them.
//!
//! An [`OnDemand`] is a short range of a process's addresses, with a table of all its pages; a
//! [`Chunked`] is a long one, or all of them, with tables of those that are used. Both are used in
//! two ways:
//!
//! * [`OnDemand::with`], in any context: uses pages that are there, and says so if one is
//!   not;
//! * [`OnDemand::fault_in`], which may sleep: brings pages in, so that a later `with`
//!   finds them, if it comes before the kernel takes them back.
//!
//! What is there is kept in a table of our own behind a spinlock, since the one of
//! `struct ib_umem_odp` is behind a mutex, which softirqs cannot take:
//!
//! ```text
//!   fault_in ---> core: page table walk, umem_mutex ---> table <--- with
//!                                                          ^
//!   kernel changes the mapping ---> invalidate, umem_mutex +
//! ```
//!
//! | file | what |
//! |---|---|
//! | `pages` | which pages are there |
//! | `raw` | the core's structure, and what is done with it |
//! | `chunked` | large ranges, and the whole address space |
//! | `uses` | the end of memory while somebody brings pages in |
//!
//! # Locks
//!
//! `ib_umem_odp::umem_mutex`, then the table's lock. Nothing is allocated under either:
//! the kernel may invalidate in order to free memory.
//!
//! C headers: `include/rdma/ib_umem_odp.h`, `include/linux/mmu_notifier.h`,
//! `include/linux/hmm.h`.

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
use crate::gate::word::Word;
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
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;

/// A page is not there, or not for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absent;

/// What is to be done with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Nothing: they need not be there.
    Nothing,
    /// Reading.
    Read,
    /// Writing, and reading.
    Write,
}

/// Memory of a process that comes on demand.
///
/// Call [`OnDemand::release`] before dropping it where one must not sleep.
///
/// # Invariants
///
/// Until it has ended ([`Ends`]), `umem` is a `struct ib_umem_odp` that we own, with pages of
/// `PAGE_SIZE`, whose `private` is `mirror`. The mirror has an entry for each of its pages.
pub struct OnDemand {
    umem: NonNull<bindings::ib_umem_odp>,
    uses: Word,
    released: Atomic<bool>,
    mirror: Pin<KBox<Mirror>>,
    len: usize,
    offset: usize,
    writable: bool,
}

// SAFETY: Any task may release the memory and bring pages in.
unsafe impl Send for OnDemand {}
// SAFETY: What changes is behind the umem's mutex or the mirror's lock.
unsafe impl Sync for OnDemand {}

/// Which pages are there.
///
/// # Invariants
///
/// While `pages` is locked, every page in it that is there is one which the process maps,
/// for writing if it says so: who changes the mapping calls [`invalidate`] first, and waits
/// for it.
#[pin_data]
struct Mirror {
    #[pin]
    pages: SpinLockIrq<Pages>,
}

/// Part of the module that uses it, as all of this crate is; hence no `static`.
const OPS: &bindings::mmu_interval_notifier_ops = &bindings::mmu_interval_notifier_ops {
    invalidate: Some(invalidate),
    // SAFETY: All zero is none of the other operations.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
};

impl OnDemand {
    /// The `len` bytes at `addr` of the current process, none of which is there yet. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes; `EOVERFLOW` for an end beyond the address space; `ENOMEM`;
    /// `EINTR` if the process is being killed; `EOPNOTSUPP` if the kernel has no paging
    /// on demand.
    pub fn get<P: Provider>(dev: &Device<P>, addr: u64, len: u64, access: Access) -> Result<Self> {
        if !Self::is_supported() {
            return Err(unsupported());
        }
        let addr = usize::try_from(addr).map_err(|_| EINVAL)?;
        let len = usize::try_from(len).map_err(|_| EINVAL)?;
        // CAST: flags, whose sign has no meaning.
        // SAFETY: The device is registered, and the table lives for ever. The function
        // checks the other arguments.
        let umem = from_err_ptr(unsafe {
            bindings::rdma_helper_odp_get(dev.as_raw(), addr, len, access.raw() as i32, OPS)
        })?;
        let umem = Owned(NonNull::new(umem).ok_or(ENOMEM)?);
        // SAFETY: It is ours, and these fields stay as they are.
        let (start, end, shift, c) = unsafe {
            let umem = umem.0.as_ptr();
            (
                bindings::rdma_helper_odp_start(umem),
                bindings::rdma_helper_odp_end(umem),
                (*umem).page_shift,
                &(*umem).umem,
            )
        };
        let (len, offset, writable) = (c.length, c.address & (PAGE_SIZE - 1), c.writable() != 0);
        // CAST: a small number.
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
        // SAFETY: The mirror outlives the notifier, which is ours.
        unsafe { umem.set_private::<Mirror>(&*mirror) };
        // INVARIANT: As just made.
        Ok(Self {
            umem: umem.release(),
            uses: Word::new(),
            released: Atomic::new(false),
            mirror,
            len,
            offset,
            writable,
        })
    }

    /// Whether so many bytes are better kept in chunks ([`Chunked`]). A shorter range costs no more
    /// than one chunk.
    pub const fn is_long(len: u64) -> bool {
        len > chunked::CHUNK
    }

    /// Whether this kernel has paging on demand.
    pub const fn is_supported() -> bool {
        cfg!(CONFIG_INFINIBAND_ON_DEMAND_PAGING)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where in the first page it begins, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the device may write to it.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Lets `f` use pages. It gets the kernel's addresses of all pages, of which only
    /// those in `wanted` mean anything, and those may be used while it runs; for writing
    /// if `touch` says so. It runs under a spinlock with interrupts off. Any context.
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

    /// Brings pages in, and says how many came. Without `fault`, only those come that the
    /// process has in memory. May sleep, for long.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the process has no such memory, or none it may write to and `touch` is
    /// to write; `EINVAL` if the process is gone or the memory was released; `EBUSY` if
    /// the process changes its mappings all the time.
    pub fn fault_in(&self, wanted: Range<usize>, touch: Touch, fault: bool) -> Result<usize> {
        let write = match touch {
            Touch::Nothing => return Ok(0),
            Touch::Read => false,
            Touch::Write => true,
        };
        if write && !self.writable() {
            return Err(EFAULT);
        }
        let _use = Use::of(self).ok_or(EINVAL)?;
        // SAFETY: By the type invariant, as it is in use.
        unsafe {
            raw::bring(self.umem.as_ptr(), wanted, write, fault, |index, page| {
                // INVARIANT: The process maps it while `bring` tells of it.
                self.mirror.pages.lock().note(index, page);
            })
        }
    }

    /// Gives the memory back: no more pages come. Those that are there, and whatever pages that are
    /// being brought in need, go when nobody brings pages in any more. May sleep, but not the
    /// second time.
    pub fn release(&self) {
        if !self.released.xchg(true, Full) {
            uses::close(self);
        }
    }

    /// As [`Umem::check_rereg`](super::Umem::check_rereg).
    pub fn check_rereg(&self, mask: RegionMask, access: Access) -> Result {
        let _use = Use::of(self).ok_or(EINVAL)?;
        // SAFETY: By the type invariant, as it is in use.
        unsafe { raw::check_rereg(self.umem, mask, access) }
    }
}

impl Ends for OnDemand {
    fn uses(&self) -> &Word {
        &self.uses
    }

    fn end(&self) {
        let umem = self.umem.as_ptr();
        // SAFETY: By the type invariant it was ours until now. The process maps its pages while the
        // notifier stands. Afterwards that does not run any more, so the mirror may go.
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
    /// Forgets pages, some of which need not exist.
    ///
    /// # Safety
    ///
    /// The umem's mutex is held, and the process maps the pages still.
    unsafe fn forget(&self, gone: Range<usize>) {
        let mut next = gone.start;
        loop {
            let forgotten = self.pages.lock().forget(&mut next, gone.end);
            match forgotten {
                // SAFETY: The process maps these pages (contract).
                Some(pages) => unsafe { pages.tell() },
                None => return,
            }
        }
    }
}

/// The kernel is about to change what the process maps in a range. May sleep if the range
/// says so; the pages are not used any more when it returns.
///
/// # Safety
///
/// For the memory management to call, about the notifier of an [`OnDemand`].
unsafe extern "C" fn invalidate(
    notifier: *mut bindings::mmu_interval_notifier,
    range: *const bindings::mmu_notifier_range,
    seq: c_ulong,
) -> bool {
    // SAFETY: The arguments are those that the memory management calls a notifier with (contract),
    // before the process's pages change. `raw::invalidate` holds the umem's mutex around the closure.
    unsafe {
        raw::invalidate(notifier, range, seq, |private, _, gone| {
            // Set by `get`, after the notifier; until then there are no pages.
            if let Some(mirror) = private.cast::<Mirror>().as_ref() {
                mirror.forget(gone);
            }
        })
    }
}
