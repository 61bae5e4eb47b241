// SPDX-License-Identifier: GPL-2.0

//! C structures for mappings of a device's memory: `struct rdma_user_mmap_entry` and
//! `struct vm_area_struct`.

use crate::private;
use core::mem::offset_of;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::object::Given;
use rdma::edge::object::Owned;
use rdma::edge::uverbs::MmapEntry;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::UFile;
use rdma::edge::Answer;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::Reply;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::features::DMABUF_RELEASE_LOCK;
use rdma::sync::CRefcount;
use rdma::sync::Completion;
use rdma::xarray::Lasting;

rdma::c_struct! {
    /// The character device of an open file (`struct ib_uverbs_device`).
    struct CharDevice: private::ib_uverbs_device;
    fields {
        /// Read lock held while a call runs. Initialised with the device.
        embed srcu at disassociate_srcu: Srcu;
    }
}

rdma::c_struct! {
    /// An initialised SRCU domain.
    struct Srcu: bindings::srcu_struct;
    fields {}
}

impl CharDevice {
    fn of(file: &UFile) -> &Self {
        // SAFETY: A file's character device exists as long as the file is open (`uverbs.h`). Both
        // bindings declare the same structure.
        unsafe { Self::view(file.device().into_c().cast()) }
    }

    /// Location of the pointer to the `struct ib_device`.
    fn place(&self) -> Place {
        let offset = offset_of!(private::ib_uverbs_device, ib_dev);
        Place(self.raw().wrapping_byte_add(offset).cast())
    }
}

/// A pointer of a character device that is protected by its `disassociate_srcu`.
struct Place(*mut *mut c_void);

impl IntoC<*mut *mut c_void> for Place {
    fn into_c(self) -> *mut *mut c_void {
        self.0
    }
}

rdma::import! { in rdma::bindings;
    /// Reads the pointer. Lockdep checks that the domain is held.
    fn dereference(place: Place, srcu: &Srcu) -> Address = rdma_helper_srcu_dereference;
    /// Has lockdep check that the domain is held.
    fn assert_held(srcu: &Srcu) = rdma_helper_srcu_assert_held;
}

/// An address that is not dereferenced.
struct Address(*mut c_void);

// SAFETY: Any value is valid.
unsafe impl Reply<*mut c_void> for Address {
    unsafe fn reply(c: *mut c_void) -> Self {
        Self(c)
    }
}

/// Returns whether the device of an open file still exists. The caller must hold
/// `disassociate_srcu`.
pub(in crate::uverbs) fn has_device(file: &UFile) -> bool {
    let device = CharDevice::of(file);
    !dereference(device.place(), device.srcu()).0.is_null()
}

/// Has lockdep check that `disassociate_srcu` of an open file's device is held.
pub(in crate::uverbs) fn assert_device_held(file: &UFile) {
    assert_held(CharDevice::of(file).srcu());
}

/// A pointer to an entry that exists as long as this value.
///
/// # Invariants
///
/// The entry exists as long as this value.
struct Kept(NonNull<MmapEntry>);

impl core::ops::Deref for Kept {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        // SAFETY: The entry exists: type invariant.
        unsafe { self.0.as_ref() }
    }
}

/// A reference to an entry. Dropping the last one frees the entry, which may sleep.
///
/// # Invariants
///
/// This value owns one reference to the entry, and its context exists.
pub(in crate::uverbs) struct EntryRef(Kept);

impl EntryRef {
    /// Takes a reference to an entry found in a context, unless its last reference is gone.
    pub(in crate::uverbs) fn of_found(entry: &MmapEntry) -> Option<Self> {
        // INVARIANT: The reference was just taken.
        entry
            .refs()
            .inc_not_zero()
            .then(|| Self(Kept(NonNull::from(entry))))
    }

    /// Takes a reference to an entry that the caller holds a reference to.
    pub(in crate::uverbs) fn another(entry: &MmapEntry) -> Self {
        entry.refs().inc();
        // INVARIANT: The reference was just taken.
        Self(Kept(NonNull::from(entry)))
    }

    /// Transfers the reference to C.
    fn into_raw(self) -> *mut bindings::rdma_user_mmap_entry {
        core::mem::ManuallyDrop::new(self).raw()
    }
}

impl core::ops::Deref for EntryRef {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        &self.0
    }
}

impl Drop for EntryRef {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        if unsafe { self.refs().put() } {
            // INVARIANT: That was the last reference; the driver frees the entry when `mmap_free`
            // is called.
            crate::uverbs::mmap::end(DeadEntry(Kept(self.0 .0)));
        }
    }
}

/// A reference to an entry, or null.
pub(in crate::uverbs) struct MaybeEntry(pub(in crate::uverbs) Option<EntryRef>);

rdma::argument! {
    /// `ib_verbs.h`: null, or an entry of which the caller passes its reference.
    impl MaybeEntry = |entry: Option<&'static MmapEntry>| {
        MaybeEntry(entry.map(|entry| EntryRef(Kept(NonNull::from(entry)))))
    };
}

impl Answer for MaybeEntry {
    type C = *mut bindings::rdma_user_mmap_entry;

    fn answer(self) -> Self::C {
        self.0.map_or(ptr::null_mut(), EntryRef::into_raw)
    }
}

/// An entry whose last reference is gone.
///
/// # Invariants
///
/// Nobody holds a reference to the entry, and lookups that find it cannot take one. It exists until
/// `free` passes it to its driver.
pub(in crate::uverbs) struct DeadEntry(Kept);

impl core::ops::Deref for DeadEntry {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        &self.0
    }
}

impl DeadEntry {
    /// Passes the entry, which is no longer in its context, to its driver. May sleep.
    pub(in crate::uverbs) fn free(self) {
        let device = self.ucontext().and_then(crate::edge::uverbs::device);
        if let Some(free) = device.and_then(|device| device.ops().mmap_free) {
            // SAFETY: The method belongs to the entry's driver; nobody else holds the entry: type
            // invariant.
            unsafe { free(self.raw()) };
        }
    }
}

/// An entry that a driver inserts. It exists until its last reference is dropped; `end` removes it
/// from its context before.
pub(in crate::uverbs) struct NewEntry(Owned<MmapEntry>);

/// The entry as passed by C, or null. Drivers insert an entry that they own once (`ib_verbs.h`).
pub(in crate::uverbs) type MaybeNewEntry = Given<MmapEntry>;

impl NewEntry {
    /// Initialises the entry with one reference, the driver's.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an entry.
    pub(in crate::uverbs) fn set_up(
        entry: MaybeNewEntry,
        context: &UContext,
        pages: u32,
    ) -> Result<Self> {
        let mut entry = entry.owned()?;
        let c = entry.sole();
        // SAFETY: Nobody else has the entry (`Owned`). CAST: Widens from 32 bits.
        unsafe {
            bindings::INIT_LIST_HEAD(&raw mut (*c).dmabufs);
            bindings::rdma_helper_mmap_entry_init_mutex(c);
            (*c).ucontext = context.raw();
            (*c).npages = pages as usize;
        }
        // SAFETY: The entry is new, and the reference is the driver's.
        unsafe { entry.refs().init(1) };
        Ok(Self(entry))
    }
}

impl core::ops::Deref for NewEntry {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        &self.0
    }
}

// SAFETY: It exists until its last reference is dropped, and `end` removes it before it is freed.
unsafe impl Lasting<MmapEntry> for NewEntry {
    fn object(&self) -> &MmapEntry {
        self
    }
}

rdma::c_struct! {
    /// A DMA-buf that exports an entry (`struct ib_uverbs_dmabuf_file`).
    pub(in crate::uverbs) struct Dmabuf: private::ib_uverbs_dmabuf_file;
    fields {
        /// One reference for the buffer, and one for each mapping.
        embed refs at kref.refcount: CRefcount;
        /// Completed when the last reference is dropped.
        embed comp: Completion;
    }
}

/// The DMA-bufs that export an entry, whose `dmabufs_lock` is held.
///
/// # Invariants
///
/// `_held` is of the lock of `entry`.
pub(in crate::uverbs) struct Dmabufs<'a> {
    entry: &'a MmapEntry,
    _held: Guard<'a, (), MutexBackend>,
}

impl<'a> Dmabufs<'a> {
    /// Locks the DMA-bufs of an entry. May sleep.
    pub(in crate::uverbs) fn lock(entry: &'a MmapEntry) -> Self {
        // INVARIANT: It is that entry's lock.
        Self {
            entry,
            _held: entry.dmabufs_lock().lock(),
        }
    }

    /// Revokes all of them, and waits until their mappings are gone. May sleep.
    pub(in crate::uverbs) fn revoke(self) {
        const PLACE: usize = offset_of!(private::ib_uverbs_dmabuf_file, dmabufs_elm);
        loop {
            // SAFETY: The list changes only under the lock, which is held (type invariant;
            // `rdma_user_mmap_entry`).
            let (list, first) = unsafe {
                let list = &raw mut (*self.entry.raw()).dmabufs;
                (list, (*list).next)
            };
            if first == list {
                break;
            }
            // SAFETY: A buffer stays in the list until it is revoked or freed, both under the lock,
            // which is held.
            unsafe { Dmabuf::view(first.wrapping_byte_sub(PLACE).cast()).revoke() };
        }
    }
}

impl Dmabuf {
    /// Revokes the buffer, which takes it off its list, and waits until all of its mappings are gone.
    /// May sleep.
    ///
    /// # Safety
    ///
    /// The buffer is in the list of an entry, whose lock is held.
    unsafe fn revoke(&self) {
        let file = self.raw();
        if DMABUF_RELEASE_LOCK {
            // SAFETY: The buffer is in a list whose lock is held (contract of this function).
            unsafe { bindings::rdma_helper_dmabuf_revoke(file.cast()) };
            return;
        }
        // SAFETY: A buffer in the list has a `struct dma_buf` with a reservation lock, which guards
        // `revoked`. The lock of the list is held (contract of this function).
        unsafe {
            let buffer = (*file).dmabuf;
            let resv = (*buffer).resv;
            bindings::dma_resv_lock(resv, ptr::null_mut());
            bindings::rdma_helper_list_del(&raw mut (*file).dmabufs_elm);
            (*file).set_revoked(1);
            bindings::dma_buf_invalidate_mappings(buffer);
            bindings::dma_resv_wait_timeout(
                resv,
                bindings::dma_resv_usage_DMA_RESV_USAGE_BOOKKEEP,
                false,
                c_long::MAX as c_ulong,
            );
            bindings::dma_resv_unlock(resv);
        }
        // Each mapping holds a reference; the last one completes the completion.
        // SAFETY: The reference is the buffer's, which was revoked above.
        if unsafe { self.refs().put() } {
            self.comp().complete();
        }
        self.comp().wait();
    }
}

rdma::c_struct! {
    /// A mapping that is being created (`struct vm_area_struct`), under the `mmap_lock`.
    pub(in crate::uverbs) struct VmArea: bindings::vm_area_struct;
    fields {
        /// First address.
        cell start at __bindgen_anon_1.__bindgen_anon_1.vm_start: usize;
        /// Address after the last byte.
        cell end at __bindgen_anon_1.__bindgen_anon_1.vm_end: usize;
        /// `VM_*`.
        cell flags at __bindgen_anon_2.vm_flags: usize;
        /// Offset in the file, in pages.
        cell pgoff at vm_pgoff: usize;
    }
}

// SAFETY: The `mmap_lock` is held for writing while a mapping is created; `Opaque` is not `Sync`.
unsafe impl OfCall for VmArea {}

/// Page protection.
#[derive(Clone, Copy)]
pub(in crate::uverbs) struct Prot(bindings::pgprot_t);

// SAFETY: Any value is valid.
unsafe impl FromC for Prot {
    type C = bindings::pgprot_t;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}

// SAFETY: It holds no references.
unsafe impl Within<'_> for Prot {}

impl VmArea {
    /// Size of the mapping in bytes.
    pub(in crate::uverbs) fn len(&self) -> usize {
        self.end().wrapping_sub(self.start())
    }

    /// Returns whether writes to the mapping are visible to others.
    pub(in crate::uverbs) fn is_shared(&self) -> bool {
        self.flags() & bindings::VM_SHARED != 0
    }

    /// Returns whether the mapping belongs to `file`.
    pub(in crate::uverbs) fn is_of(&self, file: &UFile) -> bool {
        // SAFETY: A mapping keeps its file, if it has one. `private_data` is set when the file is
        // opened, and is only compared.
        unsafe {
            let of = (*self.raw()).vm_file;
            !of.is_null() && (*of).private_data == file.raw().cast()
        }
    }

    /// Maps `size` bytes of device memory, starting at page frame `pfn`. May sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the mapping fails.
    pub(in crate::uverbs) fn map(&self, pfn: usize, size: usize, prot: Prot) -> Result {
        // SAFETY: The `mmap_lock` is held (`OfCall`). The driver is responsible for what it maps:
        // `rdma_user_mmap_io` is its interface for that.
        let failed = unsafe {
            (*self.raw()).vm_page_prot = prot.0;
            bindings::rdma_helper_io_remap_pfn_range(self.raw(), self.start(), pfn, size, prot.0)
        };
        (failed == 0).then_some(()).ok_or(EAGAIN)
    }
}

/// A mapping's entry in its file's list. The memory lives as long as the mapping.
///
/// # Invariants
///
/// `0` is zeroed memory, which belongs to the mapping from [`list`](Self::list) on.
pub(in crate::uverbs) struct Note(*mut private::rdma_umap_priv);

rdma::argument! {
    /// `rdma_umap_priv_init` gets zeroed memory that lives as long as the mapping (`core_priv.h`).
    impl Note = |note: Passed<private::rdma_umap_priv>| Note(note.into_c());
}

impl Note {
    /// Attaches the note to a mapping, with a reference to the mapping's entry, and lists it in the
    /// file. `ib_uverbs` detaches and frees it with the mapping. May sleep.
    pub(in crate::uverbs) fn list(self, vma: &VmArea, entry: Option<EntryRef>, file: &UFile) {
        let note = self.0;
        let _held = file.umap_lock().lock();
        // SAFETY: This value has exclusive access to the memory, which lives as long as the
        // mapping: type invariant. The list changes only under the file's lock, which is held.
        unsafe {
            (*note).vma = vma.raw();
            (*note).entry = MaybeEntry(entry).answer();
            (*vma.raw()).vm_private_data = note.cast();
            bindings::list_add_tail(&raw mut (*note).list, &raw mut (*file.raw()).umaps);
        }
    }
}

/// Memory for a [`Note`] that is not attached yet.
pub(in crate::uverbs) struct FreshNote(KBox<private::rdma_umap_priv>);

impl FreshNote {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::uverbs) fn new() -> Result<Self> {
        Ok(Self(KBox::new(
            private::rdma_umap_priv::default(),
            accounted::GFP,
        )?))
    }

    /// Returns the note, to be attached: `ib_uverbs` then frees it.
    pub(in crate::uverbs) fn note(self) -> Note {
        // INVARIANT: The memory is zeroed, from kmalloc.
        Note(KBox::into_raw(self.0))
    }
}

/// A mapping of an `ib_uverbs` file that C creates.
pub(in crate::uverbs) struct MappingOf<'a> {
    /// The mapping.
    pub(in crate::uverbs) vma: &'a VmArea,
    /// The file.
    pub(in crate::uverbs) file: &'a UFile,
}

// SAFETY: `core_priv.h`: `rdma_umap_priv_init` gets mappings of `ib_uverbs` files.
unsafe impl FromC for MappingOf<'_> {
    type C = *mut bindings::vm_area_struct;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The mapping's file is an `ib_uverbs` file, whose private data is the open file:
        // contract of this function.
        unsafe {
            Self {
                vma: View::view(c),
                file: View::view((*(*c).vm_file).private_data.cast()),
            }
        }
    }
}

// SAFETY: The references are limited to `'a`.
unsafe impl<'a> Within<'a> for MappingOf<'a> {}
