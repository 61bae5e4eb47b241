// SPDX-License-Identifier: GPL-2.0

//! File descriptors and files of handles.
//!
//! The descriptor is reserved when a handle is begun, in the table of the task that commits or
//! aborts it. The file's `private_data` is the handle from the commit on, unless the file is of a
//! subsystem that uses the field itself (dma-buf).

use super::file::FileUse;
use super::handle::HandleRef;
use super::handle::Uncommitted;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;
use rdma::bindings;
use rdma::edge::uverbs::FileType;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::View;

/// A descriptor that is reserved in the table of this task; dropping it gives it back.
///
/// # Invariants
///
/// `fd` is reserved in the table of this task, for this value.
pub(crate) struct Descriptor {
    fd: u32,
    _of_task: NotThreadSafe,
}

impl Descriptor {
    /// Reserves a descriptor, to be closed on `exec`. May sleep.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENOMEM`.
    pub(crate) fn reserve() -> Result<Self> {
        // SAFETY: The function may be called by any task.
        let fd = unsafe { bindings::get_unused_fd_flags(bindings::O_CLOEXEC) };
        let fd = u32::try_from(fd).map_err(|_| Error::from_errno(fd))?;
        // INVARIANT: Just reserved.
        Ok(Self {
            fd,
            _of_task: NotThreadSafe,
        })
    }

    /// Gives the descriptor to a handle, as its number.
    pub(crate) fn keep(self, handle: &HandleRef) {
        // CAST: It was an `int` before.
        // SAFETY: The descriptor is reserved for this value, which gives it away.
        unsafe { handle.set_id(self.fd as i32) };
        core::mem::forget(self);
    }

    /// The descriptor of a handle that is being committed or aborted.
    pub(super) fn of_uncommitted(handle: &Uncommitted) -> Self {
        // INVARIANT: Reserved by `reserve`, in the same task (`uverbs_types.h`), and kept.
        Self {
            // CAST: As in `keep`.
            fd: handle.id() as u32,
            _of_task: NotThreadSafe,
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: Reserved, for this value: type invariant.
        unsafe { bindings::put_unused_fd(self.fd) };
    }
}

/// A reference to a file; dropping it puts it.
///
/// # Invariants
///
/// `0` is a file, and one of the references to it is this value's.
pub(crate) struct FileRef(NonNull<bindings::file>);

impl FileRef {
    /// The file of a descriptor of this task.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn get(fd: u32) -> Result<Self> {
        // SAFETY: The function takes any number.
        let file = NonNull::new(unsafe { bindings::fget(fd) }).ok_or(EBADF)?;
        // INVARIANT: `fget` took a reference.
        Ok(Self(file))
    }

    /// A new file of a type, without a handle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `anon_inode_getfile`.
    pub(crate) fn new(kind: &FileType) -> Result<Self> {
        // SAFETY: The name is a string and the operations stay: they are the type's.
        let file = from_err_ptr(unsafe { bindings::rdma_helper_uobject_file(kind.raw()) })?;
        // INVARIANT: The file is new, and its reference ours.
        NonNull::new(file).map(Self).ok_or(ENOMEM)
    }

    /// Takes over the reference that a handle, which its caller has exclusively or from a lookup,
    /// has to its file. Warns if there is none.
    pub(super) fn of_object(handle: &HandleRef) -> Option<Self> {
        let file = NonNull::new(handle.object().cast());
        kernel::warn_on!(file.is_none());
        // INVARIANT: The reference was given to the handle, by `keep_for` or by a lookup.
        file.map(Self)
    }

    /// Gives the reference to a handle that is being created.
    pub(crate) fn keep_for(self, handle: &HandleRef) {
        // SAFETY: Handles of files have a file as their object, whose reference this gives to it.
        unsafe { handle.set_object(self.0.as_ptr().cast()) };
        self.keep();
    }

    /// Gives the reference to C, with the handle.
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }

    /// Puts the file under a descriptor, and gives it the references, which its release puts.
    pub(super) fn install(self, fd: Descriptor, handle: HandleRef, file_use: FileUse) {
        let file = self.0.as_ptr();
        file_use.keep();
        let handle = handle.into_raw();
        // SAFETY: No task but this one has the file; the descriptor is reserved in the table of this
        // task: invariants.
        unsafe {
            if (*file).private_data.is_null() {
                (*file).private_data = handle.as_ptr().cast();
            }
            bindings::fd_install(fd.fd, file);
        }
        // `fd_install` took both.
        core::mem::forget((self, fd));
    }

    /// Puts a file that nobody has seen, whose release runs before this returns if that was the last
    /// reference: a file that is no handle's may read the handle. May sleep.
    pub(super) fn discard(self) {
        // SAFETY: A reference of ours (type invariant), which is given up.
        unsafe { bindings::rdma_helper_fput_now(self.0.as_ptr()) };
        core::mem::forget(self);
    }

    /// The handle, if the file is one of a type and of an open file.
    pub(crate) fn handle(&self, kind: &FileType, of: &UFile) -> Option<HandleRef> {
        let file = self.0.as_ptr();
        // SAFETY: There is a reference to the file. `f_op` does not change once a file has a
        // descriptor.
        if unsafe { (*file).f_op } != kind.fops() {
            return None;
        }
        // SAFETY: Files of the type have a handle from before they have a descriptor, and keep a
        // reference to it until their release.
        let handle = unsafe { (*file).private_data.cast::<Uobject>().as_ref() }?;
        if handle.ufile()?.raw() != of.raw() {
            return None;
        }
        HandleRef::of_found(handle)
    }
}

impl Drop for FileRef {
    fn drop(&mut self) {
        // SAFETY: A reference of ours: type invariant.
        unsafe { bindings::fput(self.0.as_ptr()) };
    }
}
