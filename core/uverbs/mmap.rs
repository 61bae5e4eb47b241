// SPDX-License-Identifier: GPL-2.0

//! Mappings of a device's memory through an open file.
//!
//! A driver inserts an *entry* into the user's context, which gets a range of file offsets that the
//! user can map. An entry is reference counted: the driver holds a reference until it removes the
//! entry, as do each mapping and each lookup. Dropping the last reference frees the offsets and
//! passes the entry to the driver's `mmap_free`.
//!
//! Mappings of device registers are listed in the open file, so that `ib_uverbs` can revoke them
//! when the device is removed.
//!
//! Locks: the file's `umap_lock` serialises insertions, since a range is found and filled in
//! several steps; inside it, the xarray's lock, which also guards `driver_removed`. An entry's
//! `dmabufs_lock` is taken before the xarray's lock or a DMA-buf's reservation lock.

use super::edge;
use super::edge::DeadEntry;
use super::edge::Dmabufs;
use super::edge::EntryRef;
use super::edge::FreshNote;
use super::edge::MappingOf;
use super::edge::MaybeEntry;
use super::edge::MaybeNewEntry;
use super::edge::NewEntry;
use super::edge::Note;
use super::edge::Prot;
use super::edge::VmArea;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::edge::uverbs::MmapEntry;
use rdma::edge::uverbs::UContext;
use rdma::xarray::Locked;
use rdma::xarray::FREE;

/// The entries of a context by page offset, locked.
type Offsets<'a> = Locked<'a, MmapEntry>;

/// Finds `pages` consecutive free offsets; the first is within `min..=max`.
fn find_free(offsets: &Offsets<'_>, pages: u32, min: u32, max: u32) -> Result<u32> {
    let mut from = min;
    loop {
        let first = offsets.first_marked(from, max, FREE).ok_or(ENOMEM)?;
        let end = first.checked_add(pages).ok_or(ENOMEM)?;
        match offsets.find(first, end.saturating_sub(1)) {
            None => return Ok(first),
            Some((taken, _)) => from = taken.checked_add(1).ok_or(ENOMEM)?,
        }
        if from > max {
            return Err(ENOMEM);
        }
    }
}

/// Inserts an entry at all of its offsets, which must fit in 32 bits. May drop the lock to
/// allocate.
fn fill(offsets: &mut Offsets<'_>, first: u32, pages: u32, entry: &NewEntry) -> Result {
    for done in 0..pages {
        if offsets.insert(first.wrapping_add(done), entry).is_err() {
            erase(offsets, first, done);
            return Err(ENOMEM);
        }
    }
    Ok(())
}

fn erase(offsets: &mut Offsets<'_>, first: u32, pages: u32) {
    for at in 0..pages {
        let _entry = offsets.erase(first.wrapping_add(at));
    }
}

/// Inserts an entry of `length` bytes at a range of page offsets whose first is within `min..=max`.
/// May sleep.
///
/// # Errors
///
/// `ENOMEM` if no range is free; `EINVAL` without an entry or if `length` is 0.
fn insert_range(
    context: &UContext,
    entry: MaybeNewEntry,
    length: usize,
    min: u32,
    max: u32,
) -> Result {
    let pages = u32::try_from(length.div_ceil(PAGE_SIZE)).map_err(|_| ENOMEM)?;
    if pages == 0 {
        return Err(EINVAL);
    }
    let entry = NewEntry::set_up(entry, context, pages)?;

    let file = context.ufile().ok_or(EINVAL)?;
    let _one = file.umap_lock().lock();
    let mut offsets = context.mmap_xa().lock();
    let first = find_free(&offsets, pages, min, max)?;
    // CAST: Widens from 32 bits.
    entry.set_start_pgoff(&mut offsets, first as usize);
    // Lookups ignore the entry until it is complete, since the insertion may be undone.
    entry.set_driver_removed(&mut offsets, true);
    fill(&mut offsets, first, pages, &entry)?;
    entry.set_driver_removed(&mut offsets, false);
    Ok(())
}

/// Like [`insert_range`], at any offset.
///
/// # Errors
///
/// Those of [`insert_range`].
fn insert(context: &UContext, entry: MaybeNewEntry, length: usize) -> Result {
    insert_range(context, entry, length, 0, u32::MAX)
}

/// Frees the offsets of an entry after its last reference was dropped, and passes it to its driver.
pub(super) fn end(entry: DeadEntry) {
    if let Some(context) = entry.ucontext() {
        let mut offsets = context.mmap_xa().lock();
        // Both were set from 32-bit values.
        let first = u32::try_from(entry.start_pgoff(&offsets));
        if let (Ok(first), Ok(pages)) = (first, u32::try_from(entry.npages())) {
            erase(&mut offsets, first, pages);
        }
    }
    entry.free();
}

/// Lists a mapping in its file, and takes a reference to its entry, if any. May sleep.
fn init_note(note: Note, mapping: MappingOf<'_>, entry: Option<&MmapEntry>) {
    note.list(mapping.vma, entry.map(EntryRef::another), mapping.file);
}

/// Maps `size` bytes of device memory at `pfn` into a process, for a driver's `mmap`. May sleep.
///
/// # Errors
///
/// `EINVAL` for a mapping that is private, of another size, or not of this context's file;
/// `ENOMEM`; `EAGAIN` if the mapping fails.
fn map_io(
    context: &UContext,
    vma: &VmArea,
    pfn: usize,
    size: usize,
    prot: Prot,
    entry: Option<&MmapEntry>,
) -> Result {
    let file = context.ufile().ok_or(EINVAL)?;
    if !vma.is_shared() || vma.len() != size {
        return Err(EINVAL);
    }
    if !vma.is_of(file) {
        pr_warn!("rdma_user_mmap_io: not from a mapping of this context's file\n");
        return Err(EINVAL);
    }
    edge::assert_device_held(file);
    let note = FreshNote::new()?;
    vma.map(pfn, size, prot)?;
    note.note().list(vma, entry.map(EntryRef::another), file);
    Ok(())
}

/// Returns a reference to the entry that begins at a page offset; `None` if there is none or its
/// driver has removed it. Any context that cannot interrupt a holder of the xarray's lock.
fn get_pgoff(context: &UContext, pgoff: usize) -> MaybeEntry {
    let Ok(at) = u32::try_from(pgoff) else {
        return MaybeEntry(None);
    };
    let offsets = context.mmap_xa().lock();
    let found = offsets
        .get(at)
        .filter(|entry| entry.start_pgoff(&offsets) == pgoff && !entry.driver_removed(&offsets));
    MaybeEntry(found.and_then(EntryRef::of_found))
}

/// Returns a reference to the entry for a mapping that is being created; `None` if there is none,
/// or if the mapping is private or of another length.
fn get(context: &UContext, vma: &VmArea) -> MaybeEntry {
    if !vma.is_shared() {
        return MaybeEntry(None);
    }
    let entry = get_pgoff(context, vma.pgoff()).0;
    MaybeEntry(entry.filter(|entry| entry.npages().checked_mul(PAGE_SIZE) == Some(vma.len())))
}

/// Drops a reference. May sleep if the driver's `mmap_free` does.
fn put(entry: MaybeEntry) {
    drop(entry.0);
}

/// Drops the driver's reference. No new mappings are possible, existing mappings keep the entry,
/// and DMA-bufs that export it are revoked. May sleep.
fn remove(entry: MaybeEntry) {
    let Some(entry) = entry.0 else { return };
    if let Some(context) = entry.ucontext() {
        let buffers = Dmabufs::lock(&entry);
        let mut offsets = context.mmap_xa().lock();
        entry.set_driver_removed(&mut offsets, true);
        drop(offsets);
        buffers.revoke();
    }
    drop(entry);
}

rdma::export! {
    in rdma::bindings;

    /// See [`map_io`].
    fn rdma_user_mmap_io(
        context: &UContext, vma: &VmArea, pfn: usize, size: usize, prot: Prot,
        entry: Option<&MmapEntry>,
    ) -> Result = map_io;
    /// See [`get_pgoff`].
    fn rdma_user_mmap_entry_get_pgoff(context: &UContext, pgoff: usize) -> MaybeEntry = get_pgoff;
    /// See [`get`].
    fn rdma_user_mmap_entry_get(context: &UContext, vma: &VmArea) -> MaybeEntry = get;
    /// See [`put`].
    fn rdma_user_mmap_entry_put(entry: MaybeEntry) = put;
    /// See [`remove`].
    fn rdma_user_mmap_entry_remove(entry: MaybeEntry) = remove;
    /// See [`insert_range`].
    fn rdma_user_mmap_entry_insert_range(
        context: &UContext, entry: MaybeNewEntry, length: usize, min: u32, max: u32,
    ) -> Result = insert_range;
    /// See [`insert`].
    fn rdma_user_mmap_entry_insert(
        context: &UContext, entry: MaybeNewEntry, length: usize,
    ) -> Result = insert;
}

rdma::export! {
    in crate::private;

    /// See [`init_note`].
    fn rdma_umap_priv_init(
        note: Note, mapping: MappingOf<'_>, entry: Option<&MmapEntry>,
    ) = init_note;
}
