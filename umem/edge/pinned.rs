// SPDX-License-Identifier: GPL-2.0

//! Pins on pages of a process, and the table that a device's mapping is made of.

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
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::umem::HostDevice;
use rdma::edge::umem::Umem;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::View;
use rdma::edge::Within;

/// As many pages are pinned at once: their pointers fill a page.
pub(in super::super) const BATCH: usize = PAGE_SIZE / core::mem::size_of::<*mut bindings::page>();

/// So many segments are let go before somebody else may run.
const BREATHE: usize = 4096;

rdma::import! {
    in rdma::bindings;

    /// Whether the current process may lock memory at all.
    pub(in super::super) fn can_do_mlock() -> bool = can_do_mlock;
    /// Whether the current task has a capability (`CAP_*`).
    pub(in super::super) fn capable(capability: c_int) -> bool = capable;
    /// The current process's limit of locked memory, in bytes.
    pub(in super::super) fn rlimit_memlock() -> usize = rdma_helper_rlimit_memlock;
    /// Adds to what a process has pinned. The pages it has pinned then.
    pub(in super::super) fn pinned_vm_add(mm: &Mm, pages: i64) -> i64
        = rdma_helper_pinned_vm_add;
    /// Takes from what a process has pinned.
    pub(in super::super) fn pinned_vm_sub(mm: &Mm, pages: i64) = rdma_helper_pinned_vm_sub;
    /// The longest segment that the device takes.
    pub(in super::super) fn max_segment(device: &Device) -> u32 = rdma_helper_ib_dma_max_seg_size;
}

/// Room for the pointers of pages.
pub(in super::super) type Room = [MaybeUninit<*mut bindings::page>];

/// Pages that were pinned just now.
///
/// # Invariants
///
/// The first `count` elements of `pages` are pages that are pinned by us, and in no table.
pub(in super::super) struct Batch<'a> {
    pages: &'a mut Room,
    count: usize,
}

impl<'a> Batch<'a> {
    /// Pins pages of the current process from `at` on, at most `wanted`, and at most as many as
    /// there is room for. May sleep. At least one.
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
        // CAST: at most `BATCH`.
        let wanted = wanted.min(room.len()).min(BATCH) as c_int;
        let pages = room.as_mut_ptr().cast();
        // SAFETY: There is room for as many pointers. The function checks the addresses.
        let got = unsafe { bindings::pin_user_pages_fast(at, wanted, flags, pages) };
        match got {
            ..=0 => Err(to_result(got).err().unwrap_or(EFAULT)),
            // INVARIANT: The function has pinned so many.
            // CAST: not negative, at most `BATCH`.
            _ => Ok(Self {
                pages: room,
                count: got as usize,
            }),
        }
    }

    /// How many.
    pub(in super::super) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let pages = self.pages.as_mut_ptr().cast();
        // SAFETY: So many are pinned by us, and nothing else has them: type invariant.
        unsafe { bindings::unpin_user_pages_dirty_lock(pages, self.count, false) };
    }
}

/// Memory that is, or becomes, pinned. Dropping it unmaps and unpins it.
///
/// # Invariants
///
/// The pages in `umem`'s table are pinned by us; if `mapped`, the table is mapped for the device.
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
    /// Memory with no pages yet, which [`Self::into_raw`] must give to C with a reference to `mm`.
    pub(in super::super) fn new(
        host: HostDevice,
        mm: &Mm,
        (addr, len): (usize, usize),
        attrs: usize,
        writable: bool,
    ) -> Result<Self> {
        // In its place, since it is large to be copied.
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
            GFP_KERNEL,
        )?;
        // INVARIANT: The table is empty, and not mapped.
        Ok(Self {
            // SAFETY: The view is transparent over the structure, whose fields are written.
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

    /// Adds pages to the table. `left` more are to come.
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
        // SAFETY: The table is in memory that is ours alone, and not mapped while pages are added;
        // so many pages are pinned: invariant of `Batch`.
        // INVARIANT: What gets into the table is pinned by us.
        // CAST: at most `BATCH`.
        to_result(unsafe {
            bindings::sg_alloc_append_table_from_pages(
                self.table(),
                pages,
                // CAST: as above.
                count as u32,
                0,
                count << PAGE_SHIFT,
                max_segment,
                left,
                bindings::GFP_KERNEL,
            )
        })?;
        // The table has them now.
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
        // SAFETY: The table is the first part of the one with pinned pages, and ours alone; the
        // device exists: invariant of `HostDevice`.
        to_result(unsafe {
            bindings::rdma_helper_ib_dma_map_sgtable(self.host().into_c(), table, attrs)
        })?;
        // INVARIANT: Just mapped.
        self.mapped = true;
        Ok(())
    }

    /// Gives it to C, with the reference to the process's memory that [`Self::new`] noted.
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
            // SAFETY: The pages of the entry are pinned by us: type invariant.
            unsafe {
                bindings::unpin_user_page_range_dirty_lock(first.into_c(), count, dirty);
            }
            if i % BREATHE == BREATHE - 1 {
                super::cond_resched();
            }
        }
        // SAFETY: The table is ours, and not used any more.
        unsafe { bindings::sg_free_append_table(self.table()) };
    }
}

// SAFETY: `from_c`'s contract is that C gives back pinned memory, which is what `into_raw` gave it.
unsafe impl FromC for Pinned {
    type C = *mut bindings::ib_umem;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: By the contract of this function it is the box of `into_raw`, whose `owning_mm` has
        // been given a reference. INVARIANT: Only what is mapped is given to C.
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

// SAFETY: It owns the memory, so it is not limited by a call.
unsafe impl Within<'_> for Pinned {}
