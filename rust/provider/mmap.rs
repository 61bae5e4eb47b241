// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that user space maps through the uverbs file.
//!
//! A driver creates a [`MmapEntry`] for a [`Mappable`] object and passes its
//! [`offset`](MmapEntry::offset) to user space. When user space maps a file range that starts at
//! this offset and has the length of the entry, the core finds the entry, and the adapter maps the
//! object. Offsets are names within one user context, not addresses.
//!
//! Ownership: the entry owns the object. The entry is owned by the `MmapEntry` in the driver's
//! object, and by a call that is mapping it. A mapping must itself keep the mapped pages, as
//! mappings by `remap_vmalloc_range` and `vm_insert_page` do.
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

/// An object that can be mapped into a process.
pub trait Mappable: Send + Sync + 'static {
    /// Returns the length in bytes, which must not change. It is rounded up to whole pages for user
    /// space.
    fn len(&self) -> usize;

    /// Returns whether the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maps the whole object into `vma`, which is shared and has the right length. The mapping must
    /// itself keep the pages. May sleep.
    fn map(&self, vma: &VmaNew) -> Result;
}

/// The part of an entry that does not depend on the object.
#[repr(C)]
struct Header {
    c: Opaque<bindings::rdma_user_mmap_entry>,
    /// Length of a mapping in bytes.
    len: usize,
    map: unsafe fn(NonNull<Header>, &VmaNew) -> Result,
    free: unsafe fn(NonNull<Header>),
}

/// An entry in memory.
#[repr(C)]
struct Entry<M> {
    header: Header,
    item: M,
}

impl<M: Mappable> Entry<M> {
    /// # Safety
    ///
    /// `this` must be the header of a live `Entry<M>`.
    unsafe fn map(this: NonNull<Header>, vma: &VmaNew) -> Result {
        // SAFETY: The header is that of an `Entry<M>` (contract of this function); the item is not
        // changed while the entry exists.
        unsafe { &(*this.as_ptr().cast::<Self>()).item }.map(vma)
    }

    /// # Safety
    ///
    /// `this` must be the header of an `Entry<M>` that was a `KBox` and is not used any more.
    unsafe fn free(this: NonNull<Header>) {
        // SAFETY: It was a `KBox` of this type, and is not used any more (contract of this
        // function).
        drop(unsafe { KBox::from_raw(this.as_ptr().cast::<Self>()) });
    }
}

/// The driver's reference to an entry. After it was dropped, user space cannot map the object any
/// more. Drop may sleep.
///
/// # Invariants
///
/// `entry` is an entry in the registry of the user context of `context`, and this owns a reference
/// to it. If the context is gone, this is the only owner of the entry.
pub struct MmapEntry {
    entry: NonNull<Header>,
    context: Upcall<bindings::ib_ucontext>,
}

// SAFETY: The item is `Send` and `Sync`, and the C part has a lock.
unsafe impl Send for MmapEntry {}
// SAFETY: As for `Send`.
unsafe impl Sync for MmapEntry {}

impl MmapEntry {
    /// Adds `item` to the registry of a user context. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the length is zero.
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
        // CAST: The C part is at offset 0 of the header, and the header at offset 0 of the entry.
        // SAFETY: The user context is open. The C part is zeroed, as the core expects, and exists
        // until `mmap_free`.
        let inserted = to_result(unsafe {
            bindings::rdma_user_mmap_entry_insert(context.as_raw(), raw.cast(), PAGE_SIZE)
        });
        if let Err(e) = inserted {
            // SAFETY: `raw` was a box, see above, and the core did not accept it.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(e);
        }
        // INVARIANT: The core returned the first reference.
        Ok(Self {
            // SAFETY: The pointer was a box, so it is not null.
            entry: unsafe { NonNull::new_unchecked(raw.cast()) },
            context: context.upcall().clone(),
        })
    }

    /// Returns the offset that user space passes to `mmap`, in bytes.
    pub fn offset(&self) -> u64 {
        // SAFETY: The entry exists (type invariant), and the field does not change after insertion.
        let page = unsafe { (*self.entry.as_ref().c.get()).start_pgoff };
        (page as u64) << kernel::page::PAGE_SHIFT
    }
}

impl Drop for MmapEntry {
    fn drop(&mut self) {
        let removed = self.context.with(|_| {
            // SAFETY: The user context, whose registry contains the entry, is not closed during
            // this closure. The reference is owned (type invariant), and passed to the function.
            unsafe { bindings::rdma_user_mmap_entry_remove(self.entry.as_ref().c.get()) };
        });
        if removed.is_none() {
            // SAFETY: The context is gone, so the entry cannot be found or mapped any more, and
            // this is the only owner.
            unsafe { (self.entry.as_ref().free)(self.entry) };
        }
    }
}

/// `mmap` of `ib_device_ops`.
///
/// # Safety
///
/// Only for the core, for a device whose entries are all created by [`MmapEntry::new`].
pub(super) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> i32 {
    // SAFETY: The core calls this from its `mmap` file operation.
    let vma = unsafe { VmaNew::from_raw(vma) };
    // SAFETY: The VMA is being set up, and is not changed concurrently.
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
        // SAFETY: All entries of the device have this header (contract of this function), and a
        // reference to the entry is held.
        let (len, map) = unsafe { (header.as_ref().len, header.as_ref().map) };
        let done = if vma.end().checked_sub(vma.start()) == Some(len) {
            // SAFETY: `map` belongs to the type of the entry.
            unsafe { map(header, vma) }
        } else {
            Err(EINVAL)
        };
        // SAFETY: The reference was taken above.
        unsafe { bindings::rdma_user_mmap_entry_put(entry) };
        done.map(|()| 0)
    })
}

/// `mmap_free` of `ib_device_ops`.
///
/// # Safety
///
/// As for [`mmap`]; the last reference to the entry is gone.
pub(super) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    if let Some(header) = NonNull::new(entry.cast::<Header>()) {
        // SAFETY: All entries of the device have this header, and this one is not used any more
        // (contract of this function).
        unsafe { (header.as_ref().free)(header) };
    }
}
