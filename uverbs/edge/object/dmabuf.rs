// SPDX-License-Identifier: GPL-2.0

//! DMA-bufs that export memory of a device (`struct ib_uverbs_dmabuf_file`).
//!
//! The memory is that of an mmap entry of the driver. `ib_core` has a list of the entry's buffers,
//! under the entry's `dmabufs_lock`, and revokes them when the driver removes the entry; so the
//! structure is C's. `revoked` and the mappings change under the reservation lock of the buffer.
//! Each mapping has a reference (`kref`), for which a revocation waits.
//!
//! The file is not one of `ib_uverbs`: its release calls [`release`], by which time the handle may
//! have been aborted. The file has a reference to the handle for that. Release of the file and
//! destruction of the handle may come at the same time, and either may be the first: the first one
//! revokes the buffer, and the other one waits ([`Beside::entry`]), so the buffer is not freed before.
//!
//! Order of locks: [`Beside::entry`], `dmabufs_lock`, reservation lock.

use crate::edge::handle::Ended;
use crate::edge::handle::Ends;
use crate::edge::handle::FileType;
use crate::edge::handle::Handle;
use crate::edge::handle::Kept;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::dmabuf::DmaBuf;
use crate::private;
use core::mem::offset_of;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Release;
use kernel::sync::Mutex;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::uverbs::MmapEntry;
use rdma::edge::View;
use rdma::features::direction_number;
use rdma::sync::CRefcount;
use rdma::sync::Completion;

rdma::c_struct! {
    /// An exported buffer.
    struct Exported: private::ib_uverbs_dmabuf_file;
    fields {
        /// One reference for the buffer until it is revoked, and one for each mapping.
        embed refs at kref.refcount: CRefcount;
        /// Completed when the last reference is dropped.
        embed comp: Completion;
    }
}

/// Words of the C structure behind its handle.
const WORDS: usize = (size_of::<private::ib_uverbs_dmabuf_file>()
    - size_of::<bindings::ib_uobject>())
    / size_of::<u64>();

/// What a handle has beside: the rest of the C structure, and the state of the file.
#[repr(C)]
#[pin_data]
pub(crate) struct Beside {
    c: Opaque<[u64; WORDS]>,
    /// Whether the handle is complete, and not aborted.
    complete: Atomic<bool>,
    /// The entry whose memory is exported, with a reference; null before that, and when the buffer
    /// was revoked by [`finish`].
    #[pin]
    entry: Mutex<*mut bindings::rdma_user_mmap_entry>,
}

impl Beside {
    /// Of a handle without a buffer.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            c: Opaque::new([0; WORDS]),
            complete: Atomic::new(false),
            entry <- new_mutex!(ptr::null_mut(), "DmaBuf::entry"),
        })
    }
}

const _: () = {
    use private::ib_uverbs_dmabuf_file as C;
    assert!(offset_of!(C, uobj) == 0);
    assert!(offset_of!(C, dmabuf) >= size_of::<bindings::ib_uobject>());
    assert!(size_of::<C>() == size_of::<bindings::ib_uobject>() + WORDS * size_of::<u64>());
    assert!(offset_of!(Beside, complete) == WORDS * size_of::<u64>());
    assert!(align_of::<C>() <= align_of::<u64>() && align_of::<Handle<DmaBuf>>() >= 8);
};

impl Ends for Beside {
    /// `finish` ends a buffer.
    fn end(_: Ended<'_, Self>) {}
}

// SAFETY: Locks guard the C structure (module).
unsafe impl Send for Beside {}
// SAFETY: As for `Send`.
unsafe impl Sync for Beside {}

/// The C structure of a handle.
fn exported(handle: &Handle<DmaBuf>) -> &Exported {
    // SAFETY: The handle and what it has beside are the structure (assertions above).
    unsafe { Exported::view(handle.raw().cast()) }
}

/// The handle of an exported buffer.
///
/// # Safety
///
/// The buffer was exported by [`export`](fn@export), and its file is not released before the result is used.
unsafe fn handle_of<'a>(buffer: *mut bindings::dma_buf) -> &'a Handle<DmaBuf> {
    // SAFETY: `export` has set the field; the file has a reference to the handle.
    unsafe { View::view((*buffer).priv_.cast()) }
}

/// Describes the type.
pub(crate) const fn file_type() -> FileType<DmaBuf> {
    // SAFETY: There are no operations: the DMA-buf makes the files.
    unsafe { FileType::new(c"dmabuf", ptr::null(), bindings::O_RDONLY) }
}

/// A reference to an mmap entry.
///
/// # Invariants
///
/// `0` is an entry, and one of its references is this value's.
struct Entry(NonNull<bindings::rdma_user_mmap_entry>);

impl Entry {
    fn view(&self) -> &MmapEntry {
        // SAFETY: The entry exists: type invariant.
        unsafe { View::view(self.0.as_ptr()) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        unsafe { bindings::rdma_user_mmap_entry_put(self.0.as_ptr()) };
    }
}

/// A reference to a DMA-buf, which nobody has a descriptor of yet.
///
/// # Invariants
///
/// `0` is a buffer, and one of its references is this value's.
struct Buffer(NonNull<bindings::dma_buf>);

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}

/// The operations of buffers.
#[repr(transparent)]
struct Operations(bindings::dma_buf_ops);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl Sync for Operations {}

static OPERATIONS: Operations = Operations(bindings::dma_buf_ops {
    attach: Some(attach),
    detach: None,
    pin: Some(pin),
    unpin: Some(unpin),
    map_dma_buf: Some(map),
    unmap_dma_buf: Some(unmap),
    release: Some(release),
    begin_cpu_access: None,
    end_cpu_access: None,
    mmap: None,
    vmap: None,
    vunmap: None,
});

/// Exports the memory that programs map at the offset `pgoff`, in pages, as the file of a handle.
/// May sleep.
///
/// # Errors
///
/// `EINVAL`: nothing is mapped there; `EIO`: the driver removes it; `ENOMEM`; those of the driver.
pub(crate) fn export(new: New<'_, DmaBuf>, pgoff: u64) -> Result {
    let context = new.context()?;
    let ops = context.dev().ops();
    let find = ops.pgoff_to_mmap_entry.ok_or_else(unsupported)?;
    let describe = ops.mmap_get_pfns.ok_or_else(unsupported)?;
    // CAST: Reinterprets the bits; the driver looks the offset up.
    // SAFETY: The context and its device exist during the call.
    let entry = unsafe { find(context.raw(), pgoff as bindings::off_t) };
    // INVARIANT: The driver returns a reference.
    let entry = Entry(NonNull::new(entry).ok_or(EINVAL)?);
    let c = exported(new.handle()).raw();
    // SAFETY: The handle is new, so nobody else uses its structure, which is zeroed.
    let size = unsafe {
        to_result(describe(
            entry.0.as_ptr(),
            &raw mut (*c).phys_vec,
            &raw mut (*c).provider,
        ))?;
        bindings::rdma_helper_dmabuf_file_init(c.cast());
        bindings::init_completion(&raw mut (*c).comp);
        bindings::INIT_LIST_HEAD(&raw mut (*c).dmabufs_elm);
        (*c).phys_vec.len
    };
    // SAFETY: The handle is new. The reference is the buffer's, dropped by whoever revokes it.
    unsafe { exported(new.handle()).refs().init(1) };
    let held = new.handle().keep().into_raw();
    let info = bindings::dma_buf_export_info {
        exp_name: c"ib_uverbs".as_char_ptr(),
        owner: rdma::this_module!().as_ptr(),
        ops: &raw const OPERATIONS.0,
        size,
        // CAST: A flag of `open`.
        flags: bindings::O_CLOEXEC as c_int,
        resv: ptr::null_mut(),
        priv_: held.cast(),
    };
    // SAFETY: The operations are for buffers with such a handle; the file has a reference to it.
    let buffer = match from_err_ptr(unsafe { bindings::dma_buf_export(&info) }) {
        Ok(buffer) => Buffer(NonNull::new(buffer).ok_or(EINVAL)?),
        Err(error) => {
            // SAFETY: `into_raw` has given it, and `dma_buf_export` has failed, so no buffer has it.
            drop(unsafe { Kept::<DmaBuf>::from_raw(held) });
            return Err(error);
        }
    };
    let view = entry.view();
    let lock = view.dmabufs_lock().lock();
    // SAFETY: The flag is set under the lock that is held. The list has such buffers, and changes
    // under that lock. The other fields are not used before the buffer is in the list.
    unsafe {
        if (*view.raw()).driver_removed {
            drop(lock);
            return Err(EIO);
        }
        (*c).dmabuf = buffer.0.as_ptr();
        bindings::rdma_helper_list_add_tail(
            &raw mut (*c).dmabufs_elm,
            &raw mut (*view.raw()).dmabufs,
        );
    }
    drop(lock);
    // SAFETY: The handle is new, and the buffer has a file, whose reference passes to the handle.
    unsafe {
        (*c).mmap_entry = entry.0.as_ptr();
        (**new.handle()).set_object((*buffer.0.as_ptr()).file.cast());
    }
    *new.handle().beside().entry.lock() = entry.0.as_ptr();
    core::mem::forget((entry, buffer));
    // Release: pairs with the release of the file.
    new.handle().beside().complete.store(true, Release);
    new.ready();
    Ok(())
}

/// The handle of a buffer that was exported is destroyed, or `aborted`. May sleep.
pub(crate) fn revoke(handle: &Handle<DmaBuf>, aborted: bool) {
    if aborted {
        // Release: pairs with the release of the file, which follows.
        handle.beside().complete.store(false, Release);
    }
    finish(handle);
}

/// Revokes a buffer, unless `ib_core` has done so, waits until it is not mapped any more, and puts
/// the reference to the entry. The next calls do nothing. May sleep.
fn finish(handle: &Handle<DmaBuf>) {
    let mut place = handle.beside().entry.lock();
    // INVARIANT: The reference was the handle's.
    let Some(entry) = NonNull::new(core::mem::replace(&mut *place, ptr::null_mut())).map(Entry)
    else {
        return;
    };
    let this = exported(handle);
    let c = this.raw();
    let lock = entry.view().dmabufs_lock().lock();
    // SAFETY: The buffer exists: the release of its file comes here, too, and waits for the lock of
    // `place`. `revoked` is changed under both of the locks that are held then; the buffer is in the
    // list until it is set.
    let first = unsafe {
        let buffer = (*c).dmabuf;
        let resv = (*buffer).resv;
        bindings::dma_resv_lock(resv, ptr::null_mut());
        let first = (*c).revoked() == 0;
        if first {
            (*c).set_revoked(1);
            bindings::rdma_helper_list_del_init(&raw mut (*c).dmabufs_elm);
            bindings::dma_buf_invalidate_mappings(buffer);
            bindings::dma_resv_wait_timeout(
                resv,
                bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP,
                false,
                c_long::MAX as c_ulong,
            );
        }
        bindings::dma_resv_unlock(resv);
        first
    };
    if first {
        // SAFETY: The buffer was revoked above, so its reference ends here.
        unsafe { put(this) };
        this.comp().wait();
    }
    drop(lock);
    drop(entry);
    drop(place);
}

/// Drops a reference to the memory.
///
/// # Safety
///
/// The reference is that of a mapping which has ended, or that of the buffer, which was revoked.
unsafe fn put(this: &Exported) {
    // SAFETY: This function's contract: nobody else drops the reference.
    if unsafe { this.refs().put() } {
        this.comp().complete();
    }
}

/// The `attach` operation: only devices that can reach memory of other devices may attach.
///
/// # Safety
///
/// For the DMA-buf of [`export`](fn@export) only, with a new attachment.
unsafe extern "C" fn attach(
    _buffer: *mut bindings::dma_buf,
    attachment: *mut bindings::dma_buf_attachment,
) -> c_int {
    // SAFETY: This function's contract.
    match unsafe { (*attachment).peer2peer } {
        true => 0,
        false => unsupported().to_errno(),
    }
}

/// The `pin` operation: the memory may be revoked, so it is never pinned.
///
/// # Safety
///
/// For the DMA-buf of [`export`](fn@export) only.
unsafe extern "C" fn pin(_attachment: *mut bindings::dma_buf_attachment) -> c_int {
    unsupported().to_errno()
}

/// The `unpin` operation.
///
/// # Safety
///
/// For the DMA-buf of [`export`](fn@export) only.
unsafe extern "C" fn unpin(_attachment: *mut bindings::dma_buf_attachment) {}

/// The `map_dma_buf` operation, under the reservation lock. May sleep.
///
/// # Safety
///
/// For an attachment to the DMA-buf of [`export`](fn@export) only, whose reservation lock is held.
unsafe extern "C" fn map(
    attachment: *mut bindings::dma_buf_attachment,
    direction: bindings::dma_data_direction,
) -> *mut bindings::sg_table {
    // SAFETY: An attachment keeps the buffer, whose file has the handle.
    let this = exported(unsafe { handle_of((*attachment).dmabuf) });
    let c = this.raw();
    // SAFETY: The reservation lock is held, which guards `revoked`. The memory is the device's until
    // the buffer is revoked, for which the reference below is.
    unsafe {
        if (*c).revoked() != 0 {
            return ENODEV.to_ptr();
        }
        let table = bindings::rdma_helper_dma_buf_map(
            attachment,
            (*c).provider,
            &raw mut (*c).phys_vec,
            direction_number(direction),
        );
        if from_err_ptr(table).is_ok() {
            this.refs().inc();
        }
        table
    }
}

/// The `unmap_dma_buf` operation, under the reservation lock. May sleep.
///
/// # Safety
///
/// For an attachment to the DMA-buf of [`export`](fn@export) only, with what [`map`] has returned for it.
unsafe extern "C" fn unmap(
    attachment: *mut bindings::dma_buf_attachment,
    table: *mut bindings::sg_table,
    direction: bindings::dma_data_direction,
) {
    // SAFETY: This function's contract; an attachment keeps the buffer, whose file has the handle.
    let this = unsafe {
        bindings::rdma_helper_dma_buf_unmap(attachment, table, direction_number(direction));
        exported(handle_of((*attachment).dmabuf))
    };
    // SAFETY: `map` has taken a reference for the mapping, which has ended.
    unsafe { put(this) };
}

/// The `release` operation: the last reference to the file is gone. May sleep.
///
/// # Safety
///
/// For the DMA-buf of [`export`](fn@export) only, once.
unsafe extern "C" fn release(buffer: *mut bindings::dma_buf) {
    // SAFETY: `export` has given the file its reference to the handle.
    let handle = unsafe { Kept::<DmaBuf>::from_raw((*buffer).priv_.cast()) };
    let Some(handle) = handle else { return };
    // Acquire: pairs with `export` and `revoke`.
    if handle.beside().complete.load(Acquire) {
        finish(&handle);
        // SAFETY: The handle was committed, for only then a complete one has a file that others may
        // release. The function takes the references that committing has given to the file.
        unsafe { bindings::uverbs_uobject_release(handle.raw()) };
    }
}
