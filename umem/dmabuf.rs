// SPDX-License-Identifier: GPL-2.0

//! Memory of another driver's, which a process hands over as a file.
//!
//! Three kinds of holders:
//!
//! * *dynamic*: the driver brings operations of its own. It is told when the exporter moves
//!   the buffer, and maps it again when the device wants it;
//! * *pinned*: mapped once, the exporter does not move it;
//! * *revocable*: pinned, but the exporter may take it away; the driver is told, once.
//!
//! Everything that changes after [`attach`] does so under the buffer's reservation lock
//! (`dma_resv`): the mapping, whether it is pinned, whether it was revoked.
//!
//! The exporter's list of segments covers the whole buffer. While ours is mapped, the head's
//! table is the part of it that we were asked for: the first and last entry are shortened in
//! place, and restored before the list goes back.

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

/// Attaches to `size` bytes at `offset` of the buffer behind `fd`, for `dma_device`; nothing
/// is mapped yet.
///
/// # Errors
///
/// `EINVAL` for no pages, more than the buffer has, a file that is no buffer, or a device
/// without DMA; `EBADF` for no file; those of the exporter.
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

/// Maps the buffer, unless it is mapped, and waits until its content is there.
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
    // The exporter may still be moving the content to where it is mapped.
    let waited = held.wait();
    match waited {
        0 => Err(ETIMEDOUT),
        // CAST: an errno.
        ..0 => to_result(waited as c_int),
        1.. => Ok(()),
    }
}

/// Makes the head's table the part of the exporter's that covers our pages. Whatever was cut is
/// undone when the buffer is unmapped.
///
/// # Errors
///
/// `EINVAL` if the exporter's list ends before our memory does.
fn cut(held: &Held<'_>) -> Result {
    let (address, length) = (held.umem().address(), held.umem().length());
    let span = Span::of(address, length).ok_or(EINVAL)?;
    // A span ends within the address space.
    let start = span.first;
    let end = start.wrapping_add(span.count.wrapping_mul(PAGE_SIZE));
    let mut at = 0usize;
    let mut entries = 0u32;
    for entry in held.entries() {
        // CAST: from 32 bits.
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
    // A buffer that is no whole number of pages may end in the midst of our last one.
    if !held.has_begun() || at < address.wrapping_add(length) {
        return Err(EINVAL);
    }
    held.show(entries);
    Ok(())
}

/// Takes the memory from the driver for good: tells it, unmaps, unpins. Once.
fn revoke(held: &mut Held<'_>) {
    if held.is_revoked() {
        return;
    }
    held.tell_driver();
    held.unmap();
    held.unpin_revoked();
}

/// The exporter takes a revocable buffer away. Nothing is mapped, pinned or registered before
/// the memory notes its attachment, so that an early call only marks the memory.
pub(super) fn invalidate(mut held: Invalidated<'_>) {
    held.0.assert();
    revoke(&mut held.0);
}

/// As [`attach`]; then pins and maps it, and leaves it locked if wanted.
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

/// As [`attach`]; then pins and maps it.
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

/// Revokes the memory, which no device uses, detaches and frees it.
pub(super) fn release(umem: Owned<Dmabuf>) {
    revoke(&mut umem.lock());
    edge::dmabuf::end(umem);
}

/// Attaches to `size` bytes at `offset` of the buffer behind `fd`, with operations of the
/// driver's ([`attach`]).
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

/// Attaches, pins and maps, for the device's own DMA device.
fn get_pinned_own(
    host: HostDevice,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
) -> Result<Owned<Dmabuf>> {
    get_pinned(host, host.dma_device(), offset, size, fd, access)
}

/// Attaches, pins and maps a buffer that the exporter may take away, and leaves it locked:
/// the driver sets what is to be called then ([`set_revoke`]), and unlocks.
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

/// What to call, once and with the lock held, when the memory is taken away or released.
fn set_revoke(
    held: Held<'_>,
    revoke: Option<unsafe extern "C" fn(*mut c_void)>,
    private: Passed<c_void>,
) {
    held.assert();
    held.set_revoke(revoke, private);
}

/// Maps the memory, unless it is mapped, and waits for its content: `EINVAL` if it was revoked.
fn map_pages(mut held: Held<'_>) -> Result {
    held.assert();
    map(&mut held)
}

/// Unmaps the memory, which no device uses, if it is mapped.
fn unmap_pages(mut held: Held<'_>) {
    held.assert();
    held.unmap();
}

/// Locks the buffer: nobody revokes it meanwhile.
fn revoke_lock(umem: &Dmabuf) {
    umem.lock().leave();
}

/// Unlocks the buffer.
fn revoke_unlock(held: Held<'_>) {
    held.unlock();
}

/// Revokes the memory: the driver is told, nothing is mapped any more. The caller does not hold
/// the lock.
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
