// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that user space maps through the uverbs file.
//!
//! A driver makes a [`MmapEntry`] of something [`Mappable`] and tells user space its
//! [`offset`](MmapEntry::offset). When user space maps a file range that starts there and is as
//! long as the entry, the core finds the entry, and the adapter has it map itself. Offsets are
//! names within one user context, no addresses.
//!
//! Who owns what: the entry owns the mappable thing and is owned twice, by the `MmapEntry` in the
//! driver's object, and by whoever is just mapping it. A mapping must keep the pages it shows by
//! itself, as those made by `remap_vmalloc_range` and `vm_insert_page` do.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct rdma_user_mmap_entry`).

use super::object::UContext;
use super::upcall::Upcall;
use super::Provider;
use crate::accounted;
use crate::bindings;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::error::to_result;
use kernel::mm::virt::flags;
use kernel::mm::virt::VmaNew;
use kernel::page::page_align;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::types::Opaque;

/// Something that can be mapped into a process.
pub trait Mappable: Send + Sync + 'static {
    /// Length in bytes, which must not change; rounded up to whole pages for user space.
    fn len(&self) -> usize;

    /// Whether there is nothing to map.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maps all of it into `vma`, which is shared and has the right length. The mapping keeps its
    /// pages itself. May sleep.
    fn map(&self, vma: &VmaNew) -> Result;
}

/// The part of an entry that does not depend on what it maps.
#[repr(C)]
struct Header {
    c: Opaque<bindings::rdma_user_mmap_entry>,
    /// Bytes of user memory that it is mapped into.
    len: usize,
    map: unsafe fn(NonNull<Header>, &VmaNew) -> Result,
    free: unsafe fn(NonNull<Header>),
}

/// An entry as it lies in memory.
#[repr(C)]
struct Entry<M> {
    header: Header,
    item: M,
}

impl<M: Mappable> Entry<M> {
    /// # Safety
    ///
    /// `this` is the header of a live `Entry<M>`.
    unsafe fn map(this: NonNull<Header>, vma: &VmaNew) -> Result {
        // SAFETY: The header is that of an `Entry<M>` (contract); the item is not changed while the entry lives.
        unsafe { &(*this.as_ptr().cast::<Self>()).item }.map(vma)
    }

    /// # Safety
    ///
    /// `this` is the header of an `Entry<M>` that was a `KBox` and is not used any more.
    unsafe fn free(this: NonNull<Header>) {
        // SAFETY: It was a `KBox` of this type, and nobody uses it (contract).
        drop(unsafe { KBox::from_raw(this.as_ptr().cast::<Self>()) });
    }
}

/// The driver's hold on an entry. Dropping it lets nobody map it any more; it may sleep.
///
/// # Invariants
///
/// `entry` is an entry of the registry of the user context behind `context`, of which we own one
/// reference; if the context is gone, we own the entry alone.
pub struct MmapEntry {
    entry: NonNull<Header>,
    context: Upcall<bindings::ib_ucontext>,
}

// SAFETY: The item is `Send` and `Sync`, and the C part has its own lock.
unsafe impl Send for MmapEntry {}
// SAFETY: See `Send`.
unsafe impl Sync for MmapEntry {}

impl MmapEntry {
    /// Puts `item` into the registry of a user context. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if there is nothing to map.
    pub fn new<P: Provider, M: Mappable>(context: &UContext<P>, item: M) -> Result<Self> {
        let len = page_align(item.len())
            .filter(|&len| len != 0)
            .ok_or(EINVAL)?;
        let entry = KBox::new(
            Entry {
                header: Header {
                    c: Opaque::zeroed(),
                    len,
                    map: Entry::<M>::map,
                    free: Entry::<M>::free,
                },
                item,
            },
            accounted::GFP,
        )?;
        let raw = KBox::into_raw(entry);
        // CAST: the C part is at offset 0 of the header, and that of the entry.
        // SAFETY: The user context is open. The C part is zeroed, as the core expects it; it
        // stays until `mmap_free`.
        let inserted = to_result(unsafe {
            bindings::rdma_user_mmap_entry_insert(context.as_raw(), raw.cast(), PAGE_SIZE)
        });
        if let Err(e) = inserted {
            // SAFETY: The core did not take the entry, which we made from a box above.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(e);
        }
        // INVARIANT: The core gave us the first reference.
        Ok(Self {
            // SAFETY: It comes from a box.
            entry: unsafe { NonNull::new_unchecked(raw.cast()) },
            context: context.upcall().clone(),
        })
    }

    /// What user space gives to `mmap` as the offset, in bytes.
    pub fn offset(&self) -> u64 {
        // SAFETY: By the type invariant; the field does not change after insertion.
        let page = unsafe { (*self.entry.as_ref().c.get()).start_pgoff };
        (page as u64) << kernel::page::PAGE_SHIFT
    }
}

impl Drop for MmapEntry {
    fn drop(&mut self) {
        let removed = self.context.with(|_| {
            // SAFETY: The user context, whose registry the entry is in, does not go while we are
            // in here, and we own a reference to the entry, which we give up.
            unsafe { bindings::rdma_user_mmap_entry_remove(self.entry.as_ref().c.get()) };
        });
        if removed.is_none() {
            // SAFETY: The context is gone, and with it everybody who could map or find the entry.
            unsafe { (self.entry.as_ref().free)(self.entry) };
        }
    }
}

/// `mmap` of `ib_device_ops`.
///
/// # Safety
///
/// Called by the core, for a device whose entries are all made by [`MmapEntry::new`].
pub(super) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> i32 {
    // SAFETY: The core calls us from its `mmap` file operation.
    let vma = unsafe { VmaNew::from_raw(vma) };
    // SAFETY: The vma is being set up, and nobody else changes it.
    let (shared, page) = unsafe {
        let raw = vma.as_ptr();
        (vma.flags() & flags::SHARED != 0, (*raw).vm_pgoff)
    };
    if !shared {
        return EINVAL.to_errno();
    }
    // SAFETY: The context is open.
    let entry = unsafe { bindings::rdma_user_mmap_entry_get_pgoff(context, page) };
    let Some(header) = NonNull::new(entry.cast::<Header>()) else {
        return EINVAL.to_errno();
    };
    from_result(|| {
        // SAFETY: All entries have our header, and we hold a reference to this one.
        let (len, map) = unsafe { (header.as_ref().len, header.as_ref().map) };
        let done = if vma.end().checked_sub(vma.start()) == Some(len) {
            // SAFETY: The header is that of the entry that `map` is for.
            unsafe { map(header, vma) }
        } else {
            Err(EINVAL)
        };
        // SAFETY: We give up that reference.
        unsafe { bindings::rdma_user_mmap_entry_put(entry) };
        done.map(|()| 0)
    })
}

/// `mmap_free` of `ib_device_ops`.
///
/// # Safety
///
/// As [`mmap`]; the last reference to the entry is gone.
pub(super) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    if let Some(header) = NonNull::new(entry.cast::<Header>()) {
        // SAFETY: All entries have our header, and nobody uses this one any more.
        unsafe { (header.as_ref().free)(header) };
    }
}
