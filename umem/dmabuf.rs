// SPDX-License-Identifier: GPL-2.0

//! DMA-buf memory: memory of another driver, passed by a process as a file descriptor.
//!
//! Three kinds of attachments:
//!
//! * *dynamic*: the driver provides its own operations. It is told when the exporter moves the
//!   buffer, and maps it again when the device needs it;
//! * *pinned*: mapped once, the exporter does not move the buffer;
//! * *revocable*: pinned, but the exporter may revoke it; the driver is told, once.
//!
//! The buffer's reservation lock (`dma_resv`) guards everything that changes after [`attach`]: the
//! mapping, and whether the memory is pinned or revoked.
//!
//! The exporter's scatter list covers the whole buffer. While the memory is mapped, the head's
//! table is the requested part of that list: the first and last entry are shortened in place, and
//! restored before the list is returned.

use super::edge;
use super::edge::dmabuf::AttachOps;
use super::edge::dmabuf::Buffer;
use super::edge::dmabuf::Dmabuf;
use super::edge::dmabuf::Held;
use super::edge::dmabuf::Invalidated;
use super::edge::dmabuf::Unattached;
use super::Span;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::umem::HostDevice;
use rdma::edge::Passed;

type DmaDevice = Passed<bindings::device>;

/// Attaches `dma_device` to `size` bytes at `offset` of the buffer behind `fd`. Nothing is mapped
/// yet.
///
/// # Errors
///
/// `EINVAL` for an empty range, a range beyond the buffer, a file that is not a DMA-buf, or a
/// device without DMA; `EBADF` if there is no file; those of the exporter.
fn attach(
    host: HostDevice,
    dma_device: DmaDevice,
    (offset, size): (usize, usize),
    fd: c_int,
    access: c_int,
    ops: AttachOps,
) -> Result<Owned<Dmabuf>> {
    let end = offset.checked_add(size).ok_or(EINVAL)?;
    let buffer = Buffer::get(fd)?;
    if buffer.size() < end || dma_device.as_ptr().is_null() {
        return Err(EINVAL);
    }
    let umem = Unattached::new(host, offset, size, edge::writable(access))?;
    if size == 0 || Span::of(offset, size).is_none() {
        return Err(EINVAL);
    }
    umem.attach(buffer, dma_device, ops)
}

/// Maps the buffer, unless it is mapped, and waits until its content is available.
fn map(held: &mut Held<'_>) -> Result {
    if held.is_revoked() {
        return Err(EINVAL);
    }
    if !held.is_mapped() {
        held.map()?;
        if let Err(e) = cut(held) {
            held.unmap();
            return Err(e);
        }
    }
    // The exporter may still be moving the content to the mapped location.
    let waited = held.wait();
    match waited {
        0 => Err(ETIMEDOUT),
        // CAST: The value is an errno.
        ..0 => to_result(waited as c_int),
        1.. => Ok(()),
    }
}

/// Makes the head's table the part of the exporter's table that covers the memory's pages.
/// Unmapping the buffer undoes changes of entries.
///
/// # Errors
///
/// `EINVAL` if the exporter's list ends before the memory does.
fn cut(held: &Held<'_>) -> Result {
    let (address, length) = (held.umem().address(), held.umem().length());
    let span = Span::of(address, length).ok_or(EINVAL)?;
    // The end of a span is within the address space.
    let start = span.first;
    let end = start.wrapping_add(span.count.wrapping_mul(PAGE_SIZE));
    let mut at = 0usize;
    let mut entries = 0u32;
    for entry in held.entries() {
        // CAST: Widens from 32 bits.
        let next = at.checked_add(entry.segment().len as usize).ok_or(EINVAL)?;
        if next > start {
            entries = entries.wrapping_add(1);
        }
        if at <= start && start < next {
            held.begin_at(entry, start.wrapping_sub(at));
        }
        if end <= next {
            held.end_at(entry, next.wrapping_sub(end));
            held.show(entries);
            return Ok(());
        }
        at = next;
    }
    // A buffer whose size is not a multiple of the page size may end within the last page.
    if !held.has_begun() || at < address.wrapping_add(length) {
        return Err(EINVAL);
    }
    held.show(entries);
    Ok(())
}

/// Revokes the memory: tells the driver, unmaps and unpins. Only the first call has an effect.
fn revoke(held: &mut Held<'_>) {
    if held.is_revoked() {
        return;
    }
    held.tell_driver();
    held.unmap();
    held.unpin_revoked();
}

/// The exporter revokes a buffer. If the attachment is not recorded yet, nothing is mapped, pinned
/// or registered, so an early call only marks the memory as revoked.
pub(super) fn invalidate(mut held: Invalidated<'_>) {
    held.0.assert();
    revoke(&mut held.0);
}

/// Like [`attach`]; then pins and maps the buffer. With `leave_locked`, returns with the lock held.
fn attach_pinned(
    host: HostDevice,
    dma_device: DmaDevice,
    part: (usize, usize),
    (fd, access): (c_int, c_int),
    ops: AttachOps,
    leave_locked: bool,
) -> Result<Owned<Dmabuf>> {
    let umem = attach(host, dma_device, part, fd, access, ops)?;
    let mut locked = umem.lock();
    match locked.pin().and_then(|()| map(&mut locked)) {
        Ok(()) => {
            if leave_locked {
                locked.leave();
            } else {
                drop(locked);
            }
            Ok(umem)
        }
        Err(e) => {
            drop(locked);
            release(umem);
            Err(e)
        }
    }
}

/// Like [`attach`]; then pins and maps the buffer.
pub(super) fn get_pinned(
    host: HostDevice,
    dma_device: DmaDevice,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
) -> Result<Owned<Dmabuf>> {
    let ops = AttachOps::PINNED;
    attach_pinned(host, dma_device, (offset, size), (fd, access), ops, false)
}

/// Revokes the memory, which no device uses any more, detaches it and frees it.
pub(super) fn release(umem: Owned<Dmabuf>) {
    revoke(&mut umem.lock());
    edge::dmabuf::end(umem);
}

/// Attaches to `size` bytes at `offset` of the buffer behind `fd`, with operations of the driver
/// ([`attach`]).
fn get(
    host: HostDevice,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
    ops: AttachOps,
) -> Result<Owned<Dmabuf>> {
    attach(host, host.dma_device(), (offset, size), fd, access, ops)
}

/// Like [`get_pinned`], for the device's own DMA device.
fn get_pinned_own(
    host: HostDevice,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
) -> Result<Owned<Dmabuf>> {
    get_pinned(host, host.dma_device(), offset, size, fd, access)
}

/// Attaches, pins and maps a revocable buffer, and returns with the lock held: the driver sets its
/// revoke callback ([`set_revoke`]) and unlocks.
fn get_revocable(
    host: HostDevice,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
) -> Result<Owned<Dmabuf>> {
    let dma_device = host.dma_device();
    let ops = AttachOps::REVOCABLE;
    attach_pinned(host, dma_device, (offset, size), (fd, access), ops, true)
}

/// Sets the callback for when the memory is revoked or released. It is called once, with the lock
/// held.
fn set_revoke(
    held: Held<'_>,
    revoke: Option<unsafe extern "C" fn(*mut c_void)>,
    private: Passed<c_void>,
) {
    held.assert();
    held.set_revoke(revoke, private);
}

/// Maps the memory, unless it is mapped, and waits for its content. Returns `EINVAL` if it was
/// revoked.
fn map_pages(mut held: Held<'_>) -> Result {
    held.assert();
    map(&mut held)
}

/// Unmaps the memory, which no device uses any more, if it is mapped.
fn unmap_pages(mut held: Held<'_>) {
    held.assert();
    held.unmap();
}

/// Locks the buffer, which excludes revocation.
fn revoke_lock(umem: &Dmabuf) {
    umem.lock().leave();
}

/// Unlocks the buffer.
fn revoke_unlock(held: Held<'_>) {
    held.unlock();
}

/// Revokes the memory: tells the driver and unmaps. The caller must not hold the lock.
fn revoke_now(umem: &Dmabuf) {
    revoke(&mut umem.lock());
}

rdma::export! {
    in rdma::bindings;

    /// See [`get`].
    fn ib_umem_dmabuf_get(
        host: HostDevice, offset: usize, size: usize, fd: c_int, access: c_int, ops: AttachOps,
    ) -> Result<Owned<Dmabuf>> = get;
    /// See [`get_pinned_own`].
    fn ib_umem_dmabuf_get_pinned(
        host: HostDevice, offset: usize, size: usize, fd: c_int, access: c_int,
    ) -> Result<Owned<Dmabuf>> = get_pinned_own;
    /// See [`get_pinned`].
    fn ib_umem_dmabuf_get_pinned_with_dma_device(
        host: HostDevice, dma_device: DmaDevice, offset: usize, size: usize, fd: c_int,
        access: c_int,
    ) -> Result<Owned<Dmabuf>> = get_pinned;
    /// See [`get_revocable`].
    fn ib_umem_dmabuf_get_pinned_revocable_and_lock(
        host: HostDevice, offset: usize, size: usize, fd: c_int, access: c_int,
    ) -> Result<Owned<Dmabuf>> = get_revocable;
    /// See [`set_revoke`].
    fn ib_umem_dmabuf_set_revoke_locked(
        held: Held<'_>, revoke: Option<unsafe extern "C" fn(*mut c_void)>, private: Passed<c_void>,
    ) = set_revoke;
    /// See [`map_pages`].
    fn ib_umem_dmabuf_map_pages(held: Held<'_>) -> Result = map_pages;
    /// See [`unmap_pages`].
    fn ib_umem_dmabuf_unmap_pages(held: Held<'_>) = unmap_pages;
    /// See [`revoke_lock`].
    fn ib_umem_dmabuf_revoke_lock(umem: &Dmabuf) = revoke_lock;
    /// See [`revoke_unlock`].
    fn ib_umem_dmabuf_revoke_unlock(held: Held<'_>) = revoke_unlock;
    /// See [`revoke_now`].
    fn ib_umem_dmabuf_revoke(umem: &Dmabuf) = revoke_now;
}
