// SPDX-License-Identifier: GPL-2.0

//! Pins on pages of a process, and the table of pinned pages that is mapped for a device.

use super::super::pinned::Pinned;
use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::mm::Mm;
use kernel::page::PAGE_SHIFT;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::umem::HostDevice;
use rdma::edge::umem::Umem;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::View;
use rdma::edge::Within;

/// Maximum number of pages pinned at once: their pointers fill a page.
pub(in super::super) const BATCH: usize = PAGE_SIZE / core::mem::size_of::<*mut bindings::page>();

/// Number of segments that are released between calls of `cond_resched`.
const BREATHE: usize = 4096;

rdma::import! {
    in rdma::bindings;

    /// Returns whether the current process may lock memory at all.
    pub(in super::super) fn can_do_mlock() -> bool = can_do_mlock;
    /// Returns whether the current task has a capability (`CAP_*`).
    pub(in super::super) fn capable(capability: c_int) -> bool = capable;
    /// Limit of locked memory of the current process, in bytes.
    pub(in super::super) fn rlimit_memlock() -> usize = rdma_helper_rlimit_memlock;
    /// Adds to the pinned pages of a process. Returns the new number.
    pub(in super::super) fn pinned_vm_add(mm: &Mm, pages: i64) -> i64
        = rdma_helper_pinned_vm_add;
    /// Subtracts from the pinned pages of a process.
    pub(in super::super) fn pinned_vm_sub(mm: &Mm, pages: i64) = rdma_helper_pinned_vm_sub;
    /// Longest segment that the device supports, in bytes.
    pub(in super::super) fn max_segment(device: &Device) -> u32 = rdma_helper_ib_dma_max_seg_size;
}

/// Buffer for page pointers.
pub(in super::super) type Room = [MaybeUninit<*mut bindings::page>];

/// Pages that have just been pinned.
///
/// # Invariants
///
/// The first `count` elements of `pages` are pages pinned by this value, which are in no table.
pub(in super::super) struct Batch<'a> {
    pages: &'a mut Room,
    count: usize,
}

impl<'a> Batch<'a> {
    /// Pins pages of the current process, starting at address `at`: at least one, at most `wanted`,
    /// limited by `room`. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`, `ENOMEM`, `EINTR`.
    pub(in super::super) fn pin(
        at: usize,
        wanted: usize,
        flags: u32,
        room: &'a mut Room,
    ) -> Result<Self> {
        // CAST: At most `BATCH`.
        let wanted = wanted.min(room.len()).min(BATCH) as c_int;
        let pages = room.as_mut_ptr().cast();
        // SAFETY: `room` holds at least `wanted` pointers. The function checks the addresses.
        let got = unsafe { bindings::pin_user_pages_fast(at, wanted, flags, pages) };
        match got {
            ..=0 => Err(to_result(got).err().unwrap_or(EFAULT)),
            // INVARIANT: The function has pinned `got` pages.
            // CAST: Positive, at most `BATCH`.
            _ => Ok(Self {
                pages: room,
                count: got as usize,
            }),
        }
    }

    /// Number of pages.
    pub(in super::super) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let pages = self.pages.as_mut_ptr().cast();
        // SAFETY: The first `count` pages are pinned by this value and not used elsewhere: type
        // invariant.
        unsafe { bindings::unpin_user_pages_dirty_lock(pages, self.count, false) };
    }
}

/// Memory that is pinned, or is being pinned. Dropping it unmaps and unpins it.
///
/// # Invariants
///
/// The pages in `umem`'s table are pinned by this value; if `mapped`, the table is mapped for the
/// device.
pub(in super::super) struct Pins {
    umem: KBox<Umem>,
    mapped: bool,
}

impl Deref for Pins {
    type Target = Umem;

    fn deref(&self) -> &Umem {
        &self.umem
    }
}

impl Pins {
    /// Creates memory without pages. `mm` must be referenced when [`Self::into_raw`] passes it to
    /// C.
    pub(in super::super) fn new(
        host: HostDevice,
        mm: &Mm,
        (addr, len): (usize, usize),
        attrs: usize,
        writable: bool,
    ) -> Result<Self> {
        // Initialised in place, since it is large.
        let umem = KBox::init(
            init!(bindings::ib_umem {
                ibdev: host.into_c(),
                owning_mm: mm.as_raw(),
                iova: addr as u64,
                length: len,
                address: addr,
                dma_attrs: attrs,
                _bitfield_align_1: [],
                _bitfield_1: bindings::ib_umem::new_bitfield_1(writable.into(), 0, 0),
                sgt_append: bindings::sg_append_table::default(),
            }),
            accounted::GFP,
        )?;
        // INVARIANT: The table is empty, and not mapped.
        Ok(Self {
            // SAFETY: The view is transparent over the structure, whose fields have been
            // initialised.
            umem: unsafe { KBox::from_raw(KBox::into_raw(umem).cast()) },
            mapped: false,
        })
    }

    fn table(&self) -> *mut bindings::sg_append_table {
        self.umem
            .raw()
            .wrapping_byte_add(core::mem::offset_of!(bindings::ib_umem, sgt_append))
            .cast()
    }

    /// Adds pages to the table. `left` is the number of pages that will be added later.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in super::super) fn append(
        &mut self,
        batch: Batch<'_>,
        max_segment: u32,
        left: u32,
    ) -> Result {
        let (pages, count) = (batch.pages.as_mut_ptr().cast(), batch.count);
        // SAFETY: Access to the table is exclusive, and it is not mapped while pages are added;
        // `count` pages are pinned: invariant of `Batch`.
        // INVARIANT: The added pages are pinned by this value.
        // CAST: At most `BATCH`.
        to_result(unsafe {
            bindings::sg_alloc_append_table_from_pages(
                self.table(),
                pages,
                // CAST: See above.
                count as u32,
                0,
                count << PAGE_SHIFT,
                max_segment,
                left,
                accounted::FLAGS,
            )
        })?;
        // The pages now belong to the table.
        core::mem::forget(batch);
        Ok(())
    }

    /// Maps the table for the device.
    ///
    /// # Errors
    ///
    /// Those of the mapping.
    pub(in super::super) fn map(&mut self) -> Result {
        let (table, attrs) = (self.table().cast(), self.dma_attrs());
        // SAFETY: The table is the first part of the one with pinned pages, and access to it is
        // exclusive. The device exists: invariant of `HostDevice`.
        to_result(unsafe {
            bindings::rdma_helper_ib_dma_map_sgtable(self.host().into_c(), table, attrs)
        })?;
        // INVARIANT: The table was just mapped.
        self.mapped = true;
        Ok(())
    }

    /// Gives the memory to C, with the reference to `mm` that [`Self::new`] recorded.
    pub(in super::super) fn into_raw(self) -> *mut bindings::ib_umem {
        let this = ManuallyDrop::new(self);
        this.umem.raw()
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let dirty = self.mapped && self.writable();
        if self.mapped {
            let (table, attrs) = (self.table().cast(), self.dma_attrs());
            // SAFETY: The table is mapped: type invariant. The device exists: invariant of
            // `HostDevice`.
            unsafe {
                bindings::rdma_helper_ib_dma_unmap_sgtable(self.host().into_c(), table, attrs)
            };
        }
        for (i, entry) in self.pages().entries().enumerate() {
            let (first, count) = entry.pages();
            // SAFETY: The pages of the entry are pinned by this value: type invariant.
            unsafe {
                bindings::unpin_user_page_range_dirty_lock(first.into_c(), count, dirty);
            }
            if i % BREATHE == BREATHE - 1 {
                super::cond_resched();
            }
        }
        // SAFETY: The table belongs to this value and is no longer used.
        unsafe { bindings::sg_free_append_table(self.table()) };
    }
}

// SAFETY: `from_c` is for pinned memory from `into_raw` that C returns.
unsafe impl FromC for Pinned {
    type C = *mut bindings::ib_umem;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: It is the box from `into_raw`, whose `owning_mm` owns a reference: contract of
        // this function. INVARIANT: Only mapped memory is given to C.
        unsafe {
            let mm = ARef::from_raw(NonNull::new_unchecked((*c).owning_mm).cast());
            let pins = Pins {
                umem: KBox::from_raw(c.cast()),
                mapped: true,
            };
            Self::of(pins, mm)
        }
    }
}

// SAFETY: It owns the memory, so it is not limited to a call.
unsafe impl Within<'_> for Pinned {}
