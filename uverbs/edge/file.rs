// SPDX-License-Identifier: GPL-2.0

//! Open files (`struct ib_uverbs_file`): their operations, their context and objects, their end.
//!
//! A file is made by `open`, and is in the list of its device until it is closed or the device is
//! removed. `ib_uverbs_support` frees it with the last reference: of the VFS, and of each file that
//! is a handle.

use super::device;
use super::device::CharDevice;
use super::device::Hidden;
use super::user::Address;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_uint;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::View;

/// A file that was just opened.
pub(super) struct Opened(NonNull<bindings::ib_uverbs_file>);

impl Opened {
    /// # Safety
    ///
    /// The file was just made, with a use of and a reference to its device, and is in its list.
    pub(super) unsafe fn new(file: NonNull<bindings::ib_uverbs_file>) -> Self {
        Self(file)
    }
}

/// Why the objects of a file are destroyed (`enum rdma_remove_reason`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The file is closed.
    Close,
    /// The device is removed.
    Remove,
}

/// An open file whose objects are being destroyed: nobody else makes or destroys any.
///
/// # Invariants
///
/// The `hw_destroy_rwsem` is held for writing.
pub(crate) struct Ending<'a>(&'a UFile);

impl<'a> Ending<'a> {
    /// Waits until no object is being made or destroyed. May sleep.
    pub(crate) fn begin(file: &'a UFile) -> Self {
        // SAFETY: The lock is initialised with the file (`rdma_helper_ufile_new`).
        unsafe { bindings::down_write(file.hw_destroy_rwsem().raw()) };
        // INVARIANT: Just taken.
        Self(file)
    }

    /// The file.
    pub(crate) fn file(&self) -> &'a UFile {
        self.0
    }

    /// Whether there are handles with objects.
    pub(crate) fn has_objects(&self) -> bool {
        // SAFETY: The list changes only under the lock, which is held.
        unsafe {
            let head = &raw mut (*self.0.raw()).uobjects;
            (*head).next != head
        }
    }

    /// Destroys the objects, the newest first, or forgets them all. Returns whether one was
    /// destroyed.
    pub(crate) fn pass(&mut self, why: End, forget: bool) -> bool {
        if forget {
            self.end_besides();
        }
        let why = match (why, forget) {
            (_, true) => bindings::rdma_remove_reason_RDMA_REMOVE_DRIVER_FAILURE,
            (End::Close, false) => bindings::rdma_remove_reason_RDMA_REMOVE_CLOSE,
            (End::Remove, false) => bindings::rdma_remove_reason_RDMA_REMOVE_DRIVER_REMOVE,
        };
        // SAFETY: The lock is held for writing: type invariant.
        unsafe { crate::private::__uverbs_cleanup_ufile(self.0.raw(), why) == 0 }
    }

    /// Ends what is beside the handles that have objects, which are to be forgotten: later the
    /// handles go without their types.
    fn end_besides(&mut self) {
        let api = CharDevice::of(self.0).api();
        // SAFETY: The list changes only under the lock, which is held; handles in it exist. Objects
        // are forgotten under the lock only.
        unsafe {
            let head = &raw mut (*self.0.raw()).uobjects;
            let mut at = (*head).next;
            while at != head {
                let handle = Uobject::view(container_of!(at, bindings::ib_uobject, list));
                at = (*at).next;
                let id = u16::try_from((*handle.uapi_object().raw()).id);
                let of = id.ok().and_then(|id| api.type_of(id));
                if let Some(of) = of.filter(|_| !handle.object().is_null()) {
                    of.forget(handle.raw());
                }
            }
        }
    }

    /// The context, for [`drop_context`](Self::drop_context).
    pub(crate) fn context(&self) -> Option<&UContext> {
        // SAFETY: The lock is held (type invariant), and `drop_context` takes `self`.
        unsafe { self.0.ucontext() }
    }

    /// Frees the context, whose objects are gone. Warns if there are some: then the context stays.
    pub(crate) fn drop_context(self, why: End) {
        let context = self.0.ucontext_at();
        if context.is_null() || kernel::warn_on!(self.has_objects()) {
            return;
        }
        // SAFETY: Nobody uses the context any more: no call runs, or the lock keeps it from making
        // objects, of which there are none. The device stays until this function returns, since a
        // removal waits for it.
        unsafe {
            let device = (*context).device;
            let ops = &raw const (*device).ops;
            if why == End::Remove {
                if let Some(disassociate) = (*ops).disassociate_ucontext {
                    disassociate(context);
                }
            }
            uncharge(context);
            crate::private::rdma_restrack_del(&raw mut (*context).res);
            if let Some(dealloc) = (*ops).dealloc_ucontext {
                dealloc(context);
            }
            kernel::warn_on!(!(*context).mmap_xa.xa_head.is_null());
            bindings::kfree(context.cast());
            bindings::rdma_helper_ufile_set_ucontext(self.0.raw(), core::ptr::null_mut());
        }
    }
}

/// Gives back what the rdma cgroup was charged for a context.
///
/// # Safety
///
/// It was charged, and its device exists.
pub(crate) unsafe fn uncharge(context: *mut bindings::ib_ucontext) {
    // SAFETY: This function's contract.
    unsafe {
        crate::private::ib_rdmacg_uncharge(
            &raw mut (*context).cg_obj,
            (*context).device,
            crate::private::rdmacg_resource_type_RDMACG_RESOURCE_HCA_HANDLE,
        );
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        // SAFETY: Held for writing: type invariant.
        unsafe { bindings::up_write(self.0.hw_destroy_rwsem().raw()) };
    }
}

/// A reference to an open file, which outlives the list of its device.
struct FileRef(NonNull<UFile>);

impl FileRef {
    fn take(file: &UFile) -> Self {
        file.refs().inc();
        Self(NonNull::from(file))
    }
}

impl core::ops::Deref for FileRef {
    type Target = UFile;

    fn deref(&self) -> &UFile {
        // SAFETY: The file exists, since there is the reference.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for FileRef {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's, which `take` has counted.
        if unsafe { self.refs().put() } {
            // SAFETY: The last reference was this value's.
            unsafe {
                crate::private::ib_uverbs_release_file(&raw mut (*self.raw()).ref_);
            }
        }
    }
}

/// Calls `act` for each open file of a node that is removed, which leaves the list. May sleep.
pub(crate) fn each_removed(node: &Hidden, mut act: impl FnMut(&UFile)) {
    loop {
        let file = {
            let mut files = node.files();
            let Some(file) = files.first().map(FileRef::take) else {
                return;
            };
            files.remove(&file);
            file
        };
        // Without the mutex: destroying may close other files of the program.
        act(&file);
    }
}

/// Calls `act` for each open file of a node, whose list is locked. May sleep.
pub(crate) fn each(node: &CharDevice, mut act: impl FnMut(&UFile)) {
    let files = node.files();
    let mut next = files.first();
    while let Some(file) = next {
        act(file);
        next = files.after(file);
    }
}

/// The operations of files of nodes, with `mmap` if the driver has it.
pub(super) fn operations(has_mmap: bool) -> &'static bindings::file_operations {
    const WITHOUT: bindings::file_operations = bindings::file_operations {
        owner: rdma::this_module!().as_ptr(),
        open: Some(open),
        release: Some(release),
        write: Some(write),
        unlocked_ioctl: Some(ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        ..pin_init::zeroed()
    };
    const WITH: bindings::file_operations = bindings::file_operations {
        mmap: Some(mmap),
        ..WITHOUT
    };
    static OPERATIONS: [Operations; 2] = [Operations(WITHOUT), Operations(WITH)];
    let [without, with] = &OPERATIONS;
    match has_mmap {
        true => &with.0,
        false => &without.0,
    }
}

struct Operations(bindings::file_operations);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl Sync for Operations {}

/// Returns the open file behind a `struct file` of a node.
///
/// # Safety
///
/// `file` is an open file of a node for `'a`.
unsafe fn of<'a>(file: *mut bindings::file) -> &'a UFile {
    // SAFETY: `open` has set it (this function's contract).
    unsafe { UFile::view((*file).private_data.cast()) }
}

/// # Safety
///
/// For the VFS only, with the inode of a node, and a file that is being opened.
unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: This function's contract.
    match unsafe { device::open(inode) } {
        Ok(Opened(opened)) => {
            // SAFETY: Until this function returns, only it uses the file.
            unsafe {
                (*file).private_data = opened.as_ptr().cast();
                bindings::stream_open(inode, file)
            }
        }
        Err(error) => error.to_errno(),
    }
}

/// # Safety
///
/// For the VFS only, with a file of a node that is no longer in use.
unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: The VFS's reference, which it gives up.
    let file = FileRef(NonNull::from(unsafe { of(file) }));
    crate::life::end(&file, End::Close);
    CharDevice::of(&file).files().remove(&file);
    drop(file);
    0
}

/// # Safety
///
/// For the VFS only, with an open file of a node.
unsafe extern "C" fn write(
    file: *mut bindings::file,
    from: *const c_char,
    count: usize,
    _: *mut bindings::loff_t,
) -> isize {
    // SAFETY: This function's contract.
    let (changed, file) = unsafe { (bindings::rdma_helper_file_creds_changed(file), of(file)) };
    if changed {
        crate::write::warn_of_credentials();
        return EACCES.to_errno() as isize;
    }
    match crate::write::write(file, Address::of(from), count) {
        // CAST: At most `MAX_RW_COUNT`.
        Ok(()) => count as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// # Safety
///
/// For the VFS only, with an open file of a node.
unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
    // SAFETY: This function's contract.
    let file = unsafe { of(file) };
    // CAST: An address.
    match crate::ioctl::ioctl(file, cmd, Address::new(arg as u64)) {
        Ok(()) => 0,
        Err(error) => error.to_errno() as c_long,
    }
}

/// # Safety
///
/// For the VFS only, with an open file of a node, and a mapping that is being made.
unsafe extern "C" fn mmap(file: *mut bindings::file, vma: *mut bindings::vm_area_struct) -> c_int {
    // SAFETY: This function's contract.
    let file = unsafe { of(file) };
    let result = (|| {
        let node = CharDevice::of(file);
        let section = node.enter();
        let device: &Device = section.rdma_device().ok_or(EIO)?;
        // SAFETY: The device was there in the section.
        let context = unsafe { file.ucontext() }.ok_or(EINVAL)?;
        let _held = file.hw_destroy_rwsem().try_read().ok_or(EIO)?;
        let map = device.ops().mmap.ok_or(ENODEV)?;
        // SAFETY: The context is the file's, and stays while the lock is held; the mapping is being
        // made (this function's contract).
        kernel::error::to_result(unsafe {
            (*vma).vm_ops = super::mmap::operations();
            map(context.raw(), vma)
        })
    })();
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
