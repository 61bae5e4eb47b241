// SPDX-License-Identifier: GPL-2.0

//! What a file of a device's user can be mapped to, as C has it: `struct rdma_user_mmap_entry`, and
//! the areas of memory that are mapped.

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
use kernel::sync::Refcount;
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
use rdma::sync::Completion;
use rdma::xarray::Lasting;

rdma::c_struct! {
    /// The character device of an open file (`struct ib_uverbs_device`).
    struct CharDevice: private::ib_uverbs_device;
    fields {
        /// Read while a call runs. Initialised with the device.
        embed srcu at disassociate_srcu: Srcu;
    }
}

rdma::c_struct! {
    /// A domain of sleepable RCU, initialised.
    struct Srcu: bindings::srcu_struct;
    fields {}
}

impl CharDevice {
    fn of(file: &UFile) -> &Self {
        // SAFETY: A file has its character device as long as it is open (`uverbs.h`). One structure,
        // declared in two sets of bindings.
        unsafe { Self::view(file.device().into_c().cast()) }
    }

    /// Where it has its `struct ib_device`.
    fn place(&self) -> Place {
        let offset = offset_of!(private::ib_uverbs_device, ib_dev);
        Place(self.raw().wrapping_byte_add(offset).cast())
    }
}

/// A pointer of a character device that is changed under its `disassociate_srcu`.
struct Place(*mut *mut c_void);

impl IntoC<*mut *mut c_void> for Place {
    fn into_c(self) -> *mut *mut c_void {
        self.0
    }
}

rdma::import! { in rdma::bindings;
    /// Reads the pointer, and has lockdep check that the domain is held.
    fn dereference(place: Place, srcu: &Srcu) -> Address = rdma_helper_srcu_dereference;
    /// Has lockdep check that the domain is held.
    fn assert_held(srcu: &Srcu) = rdma_helper_srcu_assert_held;
}

/// An address that is not followed.
struct Address(*mut c_void);

// SAFETY: Every value is valid.
unsafe impl Reply<*mut c_void> for Address {
    unsafe fn reply(c: *mut c_void) -> Self {
        Self(c)
    }
}

/// Whether the device of an open file is still there. The caller holds `disassociate_srcu`.
pub(in crate::uverbs) fn has_device(file: &UFile) -> bool {
    let device = CharDevice::of(file);
    !dereference(device.place(), device.srcu()).0.is_null()
}

/// Lets lockdep check that the device of an open file cannot go.
pub(in crate::uverbs) fn assert_device_held(file: &UFile) {
    assert_held(CharDevice::of(file).srcu());
}

/// An entry that exists as long as this does.
///
/// # Invariants
///
/// That is so.
struct Kept(NonNull<MmapEntry>);

impl core::ops::Deref for Kept {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        // SAFETY: The entry exists: type invariant.
        unsafe { self.0.as_ref() }
    }
}

/// A count of an entry. The last one ends the entry, for which it may sleep.
///
/// # Invariants
///
/// One count of the entry is ours, and its context exists.
pub(in crate::uverbs) struct EntryRef(Kept);

impl EntryRef {
    /// Counts an entry that is found in a context, unless its last count is gone.
    pub(in crate::uverbs) fn of_found(entry: &MmapEntry) -> Option<Self> {
        use rdma::sync::IncNotZero;
        // INVARIANT: Just counted.
        entry
            .refs()
            .inc_not_zero()
            .then(|| Self(Kept(NonNull::from(entry))))
    }

    /// Counts an entry that the caller holds a count of.
    pub(in crate::uverbs) fn another(entry: &MmapEntry) -> Self {
        entry.refs().inc();
        // INVARIANT: Just counted.
        Self(Kept(NonNull::from(entry)))
    }

    /// The count is C's from now on.
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
        if self.refs().dec_and_test() {
            // INVARIANT: That was the last count; the driver frees the entry when it is told.
            crate::uverbs::mmap::end(DeadEntry(Kept(self.0 .0)));
        }
    }
}

/// A count of an entry, or null.
pub(in crate::uverbs) struct MaybeEntry(pub(in crate::uverbs) Option<EntryRef>);

rdma::argument! {
    /// `ib_verbs.h`: null, or an entry of which the caller gives up a count.
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

/// An entry whose last count is gone.
///
/// # Invariants
///
/// Nobody has the entry any more but those who find it in its context, and cannot count it. It
/// exists until `free` gives it to its driver.
pub(in crate::uverbs) struct DeadEntry(Kept);

impl core::ops::Deref for DeadEntry {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        &self.0
    }
}

impl DeadEntry {
    /// Gives the entry, which cannot be found any more, to its driver. May sleep.
    pub(in crate::uverbs) fn free(self) {
        let device = self.ucontext().and_then(crate::edge::uverbs::device);
        if let Some(free) = device.and_then(|device| device.ops().mmap_free) {
            // SAFETY: The method is of the entry's driver; nobody has the entry: type invariant.
            unsafe { free(self.raw()) };
        }
    }
}

/// An entry that a driver wants to insert. It stays until its last count is gone: `end` takes it out
/// of its context before.
pub(in crate::uverbs) struct NewEntry(Owned<MmapEntry>);

/// The same as C gives it, or null: drivers insert an entry of their own once (`ib_verbs.h`).
pub(in crate::uverbs) type MaybeNewEntry = Given<MmapEntry>;

impl NewEntry {
    /// Initialises the entry: one count, the driver's.
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
        // SAFETY: Nobody else has the entry (`Owned`). CAST: From 32 bits.
        unsafe {
            bindings::INIT_LIST_HEAD(&raw mut (*c).dmabufs);
            bindings::rdma_helper_mmap_entry_init_mutex(c);
            (*c).ucontext = context.raw();
            (*c).npages = pages as usize;
        }
        entry.refs().set(1);
        Ok(Self(entry))
    }
}

impl core::ops::Deref for NewEntry {
    type Target = MmapEntry;

    fn deref(&self) -> &MmapEntry {
        &self.0
    }
}

// SAFETY: It stays until its last count is gone, and `end` takes it out then.
unsafe impl Lasting<MmapEntry> for NewEntry {
    fn object(&self) -> &MmapEntry {
        self
    }
}

rdma::c_struct! {
    /// A DMA-buf that was made of an entry (`struct ib_uverbs_dmabuf_file`).
    pub(in crate::uverbs) struct Dmabuf: private::ib_uverbs_dmabuf_file;
    fields {
        /// The buffer's own count, and one of each mapping.
        embed refs at kref.refcount: Refcount;
        /// Completed by the last count.
        embed comp: Completion;
    }
}

/// The first of the buffers that were made of an entry, whose `dmabufs_lock` is held.
pub(in crate::uverbs) fn first_dmabuf<'a>(
    entry: &MmapEntry,
    _held: &'a Guard<'_, (), MutexBackend>,
) -> Option<&'a Dmabuf> {
    const PLACE: usize = offset_of!(private::ib_uverbs_dmabuf_file, dmabufs_elm);
    // SAFETY: The list is changed under the lock only, which is held (`rdma_user_mmap_entry`). A
    // buffer stays in it until it is revoked or freed, both under the lock.
    unsafe {
        let list = &raw mut (*entry.raw()).dmabufs;
        let first = (*list).next;
        (first != list).then(|| Dmabuf::view(first.wrapping_byte_sub(PLACE).cast()))
    }
}

impl Dmabuf {
    /// Revokes a buffer of the list: no mapping of it is left. May sleep.
    pub(in crate::uverbs) fn revoke(&self, _held: &Guard<'_, (), MutexBackend>) {
        let file = self.raw();
        // SAFETY: A buffer in the list has a `struct dma_buf` with a reservation lock, which guards
        // `revoked`; the list is guarded by the lock that is held.
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
        // Each mapping holds a count; the last to go completes it.
        if self.refs().dec_and_test() {
            self.comp().complete();
        }
        self.comp().wait();
    }
}

rdma::c_struct! {
    /// A mapping that is being made (`struct vm_area_struct`), under the `mmap_lock`.
    pub(in crate::uverbs) struct VmArea: bindings::vm_area_struct;
    fields {
        /// The first address.
        cell start at __bindgen_anon_1.__bindgen_anon_1.vm_start: usize;
        /// The address after the last one.
        cell end at __bindgen_anon_1.__bindgen_anon_1.vm_end: usize;
        /// `VM_*`.
        cell flags at __bindgen_anon_2.vm_flags: usize;
        /// The offset in the file, in pages.
        cell pgoff at vm_pgoff: usize;
    }
}

// SAFETY: The `mmap_lock` is held for writing while a mapping is made; `Opaque` is not `Sync`.
unsafe impl OfCall for VmArea {}

/// Protection of pages.
#[derive(Clone, Copy)]
pub(in crate::uverbs) struct Prot(bindings::pgprot_t);

// SAFETY: All values are.
unsafe impl FromC for Prot {
    type C = bindings::pgprot_t;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}

// SAFETY: There are no references.
unsafe impl Within<'_> for Prot {}

impl VmArea {
    /// Bytes of the mapping.
    pub(in crate::uverbs) fn len(&self) -> usize {
        self.end().wrapping_sub(self.start())
    }

    /// Whether others see what is written to it.
    pub(in crate::uverbs) fn is_shared(&self) -> bool {
        self.flags() & bindings::VM_SHARED != 0
    }

    /// Whether it is one of an open file of `ib_uverbs`.
    pub(in crate::uverbs) fn is_of(&self, file: &UFile) -> bool {
        // SAFETY: A mapping holds its file, if it has one; `private_data` is set when that is
        // opened, and only compared.
        unsafe {
            let of = (*self.raw()).vm_file;
            !of.is_null() && (*of).private_data == file.raw().cast()
        }
    }

    /// Maps `size` bytes of a device's from a page number on. May sleep.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if that fails.
    pub(in crate::uverbs) fn map(&self, pfn: usize, size: usize, prot: Prot) -> Result {
        // SAFETY: The `mmap_lock` is held (`OfCall`). What a driver may map is its own business:
        // `rdma_user_mmap_io` is its means for that.
        let failed = unsafe {
            (*self.raw()).vm_page_prot = prot.0;
            bindings::rdma_helper_io_remap_pfn_range(self.raw(), self.start(), pfn, size, prot.0)
        };
        (failed == 0).then_some(()).ok_or(EAGAIN)
    }
}

/// What is noted of a mapping in its file: memory that lives as long as the mapping.
///
/// # Invariants
///
/// `0` is zeroed memory that is the mapping's from [`attach`](Self::attach) on.
pub(in crate::uverbs) struct Note(*mut private::rdma_umap_priv);

rdma::argument! {
    /// `rdma_umap_priv_init` gets zeroed memory that lives as long as the mapping (`core_priv.h`).
    impl Note = |note: Passed<private::rdma_umap_priv>| Note(note.into_c());
}

impl Note {
    /// Attaches the note to a mapping, with a count of its entry, and lists it in the file, whose
    /// `umap_lock` is held. `ib_uverbs` detaches and frees it with the mapping.
    fn attach(
        self,
        vma: &VmArea,
        entry: Option<EntryRef>,
        file: &UFile,
        _held: &Guard<'_, (), MutexBackend>,
    ) {
        let note = self.0;
        // SAFETY: The memory is ours until here, and lives as long as the mapping: type invariant.
        // The list is changed under the lock only, which is held.
        unsafe {
            (*note).vma = vma.raw();
            (*note).entry = MaybeEntry(entry).answer();
            (*vma.raw()).vm_private_data = note.cast();
            bindings::list_add_tail(&raw mut (*note).list, &raw mut (*file.raw()).umaps);
        }
    }

    /// As [`attach`](Self::attach); takes the lock. May sleep.
    pub(in crate::uverbs) fn list(self, vma: &VmArea, entry: Option<EntryRef>, file: &UFile) {
        let held = file.umap_lock().lock();
        self.attach(vma, entry, file, &held);
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
            GFP_KERNEL,
        )?))
    }

    /// To be attached: `ib_uverbs` frees it.
    pub(in crate::uverbs) fn note(self) -> Note {
        // INVARIANT: Zeroed memory of kmalloc.
        Note(KBox::into_raw(self.0))
    }
}

/// A mapping that C makes, of an open file of `ib_uverbs`.
pub(in crate::uverbs) struct MappingOf<'a> {
    /// The mapping.
    pub(in crate::uverbs) vma: &'a VmArea,
    /// The file.
    pub(in crate::uverbs) file: &'a UFile,
}

// SAFETY: `core_priv.h`: `rdma_umap_priv_init` gets mappings of files of `ib_uverbs`.
unsafe impl FromC for MappingOf<'_> {
    type C = *mut bindings::vm_area_struct;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Such a mapping, whose file's private data is the open file: contract of this
        // function.
        unsafe {
            Self {
                vma: View::view(c),
                file: View::view((*(*c).vm_file).private_data.cast()),
            }
        }
    }
}

// SAFETY: The references are of `'a`.
unsafe impl<'a> Within<'a> for MappingOf<'a> {}
