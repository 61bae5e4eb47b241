// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that stays where it is.
//!
//! A [`Pinned`] owns, in the order in which it gets them: a charge against the process's
//! limit of locked memory, pins on its pages, a mapping for the device. Dropping it gives
//! back what there is, in the opposite order, whichever process does so and whether the
//! one that was charged still lives.

use super::scatter;
use super::scatter::Entries;
use super::Span;
use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::page::PAGE_SHIFT;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;
use rdma::provider::unsupported;

/// As many pages are pinned at once: their pointers fill a page.
const BATCH: usize = PAGE_SIZE / core::mem::size_of::<*mut bindings::page>();

/// The pointers of as many pages are kept on the stack, and no memory is got for them.
const FEW: usize = 16;

/// Room for the pointers of pages.
type Pages = [MaybeUninit<*mut bindings::page>];

/// So many segments are let go before somebody else may run.
const BREATHE: usize = 4096;

/// Pinned memory.
///
/// # Invariants
///
/// All pages in `umem`'s table are pinned, by us, and if `mapped`, the table is mapped for
/// the device. The device exists until the value is dropped.
pub(super) struct Pinned {
    umem: KBox<bindings::ib_umem>,
    mapped: bool,
    /// Given back last.
    _charge: Charge,
}

impl Pinned {
    /// Pins and maps `len` bytes at `addr` of the current process. May sleep, for long.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device cannot reach such memory, or it is to come on demand;
    /// `EINVAL` for no pages, or an end beyond the address space; `EPERM` or `ENOMEM` if
    /// the process may not lock as much; `EFAULT` if it has no such memory, or none that it
    /// may write to and `access` is to write; `EINTR` if it is being killed; those of the
    /// mapping.
    ///
    /// # Safety
    ///
    /// The device exists until the value is dropped.
    pub(super) unsafe fn get(
        device: *mut bindings::ib_device,
        addr: usize,
        len: usize,
        access: c_int,
    ) -> Result<Self> {
        // SAFETY: By this function's duty. The bit is written before registration only.
        if unsafe { (*device).cc_dma_bounce() } != 0 {
            return Err(unsupported());
        }
        let span = Span::of(addr, len).ok_or(EINVAL)?;
        // SAFETY: Process context.
        if !unsafe { bindings::can_do_mlock() } {
            return Err(EPERM);
        }
        // CAST: a bit of the flags.
        if access & bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int != 0 {
            return Err(unsupported());
        }
        if span.count == 0 || u32::try_from(span.count).is_err() {
            return Err(EINVAL);
        }
        // SAFETY: The function only looks at the flags.
        let writable = unsafe { bindings::rdma_helper_ib_access_writable(access) };
        // CAST: a few bits.
        let mut attrs = bindings::DMA_ATTR_REQUIRE_COHERENT as usize;
        if access & bindings::ib_access_flags_IB_ACCESS_RELAXED_ORDERING as c_int != 0 {
            attrs |= bindings::DMA_ATTR_WEAK_ORDERING as usize;
        }

        let mut few = [const { MaybeUninit::uninit() }; FEW];
        let mut many: Option<KVec<*mut bindings::page>> = None;
        let batch: &mut Pages = if span.count <= FEW {
            &mut few
        } else {
            let many = many.insert(KVec::with_capacity(span.count.min(BATCH), GFP_KERNEL)?);
            many.spare_capacity_mut()
        };
        let charge = Charge::current(span.count)?;
        // In its place, since it is large to be copied.
        let umem = KBox::init(
            init!(bindings::ib_umem {
                ibdev: device,
                owning_mm: charge.mm.as_ptr(),
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
        let mut pinned = Self {
            umem,
            mapped: false,
            _charge: charge,
        };
        pinned.pin(span, batch)?;
        // SAFETY: The device exists by this function's duty; the table holds pinned pages.
        to_result(unsafe {
            bindings::rdma_helper_ib_dma_map_sgtable(device, &mut pinned.umem.sgt_append.sgt, attrs)
        })?;
        // INVARIANT: It was just mapped.
        pinned.mapped = true;
        Ok(pinned)
    }

    /// Pins all pages of `span` into the table, as many at once as there is room for in
    /// `batch`, which is not empty.
    fn pin(&mut self, span: Span, batch: &mut Pages) -> Result {
        let pages: *mut *mut bindings::page = batch.as_mut_ptr().cast();
        // SAFETY: The device exists by the type invariant.
        let max_segment = unsafe { bindings::rdma_helper_ib_dma_max_seg_size(self.umem.ibdev) };
        let mut flags = bindings::FOLL_LONGTERM;
        if self.umem.writable() != 0 {
            flags |= bindings::FOLL_WRITE;
        }
        let mut at = span.first;
        let mut left = span.count;
        while left != 0 {
            // SAFETY: Process context, no lock held.
            unsafe { bindings::rdma_helper_cond_resched() };
            // CAST: at most `BATCH`.
            let wanted = left.min(batch.len()).min(BATCH) as c_int;
            // SAFETY: There is room for as many pointers. The function checks the addresses.
            let got = unsafe { bindings::pin_user_pages_fast(at, wanted, flags, pages) };
            // CAST: not negative, at most `BATCH`.
            let got = match got {
                ..=0 => return Err(to_result(got).err().unwrap_or(EFAULT)),
                _ => got as usize,
            };
            // OVERFLOW: never more than was wanted; the span is within the address space.
            at += got << PAGE_SHIFT;
            left -= got;
            // INVARIANT: What is in the table is pinned.
            // CAST: a count of at most `BATCH`, and one that was checked to have 32 bits.
            // SAFETY: The table is ours, the pages are pinned.
            let added = to_result(unsafe {
                bindings::sg_alloc_append_table_from_pages(
                    &mut self.umem.sgt_append,
                    pages,
                    got as u32,
                    0,
                    got << PAGE_SHIFT,
                    max_segment,
                    left as u32,
                    bindings::GFP_KERNEL,
                )
            });
            if let Err(e) = added {
                // SAFETY: They are pinned and did not get into the table.
                unsafe { bindings::unpin_user_pages_dirty_lock(pages, got, false) };
                return Err(e);
            }
        }
        Ok(())
    }

    /// Gives it to C.
    pub(super) fn into_raw(self) -> NonNull<bindings::ib_umem> {
        let mut this = ManuallyDrop::new(self);
        // The box and the charge are in what we return; nothing else is to be dropped.
        NonNull::from(&mut *this.umem)
    }

    /// Takes it back.
    ///
    /// # Safety
    ///
    /// `umem` is from [`Self::into_raw`], once; its device exists until the value is
    /// dropped.
    pub(super) unsafe fn from_raw(umem: *mut bindings::ib_umem) -> Self {
        // SAFETY: By this function's duty it is from a box, and never null.
        let (umem, mm) = unsafe {
            let mm = NonNull::new_unchecked((*umem).owning_mm);
            (KBox::from_raw(umem), mm)
        };
        // What was charged follows from what nobody writes to, not from `iova`.
        let pages = scatter::page_count(&umem);
        // INVARIANT: Only what is mapped is given to C.
        Self {
            umem,
            mapped: true,
            _charge: Charge { mm, pages },
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let dirty = self.mapped && self.umem.writable() != 0;
        if self.mapped {
            let (device, attrs) = (self.umem.ibdev, self.umem.dma_attrs);
            // SAFETY: By the type invariant.
            unsafe {
                bindings::rdma_helper_ib_dma_unmap_sgtable(
                    device,
                    &mut self.umem.sgt_append.sgt,
                    attrs,
                )
            };
        }
        for (i, sg) in Entries::of_pages(&self.umem.sgt_append.sgt).enumerate() {
            // SAFETY: By the type invariant the pages of the entry are pinned by us.
            unsafe {
                // CAST: from 32 bits.
                let pages = ((*sg).length as usize).div_ceil(PAGE_SIZE);
                bindings::unpin_user_page_range_dirty_lock(
                    bindings::rdma_helper_sg_page(sg),
                    pages,
                    dirty,
                );
            }
            if i % BREATHE == BREATHE - 1 {
                // SAFETY: Process context, no lock held.
                unsafe { bindings::rdma_helper_cond_resched() };
            }
        }
        // SAFETY: The table is ours and not used any more.
        unsafe { bindings::sg_free_append_table(&mut self.umem.sgt_append) };
    }
}

/// Pages that a process is charged with.
///
/// # Invariants
///
/// We hold a reference to `mm`, and have added `pages` to what it has pinned.
struct Charge {
    mm: NonNull<bindings::mm_struct>,
    pages: usize,
}

impl Charge {
    /// Charges the current process. `ENOMEM` if that is beyond its limit, and it has not
    /// the right to go beyond.
    fn current(pages: usize) -> Result<Self> {
        // SAFETY: The current task exists.
        let mm = NonNull::new(unsafe { (*bindings::get_current()).mm }).ok_or(EINVAL)?;
        // SAFETY: The process of the current task has its memory.
        unsafe { bindings::mmgrab(mm.as_ptr()) };
        // CAST: the caller's count has 32 bits.
        // SAFETY: We hold the memory.
        let pinned = unsafe { bindings::rdma_helper_pinned_vm_add(mm.as_ptr(), pages as i64) };
        // INVARIANT: Both were just done. If it was too much, the drop takes them back.
        let charge = Self { mm, pages };
        // SAFETY: No preconditions.
        let limit = unsafe { bindings::rdma_helper_rlimit_memlock() } >> PAGE_SHIFT;
        let beyond = usize::try_from(pinned).map_or(true, |pinned| pinned > limit);
        // CAST: a small number.
        // SAFETY: Process context.
        if beyond && !unsafe { bindings::capable(bindings::CAP_IPC_LOCK as c_int) } {
            return Err(ENOMEM);
        }
        Ok(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // CAST: as when it was added.
        // SAFETY: By the type invariant.
        unsafe {
            bindings::rdma_helper_pinned_vm_sub(self.mm.as_ptr(), self.pages as i64);
            bindings::mmdrop(self.mm.as_ptr());
        }
    }
}
