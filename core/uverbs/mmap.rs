// SPDX-License-Identifier: GPL-2.0

//! What a file of a device's user can be mapped to.
//!
//! A driver gives an *entry* to the user's context and gets a range of file offsets for it, which
//! the user maps. An entry is counted: by the driver, until it removes the entry, by each mapping,
//! and by each lookup. When the last count is gone its offsets are free for others, and the
//! driver's `mmap_free` gets it.
//!
//! Mappings of a device's registers are listed in the open file, so that `ib_uverbs` can revoke
//! them when the device goes.
//!
//! Locks: the file's `umap_lock` makes one insertion at a time, since a range is found and filled
//! in several steps; inside, the xarray's lock, which also guards `driver_removed`. An entry's
//! `dmabufs_lock`, then the xarray's lock, or a buffer's reservation lock.

use super::edge;
use super::edge::DeadEntry;
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

/// A context's entries by page offset, locked.
type Offsets<'a> = Locked<'a, MmapEntry>;

/// The first of `pages` free offsets that follow each other and begin within `min..=max`.
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

/// Puts an entry at all of its offsets, which end within 32 bits. May drop the lock in between, to
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

/// Gives an entry of `length` bytes a range of page offsets that begins within `min` to `max`. May
/// sleep.
///
/// # Errors
///
/// `ENOMEM` if there is no room, `EINVAL` for no entry or no bytes.
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
    // CAST: From 32 bits.
    entry.set_start_pgoff(&mut offsets, first as usize);
    // While it is half there, and may have to be taken back, nobody gets it.
    entry.set_driver_removed(&mut offsets, true);
    fill(&mut offsets, first, pages, &entry)?;
    entry.set_driver_removed(&mut offsets, false);
    Ok(())
}

/// As [`insert_range`], anywhere.
///
/// # Errors
///
/// As there.
fn insert(context: &UContext, entry: MaybeNewEntry, length: usize) -> Result {
    insert_range(context, entry, length, 0, u32::MAX)
}

/// Frees the offsets of an entry whose last count is gone, and gives it to its driver.
pub(super) fn end(entry: DeadEntry) {
    if let Some(context) = entry.ucontext() {
        let mut offsets = context.mmap_xa().lock();
        // Both came from 32 bits.
        let first = u32::try_from(entry.start_pgoff(&offsets));
        if let (Ok(first), Ok(pages)) = (first, u32::try_from(entry.npages())) {
            erase(&mut offsets, first, pages);
        }
    }
    entry.free();
}

/// Notes a mapping in its file, and counts its entry, if it has one. May sleep.
fn init_note(note: Note, mapping: MappingOf<'_>, entry: Option<&MmapEntry>) {
    note.list(mapping.vma, entry.map(EntryRef::another), mapping.file);
}

/// Maps `size` bytes of a device's from `pfn` on into a process, for a driver's `mmap`. May sleep.
///
/// # Errors
///
/// `EINVAL` for a mapping that is private, of another size, or not of this context's file,
/// `ENOMEM`, `EAGAIN` if it could not be mapped.
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

/// The entry that begins at a page offset, counted; none if there is none, or its driver has
/// removed it. Any context that cannot interrupt a holder of the array's lock.
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

/// The entry that a mapping which is being made shows, counted; none if there is none, or the
/// mapping is private or of another length.
fn get(context: &UContext, vma: &VmArea) -> MaybeEntry {
    if !vma.is_shared() {
        return MaybeEntry(None);
    }
    let entry = get_pgoff(context, vma.pgoff()).0;
    MaybeEntry(entry.filter(|entry| entry.npages().checked_mul(PAGE_SIZE) == Some(vma.len())))
}

/// Gives a count back. May sleep if the driver's `mmap_free` does.
fn put(entry: MaybeEntry) {
    drop(entry.0);
}

/// Gives the driver's count back: nobody maps the entry any more, existing mappings keep it, and
/// buffers made of it are revoked. May sleep.
fn remove(entry: MaybeEntry) {
    let Some(entry) = entry.0 else { return };
    if let Some(context) = entry.ucontext() {
        let held = entry.dmabufs_lock().lock();
        let mut offsets = context.mmap_xa().lock();
        entry.set_driver_removed(&mut offsets, true);
        drop(offsets);
        while let Some(buffer) = edge::first_dmabuf(&entry, &held) {
            buffer.revoke(&held);
        }
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
