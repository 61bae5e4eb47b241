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
//! Everything that changes after [`get`] does so under the buffer's reservation lock
//! (`dma_resv`): the mapping, whether it is pinned, whether it was revoked.
//!
//! The exporter's list of segments covers the whole buffer. While ours is mapped, the head's
//! table is the part of it that we were asked for: the first and last entry are shortened in
//! place, and restored before the list goes back.

use super::ptr_or_err;
use super::Span;
use bindings::dma_buf_attach_ops;
use bindings::ib_device;
use bindings::ib_umem_dmabuf;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::from_result;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;

/// A reference to a buffer.
///
/// # Invariants
///
/// We own the reference.
struct Buffer(NonNull<bindings::dma_buf>);

impl Buffer {
    fn get(fd: c_int) -> Result<Self> {
        // SAFETY: The function takes any number.
        let buf = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: The function has returned a reference.
        Ok(Self(NonNull::new(buf).ok_or(EBADF)?))
    }

    fn as_raw(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    fn size(&self) -> usize {
        // SAFETY: By the type invariant; the size never changes.
        unsafe { (*self.as_raw()).size }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::dma_buf_put(self.as_raw()) };
    }
}

/// What a value of ours is attached to. It has its buffer as long as it exists.
///
/// # Safety
///
/// The memory is ours, and attached.
unsafe fn buffer(umem: *const ib_umem_dmabuf) -> *mut bindings::dma_buf {
    // SAFETY: By this function's duty; neither changes.
    unsafe { (*(*umem).attach).dmabuf }
}

/// The buffer, locked.
///
/// # Invariants
///
/// The lock is held until this is dropped; the buffer exists.
struct Locked(*mut bindings::dma_resv);

impl Locked {
    /// # Safety
    ///
    /// The memory is attached until the value is dropped; the caller does not hold the lock.
    unsafe fn new(umem: *const ib_umem_dmabuf) -> Self {
        // SAFETY: By this function's duty. Without a ticket the lock cannot fail.
        unsafe {
            let resv = (*buffer(umem)).resv;
            bindings::dma_resv_lock(resv, core::ptr::null_mut());
            // INVARIANT: Just locked.
            Self(resv)
        }
    }

    /// Leaves it locked; who called us unlocks it.
    fn leave_locked(self) {
        core::mem::forget(self);
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::dma_resv_unlock(self.0) };
    }
}

/// Attaches to `size` bytes at `offset` of the buffer behind `fd`, for `dma_device`; nothing
/// is mapped yet.
///
/// # Errors
///
/// `EINVAL` for no pages, more than the buffer has, a file that is no buffer, or a device
/// without DMA; `EBADF` for no file; those of the exporter.
///
/// # Safety
///
/// The devices and `ops` exist until the memory is released.
unsafe fn get(
    device: *mut ib_device,
    dma_device: *mut bindings::device,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
    ops: *const dma_buf_attach_ops,
) -> Result<NonNull<ib_umem_dmabuf>> {
    let end = offset.checked_add(size).ok_or(EINVAL)?;
    let buf = Buffer::get(fd)?;
    if buf.size() < end || dma_device.is_null() {
        return Err(EINVAL);
    }
    let mut umem = KBox::new(ib_umem_dmabuf::default(), GFP_KERNEL)?;
    umem.umem.ibdev = device;
    umem.umem.length = size;
    umem.umem.address = offset;
    // SAFETY: The function only looks at the flags.
    let writable = unsafe { bindings::rdma_helper_ib_access_writable(access) };
    umem.umem.set_writable(writable.into());
    umem.umem.set_is_dmabuf(1);
    if size == 0 || Span::of(offset, size).is_none() {
        return Err(EINVAL);
    }
    let umem = KBox::into_raw(umem);
    // SAFETY: We hold the buffer; the rest exists by this function's duty. The exporter may
    // call the operations from now on, under its lock; the memory is whole but for
    // `attach`, which they are given as an argument.
    let attached = from_err_ptr(unsafe {
        bindings::dma_buf_dynamic_attach(buf.as_raw(), dma_device, ops, umem.cast())
    });
    match attached {
        Ok(attach) => {
            // SAFETY: The memory is ours.
            unsafe { (*umem).attach = attach };
            // The reference is the memory's from now on.
            core::mem::forget(buf);
            NonNull::new(umem).ok_or(ENOMEM)
        }
        Err(e) => {
            // SAFETY: It is the box of above, which nobody else has.
            drop(unsafe { KBox::from_raw(umem) });
            Err(e)
        }
    }
}

/// Maps the buffer, unless it is mapped, and waits until its content is there.
///
/// # Safety
///
/// The memory is attached, and its lock held.
unsafe fn map(umem: *mut ib_umem_dmabuf) -> Result {
    // SAFETY: By this function's duty the fields are ours to use.
    unsafe {
        if (*umem).revoked() != 0 {
            return Err(EINVAL);
        }
        if (*umem).sgt.is_null() {
            let sgt = from_err_ptr(bindings::dma_buf_map_attachment(
                (*umem).attach,
                bindings::dma_data_direction_DMA_BIDIRECTIONAL,
            ))?;
            let part = cut(&mut *umem, &*sgt);
            (*umem).sgt = sgt;
            if let Err(e) = part {
                unmap(umem);
                return Err(e);
            }
        }
        // The exporter may still be moving the content to where it is mapped.
        let waited = bindings::dma_resv_wait_timeout(
            (*buffer(umem)).resv,
            bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
            false,
            c_long::MAX as c_ulong,
        );
        match waited {
            0 => Err(ETIMEDOUT),
            // CAST: an errno.
            ..0 => to_result(waited as c_int),
            _ => Ok(()),
        }
    }
}

/// Makes the head's table the part of the exporter's that covers our pages. Where nothing
/// could be cut yet, [`mend`] undoes it.
///
/// # Errors
///
/// `EINVAL` if the exporter's list ends before our memory does.
///
/// # Safety
///
/// The table is that of the memory's attachment, mapped, and nobody uses it.
unsafe fn cut(umem: &mut ib_umem_dmabuf, sgt: &bindings::sg_table) -> Result {
    let span = Span::of(umem.umem.address, umem.umem.length).ok_or(EINVAL)?;
    // OVERFLOW: a span ends within the address space.
    let (start, end) = (span.first, span.first + span.count * PAGE_SIZE);
    let mut at = 0usize;
    let mut entries = 0u32;
    for sg in super::scatter::Entries::of_dma(sgt) {
        // SAFETY: By this function's duty.
        let segment = unsafe { super::scatter::segment(sg) };
        // CAST: a length of 32 bits.
        let len = segment.len as usize;
        let next = at.checked_add(len).ok_or(EINVAL)?;
        if next > start {
            entries += 1;
        }
        // SAFETY: By this function's duty; what is written fits, since it is less than
        // what was there.
        unsafe {
            if at <= start && start < next {
                let skip = start - at;
                umem.first_sg = sg;
                umem.first_sg_offset = skip;
                bindings::rdma_helper_sg_set_dma_address(
                    sg,
                    segment.addr.wrapping_add(skip as u64),
                );
                bindings::rdma_helper_sg_set_dma_len(sg, (len - skip) as u32);
            }
            if end <= next {
                let trim = next - end;
                umem.last_sg = sg;
                umem.last_sg_trim = trim;
                let now = bindings::sg_dma_len(sg);
                bindings::rdma_helper_sg_set_dma_len(sg, now - trim as u32);
                umem.umem.sgt_append.sgt.sgl = umem.first_sg;
                umem.umem.sgt_append.sgt.nents = entries;
                return Ok(());
            }
        }
        at = next;
    }
    // A buffer that is no whole number of pages may end in the midst of our last one.
    if umem.first_sg.is_null() || at < umem.umem.address.wrapping_add(umem.umem.length) {
        return Err(EINVAL);
    }
    umem.umem.sgt_append.sgt.sgl = umem.first_sg;
    umem.umem.sgt_append.sgt.nents = entries;
    Ok(())
}

/// Gives the exporter's list its first and last entry back as they were.
///
/// # Safety
///
/// The list is still mapped, and nobody uses it.
unsafe fn mend(umem: &mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty the entries are those that `cut` shortened.
    unsafe {
        if !umem.first_sg.is_null() {
            let sg = umem.first_sg;
            let now = super::scatter::segment(sg);
            let skip = umem.first_sg_offset as u64;
            bindings::rdma_helper_sg_set_dma_address(sg, now.addr.wrapping_sub(skip));
            bindings::rdma_helper_sg_set_dma_len(sg, (now.len + skip) as u32);
        }
        if !umem.last_sg.is_null() {
            let now = bindings::sg_dma_len(umem.last_sg);
            bindings::rdma_helper_sg_set_dma_len(umem.last_sg, now + umem.last_sg_trim as u32);
        }
    }
    umem.first_sg = core::ptr::null_mut();
    umem.first_sg_offset = 0;
    umem.last_sg = core::ptr::null_mut();
    umem.last_sg_trim = 0;
}

/// Unmaps the buffer, if it is mapped.
///
/// # Safety
///
/// The memory is attached, its lock held; no device uses the mapping.
unsafe fn unmap(umem: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty.
    unsafe {
        let sgt = (*umem).sgt;
        if sgt.is_null() {
            return;
        }
        mend(&mut *umem);
        bindings::dma_buf_unmap_attachment(
            (*umem).attach,
            sgt,
            bindings::dma_data_direction_DMA_BIDIRECTIONAL,
        );
        (*umem).sgt = core::ptr::null_mut();
    }
}

/// Takes the memory from the driver for good: tells it, unmaps, unpins. Once.
///
/// # Safety
///
/// The memory is attached, and its lock held.
unsafe fn revoke_locked(umem: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty. The driver's function and argument are from
    // `ib_umem_dmabuf_set_revoke_locked`.
    unsafe {
        if (*umem).revoked() != 0 {
            return;
        }
        if let Some(tell) = (*umem).pinned_revoke {
            tell((*umem).private);
        }
        unmap(umem);
        if (*umem).pinned() != 0 {
            bindings::dma_buf_unpin((*umem).attach);
            (*umem).set_pinned(0);
        }
        (*umem).set_revoked(1);
    }
}

/// The exporter takes a revocable buffer away.
///
/// # Safety
///
/// `attach` is an attachment of ours; its lock is held.
unsafe extern "C" fn invalidate(attach: *mut bindings::dma_buf_attachment) {
    // SAFETY: By this function's duty. Nothing is mapped, pinned or registered before
    // `attach` is noted, so that an early call only marks the memory.
    unsafe {
        bindings::rdma_helper_dma_resv_assert_held((*(*attach).dmabuf).resv);
        revoke_locked((*attach).importer_priv.cast());
    }
}

/// A buffer that stays.
static PINNED: dma_buf_attach_ops = dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: None,
};

/// A buffer that stays until the exporter takes it away.
static REVOCABLE: dma_buf_attach_ops = dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(invalidate),
};

/// As [`get`]; then pins and maps it. The lock is held when this returns.
///
/// # Safety
///
/// That of [`get`].
unsafe fn get_pinned_and_lock(
    device: *mut ib_device,
    dma_device: *mut bindings::device,
    (offset, size): (usize, usize),
    fd: c_int,
    access: c_int,
    ops: &'static dma_buf_attach_ops,
) -> Result<(NonNull<ib_umem_dmabuf>, Locked)> {
    // SAFETY: By this function's duty.
    let umem = unsafe { get(device, dma_device, offset, size, fd, access, ops) }?;
    // SAFETY: It is attached, and nobody else has it but the exporter.
    unsafe {
        let locked = Locked::new(umem.as_ptr());
        let mapped = to_result(bindings::dma_buf_pin((*umem.as_ptr()).attach)).and_then(|()| {
            (*umem.as_ptr()).set_pinned(1);
            map(umem.as_ptr())
        });
        match mapped {
            Ok(()) => Ok((umem, locked)),
            Err(e) => {
                drop(locked);
                release(umem.as_ptr());
                Err(e)
            }
        }
    }
}

/// As [`get`]; then pins and maps it.
///
/// # Safety
///
/// That of [`get`].
pub(super) unsafe fn get_pinned(
    device: *mut ib_device,
    dma_device: *mut bindings::device,
    offset: usize,
    size: usize,
    fd: c_int,
    access: c_int,
) -> Result<NonNull<ib_umem_dmabuf>> {
    // SAFETY: By this function's duty.
    unsafe { get_pinned_and_lock(device, dma_device, (offset, size), fd, access, &PINNED) }
        .map(|(umem, _locked)| umem)
}

/// Revokes the memory, detaches and frees it.
///
/// # Safety
///
/// The caller owns it, does not hold its lock, and no device uses it.
pub(super) unsafe fn release(umem: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty. After the detachment the exporter calls nothing.
    unsafe {
        let buf = buffer(umem);
        {
            let _locked = Locked::new(umem);
            revoke_locked(umem);
        }
        bindings::dma_buf_detach(buf, (*umem).attach);
        bindings::dma_buf_put(buf);
        drop(KBox::from_raw(umem));
    }
}

/// Attaches to `size` bytes at `offset` of the buffer behind `fd`, with operations of the
/// driver's. An error pointer on failure ([`get`]).
///
/// # Safety
///
/// The device and `ops` exist until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get(
    device: *mut ib_device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
    ops: *const dma_buf_attach_ops,
) -> *mut ib_umem_dmabuf {
    // SAFETY: By this function's duty.
    ptr_or_err(unsafe { get(device, (*device).dma_device, offset, size, fd, access, ops) })
}

/// Attaches, pins and maps, for the device's own DMA device.
///
/// # Safety
///
/// The device exists until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get_pinned(
    device: *mut ib_device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
) -> *mut ib_umem_dmabuf {
    // SAFETY: By this function's duty.
    ptr_or_err(unsafe { get_pinned(device, (*device).dma_device, offset, size, fd, access) })
}

/// Attaches, pins and maps, for another DMA device.
///
/// # Safety
///
/// Both devices exist until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get_pinned_with_dma_device(
    device: *mut ib_device,
    dma_device: *mut bindings::device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
) -> *mut ib_umem_dmabuf {
    // SAFETY: By this function's duty.
    ptr_or_err(unsafe { get_pinned(device, dma_device, offset, size, fd, access) })
}

/// Attaches, pins and maps a buffer that the exporter may take away, and leaves it locked:
/// the driver sets what is to be called then ([`ib_umem_dmabuf_set_revoke_locked`]), and
/// unlocks.
///
/// # Safety
///
/// The device exists until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_get_pinned_revocable_and_lock(
    device: *mut ib_device,
    offset: c_ulong,
    size: usize,
    fd: c_int,
    access: c_int,
) -> *mut ib_umem_dmabuf {
    // SAFETY: By this function's duty.
    let got = unsafe {
        let dma_device = (*device).dma_device;
        get_pinned_and_lock(device, dma_device, (offset, size), fd, access, &REVOCABLE)
    };
    ptr_or_err(got.map(|(umem, locked)| {
        locked.leave_locked();
        umem
    }))
}

/// What to call, once and with the lock held, when the memory is taken away or released.
///
/// # Safety
///
/// The memory exists, its lock is held; `revoke` may be called with `priv_` until then.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_set_revoke_locked(
    umem_dmabuf: *mut ib_umem_dmabuf,
    revoke: Option<unsafe extern "C" fn(priv_: *mut c_void)>,
    priv_: *mut c_void,
) {
    // SAFETY: By this function's duty.
    unsafe {
        bindings::rdma_helper_dma_resv_assert_held((*buffer(umem_dmabuf)).resv);
        (*umem_dmabuf).pinned_revoke = revoke;
        (*umem_dmabuf).private = priv_;
    }
}

/// Maps the memory, unless it is mapped, and waits for its content. 0 or an error; `-EINVAL`
/// if it was revoked.
///
/// # Safety
///
/// The memory exists, and its lock is held.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_map_pages(
    umem_dmabuf: *mut ib_umem_dmabuf,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        bindings::rdma_helper_dma_resv_assert_held((*buffer(umem_dmabuf)).resv);
        from_result(|| map(umem_dmabuf).map(|()| 0))
    }
}

/// Unmaps the memory, if it is mapped.
///
/// # Safety
///
/// The memory exists, its lock is held; no device uses the mapping.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_unmap_pages(umem_dmabuf: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty.
    unsafe {
        bindings::rdma_helper_dma_resv_assert_held((*buffer(umem_dmabuf)).resv);
        unmap(umem_dmabuf);
    }
}

/// Locks the buffer: nobody revokes it meanwhile.
///
/// # Safety
///
/// The memory exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_revoke_lock(umem_dmabuf: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty.
    unsafe { Locked::new(umem_dmabuf) }.leave_locked();
}

/// Unlocks the buffer.
///
/// # Safety
///
/// The memory exists, and the caller holds its lock.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_revoke_unlock(umem_dmabuf: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty.
    unsafe { bindings::dma_resv_unlock((*buffer(umem_dmabuf)).resv) };
}

/// Revokes the memory: the driver is told, nothing is mapped any more.
///
/// # Safety
///
/// The memory exists, and the caller does not hold its lock.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_dmabuf_revoke(umem_dmabuf: *mut ib_umem_dmabuf) {
    // SAFETY: By this function's duty.
    unsafe {
        let _locked = Locked::new(umem_dmabuf);
        revoke_locked(umem_dmabuf);
    }
}

rdma::exported!(
    ib_umem_dmabuf_get,
    ib_umem_dmabuf_get_pinned,
    ib_umem_dmabuf_get_pinned_with_dma_device,
    ib_umem_dmabuf_get_pinned_revocable_and_lock,
    ib_umem_dmabuf_set_revoke_locked,
    ib_umem_dmabuf_map_pages,
    ib_umem_dmabuf_unmap_pages,
    ib_umem_dmabuf_revoke_lock,
    ib_umem_dmabuf_revoke_unlock,
    ib_umem_dmabuf_revoke,
);
