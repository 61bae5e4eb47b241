// SPDX-License-Identifier: GPL-2.0

//! Open files of `ib_uverbs` (`struct ib_uverbs_file`): their table and list of handles, and their
//! end.
//!
//! The table has a reference to each handle that it shows, the list one to each handle in it. Both
//! are C's structures, since drivers walk the list (`mlx5`).

use super::handle::is_of;
use super::handle::HandleRef;
use crate::private;
use core::mem::offset_of;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::IntoC;
use rdma::edge::View;
use rdma::sync::rcu;
use rdma::sync::CRefcount;
use rdma::sync::Completion;
use rdma::xarray::Lasting;

rdma::c_struct! {
    /// The character device of an open file (`struct ib_uverbs_device`).
    struct CharDevice: private::ib_uverbs_device;
    fields {
        /// Uses of the device: one of the module, one of each open file.
        embed refs at refcount: CRefcount;
        /// Completed when the last use is gone.
        embed comp: Completion;
    }
}

impl CharDevice {
    fn of(file: &UFile) -> &Self {
        // SAFETY: A file's character device exists as long as the file (`uverbs.h`). Both bindings
        // declare the same structure.
        unsafe { Self::view(file.device().into_c().cast()) }
    }

    fn srcu(&self) -> *mut bindings::srcu_struct {
        // SAFETY: The address of a field.
        unsafe { &raw mut (*self.raw()).disassociate_srcu }
    }
}

/// A section in which the device of an open file does not go.
///
/// # Invariants
///
/// The domain of the file's device is held, with this key.
pub(crate) struct Associated<'a> {
    file: &'a UFile,
    key: c_int,
}

impl<'a> Associated<'a> {
    /// Begins a section. Any context that may sleep.
    pub(crate) fn enter(file: &'a UFile) -> Self {
        // SAFETY: The domain is initialised with the character device.
        let key = unsafe { bindings::rdma_helper_srcu_read_lock(CharDevice::of(file).srcu()) };
        // INVARIANT: Just entered.
        Self { file, key }
    }

    /// The device, unless it is gone.
    fn device(&self) -> Option<&Device> {
        // SAFETY: The device stays until the end of the section, which `self` is.
        unsafe {
            let device = bindings::rdma_helper_ufile_device(self.file.raw());
            device.cast::<Device>().as_ref()
        }
    }

    /// The user context; `None` if there is none, or if the device is gone.
    pub(crate) fn ucontext(&self) -> Option<&UContext> {
        self.device()?;
        // SAFETY: The device was there in the section.
        unsafe { self.file.ucontext() }
    }
}

impl Drop for Associated<'_> {
    fn drop(&mut self) {
        // SAFETY: Held with this key: type invariant.
        unsafe {
            bindings::rdma_helper_srcu_read_unlock(CharDevice::of(self.file).srcu(), self.key);
        }
    }
}

/// Whether the device of an open file is there. The caller is in a section in which that does not
/// change (`disassociate_srcu`), or gets an answer that is not valid for long.
pub(crate) fn has_device(file: &UFile) -> bool {
    // SAFETY: The file is borrowed; the address of its device is only compared.
    !unsafe { bindings::rdma_helper_ufile_device(file.raw()) }.is_null()
}

/// An open file whose objects are being destroyed.
///
/// # Invariants
///
/// The caller holds `hw_destroy_rwsem` of `0` for writing.
pub(crate) struct Cleaned<'a>(&'a UFile);

rdma::argument! {
    /// `rdma_core.h`: `__uverbs_cleanup_ufile` is called with the lock held.
    impl<'a> Cleaned<'a> = |file: &'a UFile| Cleaned(file);
}

impl<'a> Cleaned<'a> {
    /// The file.
    pub(crate) fn file(&self) -> &'a UFile {
        self.0
    }

    /// Calls the driver before the objects are destroyed. May sleep.
    pub(crate) fn tell_driver(&self) {
        // SAFETY: The lock is held (type invariant), so the context stays.
        let Some(context) = (unsafe { self.0.ucontext() }) else {
            return;
        };
        if let Some(cleanup) = context.dev().ops().ufile_hw_cleanup {
            // SAFETY: The driver of the context's device; the lock is held (`ib_verbs.h`).
            unsafe { cleanup(self.0.raw()) };
        }
    }
}

/// A handle of whose references the table has one.
struct OfTable<'a>(&'a Uobject);

// SAFETY: It is only made of handles of which the table has a reference, until it takes the handle
// out.
unsafe impl Lasting<Uobject> for OfTable<'_> {
    fn object(&self) -> &Uobject {
        self.0
    }
}

/// The number of a handle.
fn number(handle: &Uobject) -> u32 {
    // CAST: C keeps the number in an `int`.
    handle.id() as u32
}

/// A number that is reserved without a handle as soon as there was one, until the file is freed: the
/// last one of the first node of the table (`XA_CHUNK_SIZE`). A program that makes and destroys one
/// object again and again would otherwise have that node allocated and freed each time, which is
/// some 900 instructions. All that programs can see is that the 64th of their handles has another
/// number.
const ANCHOR: u32 = 63;

/// A number that is reserved for a handle; dropping it frees it.
pub(crate) struct Number<'a> {
    file: &'a UFile,
    number: u32,
}

impl<'a> Number<'a> {
    /// Reserves the lowest number that is free. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY`, `ENOMEM`.
    pub(crate) fn reserve(file: &'a UFile) -> Result<Self> {
        let mut table = file.idr().lock();
        let first = table.is_empty();
        let number = table.reserve()?;
        if first {
            // Keeps the node of the first numbers. Somebody else may have been first, too.
            let _ = table.reserve_number(ANCHOR);
        }
        drop(table);
        Ok(Self { file, number })
    }

    /// Gives the number to a handle.
    pub(crate) fn keep(self, handle: &HandleRef) {
        // CAST: C keeps the number in an `int`.
        // SAFETY: The number is reserved for this value, which gives it away.
        unsafe { handle.set_id(self.number as i32) };
        core::mem::forget(self);
    }

    /// Takes the number back from a handle that is in no table.
    pub(crate) fn of(file: &'a UFile, handle: &HandleRef) -> Self {
        Self {
            file,
            number: number(handle),
        }
    }
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        let mut table = self.file.idr().lock();
        // A handle under this number is not the one that it was reserved for.
        if !kernel::warn_on!(table.get(self.number).is_some()) {
            table.erase(self.number);
        }
    }
}

/// Puts a handle into the table of its file, under the number that was reserved for it. Warns if the
/// file is another one.
pub(crate) fn publish(file: &UFile, handle: HandleRef) {
    if kernel::warn_on!(!handle.is_of(file)) {
        return;
    }
    let number = number(&handle);
    let handle = handle.into_raw();
    // SAFETY: The reference, which is the table's now.
    let entry = OfTable(unsafe { handle.as_ref() });
    let done = file.idr().lock().show(number, &entry);
    kernel::warn_on!(!done);
}

/// Takes a handle out of the table of its file, with the table's reference. Warns if it is not in it.
pub(crate) fn unpublish(file: &UFile, handle: &Uobject) -> Option<HandleRef> {
    let number = number(handle);
    let found = file.idr().lock().take_out(number, handle);
    if kernel::warn_on!(!found) {
        return None;
    }
    // SAFETY: `publish` gave the table a reference, which it has given up.
    Some(unsafe { HandleRef::from_raw(NonNull::from(handle)) })
}

/// Exchanges the numbers of a handle in the table and one that has a reserved number. The handle in
/// the table stays in it. Warns, and returns `false`, if it is not in it.
pub(crate) fn swap_numbers(file: &UFile, shown: &Uobject, reserved: &Uobject) -> bool {
    let mut table = file.idr().lock();
    if kernel::warn_on!(!table.hide(number(shown), shown)) {
        return false;
    }
    let old = shown.id();
    // SAFETY: Each number is reserved for one of the two, and each gets the other's.
    unsafe {
        shown.set_id(reserved.id());
        reserved.set_id(old);
    }
    // The table has kept its reference to the handle.
    let done = table.show(number(shown), &OfTable(shown));
    kernel::warn_on!(!done);
    true
}

/// The handle with a number. Any context.
pub(crate) fn find(file: &UFile, number: u32) -> Option<HandleRef> {
    let reader = rcu::read_lock();
    HandleRef::of_found(file.idr().load(number, &reader)?)
}

/// Whether a handle is in the list of its file, whose lock is held.
fn is_listed(handle: &Uobject) -> bool {
    // SAFETY: The handle exists; its list head is initialised.
    unsafe {
        let list = &raw mut (*handle.raw()).list;
        (*list).next != list
    }
}

/// Puts a handle at the beginning of the list of its file. Warns if the file is another one, or the
/// handle is in the list.
pub(crate) fn list(file: &UFile, handle: HandleRef) {
    if kernel::warn_on!(!handle.is_of(file)) {
        return;
    }
    let _held = file.uobjects_lock().lock();
    if kernel::warn_on!(is_listed(&handle)) {
        return;
    }
    let handle = handle.into_raw();
    // SAFETY: The lock of the list is held, so the handles in it exist. The handle is in no list yet; the reference is the
    // list's now.
    unsafe {
        bindings::rdma_helper_uobject_list_add(handle.as_ref().raw(), file.raw());
    }
}

/// Takes a handle out of the list of its file, with the list's reference; `None` if it is not in it.
/// Warns if the file is another one.
pub(crate) fn unlist(file: &UFile, handle: &Uobject) -> Option<HandleRef> {
    if kernel::warn_on!(!is_of(handle, file)) {
        return None;
    }
    let _held = file.uobjects_lock().lock();
    if !is_listed(handle) {
        return None;
    }
    // SAFETY: The lock of the list is held, so the handles in it exist. The list had a reference.
    unsafe {
        bindings::rdma_helper_uobject_list_del(handle.raw());
        Some(HandleRef::from_raw(NonNull::from(handle)))
    }
}

/// The handle at a place in the list of a file, whose lock is held; `None` at its end.
///
/// # Safety
///
/// `at` is the place of a handle in the list, or the list's head.
unsafe fn listed(file: &UFile, at: *mut bindings::list_head) -> Option<HandleRef> {
    // SAFETY: The address of a field.
    if at == unsafe { &raw mut (*file.raw()).uobjects } {
        return None;
    }
    // SAFETY: A handle in the list exists, since the list has a reference.
    let handle = unsafe { Uobject::view(container_of!(at, bindings::ib_uobject, list)) };
    HandleRef::of_found(handle)
}

/// The first handle in the list, which is the newest.
pub(crate) fn first(file: &UFile) -> Option<HandleRef> {
    let _held = file.uobjects_lock().lock();
    // SAFETY: The lock of the list is held, so the handles in it exist.
    unsafe { listed(file, (*file.raw()).uobjects.next) }
}

/// The handle behind another one in the list of its file; `None` at the end, or if that one is in no
/// list. Warns if the file is another one.
pub(crate) fn after(file: &UFile, handle: &HandleRef) -> Option<HandleRef> {
    if kernel::warn_on!(!handle.is_of(file)) {
        return None;
    }
    let _held = file.uobjects_lock().lock();
    if !is_listed(handle) {
        return None;
    }
    // SAFETY: The lock of the list is held, and the handle is in it.
    unsafe { listed(file, (*handle.raw()).list.next) }
}

/// Whether the list is empty.
pub(crate) fn is_empty(file: &UFile) -> bool {
    first(file).is_none()
}

/// A reference to an open file. Dropping the last one frees it. May sleep.
///
/// # Invariants
///
/// `0` is an open file, and one of the references to it is this value's.
pub(crate) struct FileUse(NonNull<UFile>);

impl FileUse {
    /// Takes a reference.
    pub(crate) fn take(file: &UFile) -> Self {
        file.refs().inc();
        // INVARIANT: Just taken.
        Self(NonNull::from(file))
    }

    /// Gives the reference to a handle that is committed.
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }

    /// The reference of a handle of a file, which is released.
    pub(super) fn of_committed(handle: &HandleRef) -> Self {
        // SAFETY: The handle has had a reference since it was committed (`keep`), so the file
        // exists. Written when the handle was allocated; never null.
        let file = unsafe { NonNull::new_unchecked((*handle.raw()).ufile) };
        // INVARIANT: The reference was given to the handle.
        Self(file.cast())
    }
}

impl core::ops::Deref for FileUse {
    type Target = UFile;

    fn deref(&self) -> &UFile {
        // SAFETY: The file exists: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for FileUse {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        if unsafe { self.refs().put() } {
            // INVARIANT: That was the last reference.
            crate::destroy::end(DeadFile(self.0));
        }
    }
}

/// An open file whose last reference is gone; dropping it gives back its uses and frees it. No
/// handle is looked up in it any more, since that takes a reference.
///
/// # Invariants
///
/// Nobody else uses the file.
pub(crate) struct DeadFile(NonNull<UFile>);

// SAFETY: `uverbs.h`: `ib_uverbs_release_file` is called by `kref_put`, with the last reference.
unsafe impl rdma::edge::FromC for DeadFile {
    type C = *mut bindings::kref;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The count of an open file: the contract above.
        let file = unsafe { container_of!(c, bindings::ib_uverbs_file, ref_) };
        // SAFETY: It is not null. INVARIANT: The contract above.
        Self(unsafe { NonNull::new_unchecked(file) }.cast())
    }
}
// SAFETY: It borrows nothing.
unsafe impl rdma::edge::Within<'_> for DeadFile {}

impl DeadFile {
    fn file(&self) -> &UFile {
        // SAFETY: The file exists until it is dropped: type invariant.
        unsafe { self.0.as_ref() }
    }

    /// Takes a handle out of the table; `None` if it is empty.
    pub(crate) fn take_handle(&self) -> Option<HandleRef> {
        let mut table = self.file().idr().lock();
        let (number, _) = table.find(0, u32::MAX)?;
        let handle = table.erase(number)?;
        // SAFETY: `publish` gave the table a reference, which it gives up here.
        Some(unsafe { HandleRef::from_raw(handle) })
    }

    /// Gives back the use that the file has of its driver's module, if the driver has no
    /// `disassociate_ucontext`: `ib_uverbs_open` has taken it. Only for `drop`.
    fn put_driver(&self) {
        let associated = Associated::enter(self.file());
        let Some(device) = associated.device() else {
            return;
        };
        if device.ops().disassociate_ucontext.is_none() {
            // SAFETY: `ib_uverbs_open` has taken a reference to the module for this file.
            unsafe { bindings::rdma_helper_module_put(device.ops().owner) };
        }
    }

    /// Gives back the use that the file has of the character device. Only for `drop`.
    fn put_device_use(&self) {
        let device = CharDevice::of(self.file());
        // SAFETY: `ib_uverbs_open` has taken a use for this file, which only `drop` gives back.
        if unsafe { device.refs().put() } {
            device.comp().complete();
        }
    }
}

impl Drop for DeadFile {
    fn drop(&mut self) {
        const _: () = assert!(offset_of!(private::ib_uverbs_async_event_file, uobj) == 0);
        self.put_driver();
        self.put_device_use();
        let file = self.file().raw();
        let device: *mut private::ib_uverbs_device = self.file().device().into_c().cast();
        // SAFETY: Nobody else uses the file (type invariant). It has a reference to its default
        // event file, if any, one to the device, and owns the page.
        unsafe {
            bindings::xa_destroy(&raw mut (*file).idr);
            if let Some(events) = NonNull::new((*file).default_async_file) {
                drop(HandleRef::from_raw(events.cast()));
            }
            bindings::put_device(&raw mut (*device).dev);
            if !(*file).disassociate_page.is_null() {
                bindings::__free_pages((*file).disassociate_page, 0);
            }
            bindings::rdma_helper_ufile_free(file);
        }
    }
}

/// An open file whose table is not initialised yet. Only C makes it.
pub(crate) struct WithoutTable(NonNull<bindings::ib_uverbs_file>);

rdma::argument! {
    /// `rdma_core.h`: `setup_ufile_idr_uobject` is called once, before the table is used.
    impl WithoutTable = |file: NonNull<bindings::ib_uverbs_file>| WithoutTable(file);
}

impl WithoutTable {
    /// Initialises the table.
    pub(crate) fn init(self) {
        // SAFETY: Nobody uses the table yet (`argument!`'s row).
        unsafe {
            bindings::xa_init_flags(&raw mut (*self.0.as_ptr()).idr, bindings::XA_FLAGS_ALLOC);
        }
    }
}
