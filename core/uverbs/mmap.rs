// SPDX-License-Identifier: GPL-2.0

//! What a file of a device's user can be mapped to.
//!
//! A driver gives an *entry* to the user's context and gets a range of file offsets for it,
//! which the user maps. An entry is counted: by the driver, until it removes the entry, by
//! each mapping, and by whoever just looks at it. Its offsets are free for others when the
//! last of them has gone; then the driver's `mmap_free` gets it.
//!
//! Mappings of a device's registers are listed in the open file, so that `ib_uverbs` can take
//! them back when the device goes.
//!
//! Locks: the file's `umap_lock` makes one insertion at a time, since a range is found and
//! filled in several steps; inside, the xarray's lock, which is also that of `driver_removed`.
//! An entry's `dmabufs_lock`, then the xarray's lock, or a buffer's reservation lock.

use crate::private;
use crate::private::exported_private;
use crate::private::rdma_umap_priv;
use bindings::ib_ucontext;
use bindings::rdma_user_mmap_entry;
use bindings::vm_area_struct;
use core::mem::offset_of;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;

/// A mutex of a C structure, held.
///
/// # Invariants
///
/// We hold it, and it exists until this is dropped.
struct Held(*mut bindings::mutex);

impl Held {
    /// # Safety
    ///
    /// The mutex exists until the value is dropped.
    unsafe fn new(mutex: *mut bindings::mutex) -> Self {
        // SAFETY: By this function's duty.
        unsafe { bindings::mutex_lock(mutex) };
        // INVARIANT: Just locked.
        Self(mutex)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::mutex_unlock(self.0) };
    }
}

/// The offsets of a user's context and the entries at them, locked.
///
/// # Invariants
///
/// `0` is the `mmap_xa` of a context that exists until this is dropped, and its lock is held.
/// Everything in it is an entry.
struct Offsets(*mut bindings::xarray);

/// `XA_FREE_MARK`: nothing is there.
const FREE: bindings::xa_mark_t = 0;
/// `XAS_RESTART`: the walk has not begun, or has come to its end.
const RESTART: *mut bindings::xa_node = core::ptr::without_provenance_mut(3);

impl Offsets {
    /// # Safety
    ///
    /// The context exists until the value is dropped.
    unsafe fn of(context: *mut ib_ucontext) -> Self {
        // SAFETY: By this function's duty.
        unsafe {
            let xa = &raw mut (*context).mmap_xa;
            bindings::xa_lock(xa);
            // INVARIANT: Just locked.
            Self(xa)
        }
    }

    /// The entry at an offset.
    fn get(&self, at: c_ulong) -> Option<*mut rdma_user_mmap_entry> {
        // SAFETY: By the type invariant.
        let entry = unsafe { bindings::xa_load(self.0, at) };
        (!entry.is_null()).then_some(entry.cast())
    }

    /// The first of `pages` free offsets that follow each other and begin within `min..=max`.
    fn find_free(&self, pages: u32, min: u32, max: u32) -> Result<u32> {
        let mut from = min;
        loop {
            let mut walk = bindings::xa_state {
                xa: self.0,
                xa_index: from as usize,
                xa_node: RESTART,
                ..bindings::xa_state::default()
            };
            // SAFETY: By the type invariant; the array keeps track of what is free.
            unsafe { bindings::xas_find_marked(&mut walk, max as usize, FREE) };
            if walk.xa_node == RESTART {
                return Err(ENOMEM);
            }
            let first = u32::try_from(walk.xa_index).map_err(|_| ENOMEM)?;
            let end = first.checked_add(pages).ok_or(ENOMEM)?;
            let mut next = first as usize;
            // SAFETY: As above.
            let taken = unsafe {
                bindings::xa_find(self.0, &mut next, end as usize - 1, bindings::XA_PRESENT)
            };
            if taken.is_null() {
                return Ok(first);
            }
            // OVERFLOW: before the end.
            from = next as u32 + 1;
            if from > max {
                return Err(ENOMEM);
            }
        }
    }

    /// Puts an entry at all of its offsets. May drop the lock in between, to allocate.
    fn fill(&mut self, first: u32, pages: u32, entry: *mut rdma_user_mmap_entry) -> Result {
        for done in 0..pages {
            // OVERFLOW: the range ends within 32 bits.
            let at = (first + done) as usize;
            // SAFETY: By the type invariant.
            let inserted =
                unsafe { bindings::__xa_insert(self.0, at, entry.cast(), bindings::GFP_KERNEL) };
            if inserted != 0 {
                self.erase(first as usize, done as usize);
                return Err(ENOMEM);
            }
        }
        Ok(())
    }

    fn erase(&mut self, first: usize, pages: usize) {
        for i in 0..pages {
            // SAFETY: By the type invariant.
            unsafe { bindings::__xa_erase(self.0, first.wrapping_add(i)) };
        }
    }
}

impl Drop for Offsets {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::xa_unlock(self.0) };
    }
}

/// Gives an entry offsets.
///
/// # Safety
///
/// The context and its file exist; the entry is the driver's own, and may be found from now on.
unsafe fn insert(
    context: *mut ib_ucontext,
    entry: *mut rdma_user_mmap_entry,
    length: usize,
    min: u32,
    max: u32,
) -> Result {
    let pages = u32::try_from(length.div_ceil(PAGE_SIZE)).map_err(|_| ENOMEM)?;
    if entry.is_null() || pages == 0 {
        return Err(EINVAL);
    }
    // SAFETY: By this function's duty.
    unsafe {
        bindings::refcount_set(&mut (*entry).ref_.refcount, 1);
        bindings::INIT_LIST_HEAD(&mut (*entry).dmabufs);
        bindings::rdma_helper_mmap_entry_init_mutex(entry);
        (*entry).ucontext = context;
        (*entry).npages = pages as usize;

        let _one = Held::new(&mut (*(*context).ufile).umap_lock);
        let mut offsets = Offsets::of(context);
        let first = offsets.find_free(pages, min, max)?;
        (*entry).start_pgoff = first as c_ulong;
        // While it is half there, and may have to be taken back, nobody gets it.
        (*entry).driver_removed = true;
        offsets.fill(first, pages, entry)?;
        (*entry).driver_removed = false;
    }
    Ok(())
}

/// Ends the life of an entry.
///
/// # Safety
///
/// The last count is gone; the context exists.
unsafe fn free(entry: *mut rdma_user_mmap_entry) {
    // SAFETY: By this function's duty.
    unsafe {
        let context = (*entry).ucontext;
        Offsets::of(context).erase((*entry).start_pgoff, (*entry).npages);
        if let Some(free) = (*(*context).device).ops.mmap_free {
            free(entry);
        }
    }
}

/// Takes the buffers back that were made of an entry: nobody maps them any more, and who did
/// has let go of them. Waits for that.
///
/// # Safety
///
/// The entry exists, and its `dmabufs_lock` is held.
unsafe fn revoke_dmabufs(entry: *mut rdma_user_mmap_entry) {
    // SAFETY: By this function's duty. A buffer stays in the list until it is revoked or freed,
    // both under the lock that is held; its own count is dropped once, here.
    unsafe {
        let list = &raw mut (*entry).dmabufs;
        while (*list).next != list {
            let file: *mut private::ib_uverbs_dmabuf_file = (*list)
                .next
                .wrapping_byte_sub(offset_of!(private::ib_uverbs_dmabuf_file, dmabufs_elm))
                .cast();
            let buffer = (*file).dmabuf;
            let resv = (*buffer).resv;
            bindings::dma_resv_lock(resv, core::ptr::null_mut());
            bindings::rdma_helper_list_del(&mut (*file).dmabufs_elm);
            (*file).set_revoked(1);
            bindings::dma_buf_invalidate_mappings(buffer);
            bindings::dma_resv_wait_timeout(
                resv,
                bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP,
                false,
                c_long::MAX as c_ulong,
            );
            bindings::dma_resv_unlock(resv);
            // Each mapping holds a count; the last to go completes it.
            if bindings::refcount_dec_and_test(&mut (*file).kref.refcount) {
                bindings::complete(&mut (*file).comp);
            }
            bindings::wait_for_completion(&mut (*file).comp);
        }
    }
}

/// Notes a mapping in its file, and counts its entry, if it has one. `vm_ops` are
/// `ib_uverbs`'s. May sleep.
///
/// # Safety
///
/// `priv_` is zeroed memory that lives as long as the mapping; the mapping is one of a file of
/// `ib_uverbs`; the caller holds a count of the entry.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_umap_priv_init(
    priv_: *mut rdma_umap_priv,
    vma: *mut vm_area_struct,
    entry: *mut rdma_user_mmap_entry,
) {
    // SAFETY: By this function's duty.
    unsafe {
        let ufile: *mut bindings::ib_uverbs_file = (*(*vma).vm_file).private_data.cast();
        (*priv_).vma = vma;
        if !entry.is_null() {
            bindings::refcount_inc(&mut (*entry).ref_.refcount);
            (*priv_).entry = entry;
        }
        (*vma).vm_private_data = priv_.cast();
        let _held = Held::new(&mut (*ufile).umap_lock);
        bindings::list_add_tail(&mut (*priv_).list, &mut (*ufile).umaps);
    }
}

/// Maps `size` bytes of a device's from `pfn` on into a process, for a driver's `mmap`. 0,
/// `-EINVAL` for a mapping that is private, of another size, or not of this context's file,
/// `-ENOMEM`, `-EAGAIN` if it could not be mapped. May sleep.
///
/// # Safety
///
/// `vma` is a mapping that is being made; the context exists and its device's
/// `disassociate_srcu` is held; `entry` is null or the caller holds a count of it.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_io(
    ucontext: *mut ib_ucontext,
    vma: *mut vm_area_struct,
    pfn: c_ulong,
    size: c_ulong,
    prot: bindings::pgprot_t,
    entry: *mut rdma_user_mmap_entry,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe {
        let ufile = (*ucontext).ufile;
        if !is_shared(vma) || length_of(vma) != size {
            return Err(EINVAL);
        }
        let file = (*vma).vm_file;
        if file.is_null() || (*file).private_data != ufile.cast() {
            pr_warn!("rdma_user_mmap_io: not from a mapping of this context's file\n");
            return Err(EINVAL);
        }
        let device: *mut private::ib_uverbs_device = (*ufile).device.cast();
        bindings::rdma_helper_srcu_assert_held(&mut (*device).disassociate_srcu);

        let note = KBox::new(rdma_umap_priv::default(), GFP_KERNEL)?;
        (*vma).vm_page_prot = prot;
        let start = (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_start;
        if bindings::rdma_helper_io_remap_pfn_range(vma, start, pfn, size, prot) != 0 {
            return Err(EAGAIN);
        }
        // `ib_uverbs` frees it with the mapping.
        rdma_umap_priv_init(KBox::into_raw(note), vma, entry);
        Ok(0)
    })
}

/// Whether writes to a mapping are seen by others.
///
/// # Safety
///
/// The mapping exists, and its lock is held.
unsafe fn is_shared(vma: *const vm_area_struct) -> bool {
    // SAFETY: By this function's duty.
    unsafe { (*vma).__bindgen_anon_2.vm_flags & bindings::VM_SHARED != 0 }
}

/// The length of a mapping in bytes.
///
/// # Safety
///
/// The mapping exists, and its lock is held.
unsafe fn length_of(vma: *const vm_area_struct) -> usize {
    // SAFETY: By this function's duty.
    let range = unsafe { (*vma).__bindgen_anon_1.__bindgen_anon_1 };
    range.vm_end.wrapping_sub(range.vm_start)
}

/// The entry that begins at a page offset, counted; null if there is none, or its driver has
/// removed it. Any context in which nobody is interrupted who has the array's lock.
///
/// # Safety
///
/// The context exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_get_pgoff(
    ucontext: *mut ib_ucontext,
    pgoff: c_ulong,
) -> *mut rdma_user_mmap_entry {
    if u32::try_from(pgoff).is_err() {
        return core::ptr::null_mut();
    }
    // SAFETY: By this function's duty. What is in the array exists while its lock is held; if
    // its last count is gone already, it is about to be taken out.
    unsafe {
        let offsets = Offsets::of(ucontext);
        offsets
            .get(pgoff)
            .filter(|&entry| {
                (*entry).start_pgoff == pgoff
                    && !(*entry).driver_removed
                    && bindings::rdma_helper_kref_get_unless_zero(&mut (*entry).ref_)
            })
            .unwrap_or(core::ptr::null_mut())
    }
}

/// The entry that a mapping which is being made shows, counted; null if there is none, or the
/// mapping is private or of another length.
///
/// # Safety
///
/// The context and the mapping exist.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_get(
    ucontext: *mut ib_ucontext,
    vma: *mut vm_area_struct,
) -> *mut rdma_user_mmap_entry {
    // SAFETY: By this function's duty.
    unsafe {
        if !is_shared(vma) {
            return core::ptr::null_mut();
        }
        let entry = rdma_user_mmap_entry_get_pgoff(ucontext, (*vma).vm_pgoff);
        if !entry.is_null() && (*entry).npages.checked_mul(PAGE_SIZE) != Some(length_of(vma)) {
            rdma_user_mmap_entry_put(entry);
            return core::ptr::null_mut();
        }
        entry
    }
}

/// Gives a count back. May sleep if the driver's `mmap_free` does.
///
/// # Safety
///
/// The caller has a count of the entry, whose context exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_put(entry: *mut rdma_user_mmap_entry) {
    // SAFETY: By this function's duty.
    unsafe {
        if bindings::refcount_dec_and_test(&mut (*entry).ref_.refcount) {
            free(entry);
        }
    }
}

/// Gives the driver's count back: nobody maps the entry any more, who has mapped it keeps it,
/// buffers made of it are taken back. Null is none. May sleep.
///
/// # Safety
///
/// Null or an entry that was inserted and not removed yet; its context exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_remove(entry: *mut rdma_user_mmap_entry) {
    if entry.is_null() {
        return;
    }
    // SAFETY: By this function's duty.
    unsafe {
        {
            let _held = Held::new(&mut (*entry).dmabufs_lock);
            let offsets = Offsets::of((*entry).ucontext);
            (*entry).driver_removed = true;
            drop(offsets);
            revoke_dmabufs(entry);
        }
        rdma_user_mmap_entry_put(entry);
    }
}

/// Gives an entry of `length` bytes a range of page offsets that begins within `min_pgoff` to
/// `max_pgoff`. 0, `-ENOMEM` if there is no room, `-EINVAL` for no entry or no bytes. May sleep.
///
/// # Safety
///
/// The context and its file exist; the entry is null, or the driver's own and new, and may be
/// found from now on.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_insert_range(
    ucontext: *mut ib_ucontext,
    entry: *mut rdma_user_mmap_entry,
    length: usize,
    min_pgoff: u32,
    max_pgoff: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    from_result(|| unsafe { insert(ucontext, entry, length, min_pgoff, max_pgoff).map(|()| 0) })
}

/// As [`rdma_user_mmap_entry_insert_range`], anywhere.
///
/// # Safety
///
/// That of [`rdma_user_mmap_entry_insert_range`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_user_mmap_entry_insert(
    ucontext: *mut ib_ucontext,
    entry: *mut rdma_user_mmap_entry,
    length: usize,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { rdma_user_mmap_entry_insert_range(ucontext, entry, length, 0, u32::MAX) }
}

rdma::exported!(
    rdma_user_mmap_entry_get,
    rdma_user_mmap_entry_get_pgoff,
    rdma_user_mmap_entry_insert,
    rdma_user_mmap_entry_insert_range,
    rdma_user_mmap_entry_put,
    rdma_user_mmap_entry_remove,
    rdma_user_mmap_io,
);
exported_private!(rdma_umap_priv_init);
