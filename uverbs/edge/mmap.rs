// SPDX-License-Identifier: GPL-2.0

//! Mappings of device memory through an open file, which `rdma_user_mmap_io` of the core makes.
//!
//! Each has a note (`struct rdma_umap_priv`) in the list of its file, with a reference to the entry
//! that it maps. When the device goes, or resets, its pages are taken away ([`zap`]); a program that
//! touches it afterwards gets a page of zeros, one for all mappings of the file.
//!
//! While a file is being zapped, its `hw_destroy_rwsem` is held for writing. A mapping that is copied
//! then loses its pages at once, before they are copied, so the zap ends however often programs fork.
//! The copy of a mapping without pages is in no list.
//!
//! Locks: `hw_destroy_rwsem` of the file, then the `mmap_lock` of a process, then the `umap_lock` of
//! the file, under which the list and the entries of its notes change.
//!
//! C header: `struct vm_operations_struct` in `include/linux/mm.h`.

use super::file;
use super::file::Ending;
use super::nodes;
use crate::private;
use core::ptr;
use core::ptr::NonNull;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::container_of;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::UFile;
use rdma::edge::View;

type Note = private::rdma_umap_priv;
type Vma = bindings::vm_area_struct;

struct Operations(bindings::vm_operations_struct);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl Sync for Operations {}

/// The operations of mappings, unless the driver sets others.
pub(super) fn operations() -> *const bindings::vm_operations_struct {
    static OPERATIONS: Operations = Operations(bindings::vm_operations_struct {
        open: Some(open),
        close: Some(close),
        fault: Some(fault),
        ..pin_init::zeroed()
    });
    &OPERATIONS.0
}

/// Takes a note out of the list of its file, and drops its reference to the entry, of which drivers
/// free something then.
///
/// # Safety
///
/// The note is a mapping's, and the `umap_lock` of the file is held.
unsafe fn unlink(note: *mut Note) {
    // SAFETY: This function's contract: the list and the entry change under the lock. The note has a
    // reference to its entry until this. The context of the entry exists: it goes after the zap,
    // which takes the lock.
    unsafe {
        bindings::rdma_helper_list_del_init(&raw mut (*note).list);
        let entry = core::mem::replace(&mut (*note).entry, ptr::null_mut());
        if !entry.is_null() {
            bindings::rdma_user_mmap_entry_put(entry);
        }
    }
}

/// A process that has mappings of a file.
///
/// # Invariants
///
/// A reference to the users of the memory map is this value's.
struct Process(NonNull<bindings::mm_struct>);

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        unsafe { bindings::mmput(self.0.as_ptr()) };
    }
}

/// The note behind a place in the list of a file; `None` at its end.
///
/// # Safety
///
/// The `umap_lock` of the file is held. `at` is the place of a note in the list, or the list's head.
unsafe fn after(file: &UFile, at: *mut bindings::list_head) -> Option<NonNull<Note>> {
    // SAFETY: This function's contract: the list does not change, and its notes exist.
    unsafe {
        let next = (*at).next;
        if next == &raw mut (*file.raw()).umaps {
            return None;
        }
        let note: *mut Note = container_of!(next, Note, list);
        NonNull::new(note)
    }
}

impl Process {
    /// A process that has a mapping of a file, if any. Mappings of those that are exiting are
    /// forgotten, as their end takes them away.
    fn of(file: &UFile) -> Option<Self> {
        let _held = file.umap_lock().lock();
        // SAFETY: The lock is held. A mapping in the list exists, since `close` takes its note out,
        // and so does its memory map.
        unsafe {
            while let Some(note) = after(file, &raw mut (*file.raw()).umaps) {
                let mm = (*(*note.as_ptr()).vma).vm_mm;
                if bindings::mmget_not_zero(mm) {
                    // INVARIANT: Just taken.
                    return NonNull::new(mm).map(Self);
                }
                unlink(note.as_ptr());
            }
        }
        None
    }

    /// Takes away the pages of all mappings of the file. The list is walked once: programs decide
    /// how many notes it has, and how those of processes that share the file alternate.
    fn zap(&self, file: &UFile) {
        // SAFETY: The memory map exists: type invariant. No lock that comes after is held.
        unsafe { bindings::mmap_read_lock(self.0.as_ptr()) };
        let held = file.umap_lock().lock();
        // SAFETY: The lock is held. So is the `mmap_lock`, so the mappings of the process stay. A
        // note is left before it is taken out.
        unsafe {
            let mut next = after(file, &raw mut (*file.raw()).umaps);
            while let Some(note) = next {
                let note = note.as_ptr();
                next = after(file, &raw mut (*note).list);
                if (*(*note).vma).vm_mm == self.0.as_ptr() {
                    bindings::rdma_helper_vma_zap((*note).vma);
                    unlink(note);
                }
            }
        }
        drop(held);
        // SAFETY: The lock was taken above.
        unsafe { bindings::mmap_read_unlock(self.0.as_ptr()) };
    }
}

/// Takes away the pages of all mappings of a file. May sleep.
pub(crate) fn zap(ending: &mut Ending<'_>) {
    let file = ending.file();
    while let Some(process) = Process::of(file) {
        process.zap(file);
    }
}

/// Takes away the pages of all mappings of a device, which its driver resets. May sleep.
fn disassociate(device: &Device) {
    nodes::with(device, |node| {
        file::each(node, |file| {
            if file.has_ucontext() {
                zap(&mut Ending::begin(file));
            }
        });
    });
}

rdma::export! { in rdma::bindings;
    /// See [`disassociate`].
    fn rdma_user_mmap_disassociate(device: &Device) = disassociate;
}

/// The file of a mapping.
///
/// # Safety
///
/// The mapping is of a file of a node, and exists for `'a`.
unsafe fn file_of<'a>(vma: *mut Vma) -> &'a UFile {
    // SAFETY: This function's contract. A mapping has a reference to its file.
    unsafe { UFile::view((*(*vma).vm_file).private_data.cast()) }
}

/// A mapping is copied: by `fork`, or when it is split or moved.
///
/// # Safety
///
/// For the memory management only: with a mapping of a file of a node, whose private data are the
/// note of the original, or null. The `mmap_lock` of the original is held for writing, and its pages
/// are copied or moved after this.
unsafe extern "C" fn open(vma: *mut Vma) {
    // SAFETY: This function's contract. The original and its note stay while its `mmap_lock` is held;
    // the new note is the mapping's.
    unsafe {
        let original: *mut Note = (*vma).vm_private_data.cast();
        if original.is_null() {
            return;
        }
        let file = file_of(vma);
        let destroying = file.hw_destroy_rwsem().try_read();
        // As the mapping itself: at the limit of a memory cgroup the OOM killer is invoked, since the
        // copy cannot be refused.
        let Ok(note) = KBox::new(Note::default(), GFP_KERNEL_ACCOUNT) else {
            // The copy cannot be refused, but must not have pages that nobody takes away.
            (*vma).vm_private_data = ptr::null_mut();
            if !bindings::rdma_helper_vma_wipe_on_fork(vma, (*original).vma) {
                look_at(file, original, true);
            }
            return;
        };
        let note = KBox::into_raw(note);
        if look_at(file, original, destroying.is_none()) {
            // It stays so while the semaphore is held.
            private::rdma_umap_priv_init(note, vma, (*original).entry);
        } else {
            (*note).vma = vma;
            bindings::INIT_LIST_HEAD(&raw mut (*note).list);
            (*vma).vm_private_data = note.cast();
        }
    }
}

/// Returns whether a mapping has pages, and takes them away first if `zap` says so.
///
/// # Safety
///
/// The note is that of a mapping of the file, whose `mmap_lock` is held.
unsafe fn look_at(file: &UFile, note: *mut Note, zap: bool) -> bool {
    let held = file.umap_lock().lock();
    // SAFETY: This function's contract; the lock is held, also when the entry is dropped.
    unsafe {
        let listed = (*note).list.next != &raw mut (*note).list;
        if listed && zap {
            bindings::rdma_helper_vma_zap((*note).vma);
            unlink(note);
        }
        drop(held);
        listed && !zap
    }
}

/// A mapping goes.
///
/// # Safety
///
/// For the memory management only: with a mapping of a file of a node, whose private data are its
/// note, or null.
unsafe extern "C" fn close(vma: *mut Vma) {
    // SAFETY: This function's contract. Nobody else knows the note when it is out of the list.
    unsafe {
        let note: *mut Note = (*vma).vm_private_data.cast();
        if note.is_null() {
            return;
        }
        let held = file_of(vma).umap_lock().lock();
        unlink(note);
        drop(held);
        drop(KBox::from_raw(note));
    }
}

/// A program touches a page that was taken away.
///
/// # Safety
///
/// For the memory management only: with a fault in a mapping of a file of a node.
unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    const SIGBUS: bindings::vm_fault_t = bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    // SAFETY: This function's contract. The page of a file changes under the lock, and is freed
    // with the file; the fault gets a reference of its own.
    unsafe {
        let vma = (*vmf).__bindgen_anon_1.vma;
        if (*vma).vm_private_data.is_null() {
            return SIGBUS;
        }
        if !bindings::rdma_helper_vma_may_write(vma) {
            (*vmf).page = bindings::rdma_helper_zero_page((*vmf).__bindgen_anon_1.address);
            bindings::rdma_helper_get_page((*vmf).page);
            return 0;
        }
        let file = file_of(vma);
        let _held = file.umap_lock().lock();
        let page = &raw mut (*file.raw()).disassociate_page;
        if (*page).is_null() {
            let flags = (*vmf).__bindgen_anon_1.gfp_mask | bindings::__GFP_ZERO;
            *page = bindings::alloc_pages(flags, 0);
        }
        if (*page).is_null() {
            return SIGBUS;
        }
        // Mappings of devices are shared, so nobody writes a copy.
        (*vmf).page = *page;
        bindings::rdma_helper_get_page(*page);
        0
    }
}
