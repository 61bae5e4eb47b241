// SPDX-License-Identifier: GPL-2.0

//! DMA-buf memory (`struct ib_umem_dmabuf`): its attachment, and data guarded by the buffer's
//! reservation lock.
//!
//! C headers: `include/rdma/ib_umem.h` and `include/linux/dma-buf.h`. [`Unattached`] creates memory
//! that is attached until [`end`]. Fields that change meanwhile are in [`State`], which is
//! accessible only through [`Held`], the proof that the lock of this memory is held.

use core::ops::Deref;
use core::ops::DerefMut;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;
use rdma::bindings::dma_buf_attach_ops;
use rdma::edge::object::Owned;
use rdma::edge::scatter::Piece;
use rdma::edge::sg_table;
use rdma::edge::sg_table::Entry;
use rdma::edge::umem::HostDevice;
use rdma::edge::umem::Umem;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::OfCall;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::features::DMA_BIDIRECTIONAL;

rdma::c_struct! {
    /// A reservation lock.
    pub(in super::super) struct Resv: bindings::dma_resv;
    fields {}
}

rdma::c_struct! {
    /// A DMA-buf.
    pub(in super::super) struct DmaBuf: bindings::dma_buf;
    fields {
        /// Size in bytes; never changes.
        const size: usize;
        /// Reservation lock; never changes.
        const resv: &Resv;
    }
}

rdma::c_struct! {
    /// A device's attachment to a buffer.
    pub(in super::super) struct Attachment: bindings::dma_buf_attachment;
    fields {
        /// The buffer, to which the attached memory holds a reference.
        const dmabuf: &DmaBuf;
    }
}

rdma::c_struct! {
    /// DMA-buf memory that is attached.
    pub(in super::super) struct Dmabuf: bindings::ib_umem_dmabuf;
    fields {
        /// The head, common to all kinds.
        embed umem: Umem;
        /// The attachment. Written when the memory is attached, before it is shared with anyone but
        /// the exporter.
        const attach: &Attachment;
    }
}

rdma::c_struct! {
    /// Fields that change, guarded by the reservation lock.
    struct State: bindings::ib_umem_dmabuf;
    fields {
        /// The head, common to all kinds.
        embed umem: Umem;
        /// The exporter's table while it is mapped, otherwise null.
        cell sgt: Option<&sg_table::Mapped>, set_sgt;
        /// First entry of the memory's part of the table, and the number of bytes cut off its
        /// start.
        cell first_sg: Option<Entry<'_>>, set_first_sg;
        cell first_sg_offset: usize, set_first_sg_offset;
        /// Last entry of the memory's part of the table, and the number of bytes cut off its end.
        cell last_sg: Option<Entry<'_>>, set_last_sg;
        cell last_sg_trim: usize, set_last_sg_trim;
        /// The memory's part of the table, for drivers.
        cell part at umem.sgt_append.sgt.sgl: Option<Entry<'_>>, set_part;
        /// Number of entries of that part.
        cell part_nents at umem.sgt_append.sgt.nents: u32, set_part_nents;
        /// The driver's callback for revocation, and its argument.
        cell pinned_revoke: Option<unsafe extern "C" fn(*mut c_void)>, set_pinned_revoke;
        cell private: Passed<c_void>, set_private;
        /// Whether the buffer is pinned.
        bit pinned: bool;
        /// Whether the memory was revoked; never cleared.
        bit revoked: bool;
    }
}

// SAFETY: Only `Held` has references, while the lock is held; `Opaque` is not `Sync`.
unsafe impl OfCall for State {}

rdma::import! {
    in rdma::bindings;

    /// Returns the buffer behind a file descriptor of the current process.
    fn dma_buf_get(fd: c_int) -> Result<Buffer> = dma_buf_get;
    /// Cannot fail without a ticket.
    fn dma_resv_lock(resv: &Resv, ticket: Passed<bindings::ww_acquire_ctx>) -> c_int
        = dma_resv_lock;
    /// Only for `Held` and `Locked`, which hold the lock.
    fn dma_resv_unlock(resv: &Resv) = dma_resv_unlock;
    fn dma_resv_wait_timeout(resv: &Resv, usage: u32, interruptible: bool, timeout: c_ulong)
        -> c_long = dma_resv_wait_timeout;
    fn assert_held(resv: &Resv) = rdma_helper_dma_resv_assert_held;
    /// Only for `Held`, under the lock.
    fn dma_buf_pin(attach: &Attachment) -> Result = dma_buf_pin;
    /// Only for `Held`, if the buffer is pinned.
    fn dma_buf_unpin(attach: &Attachment) = dma_buf_unpin;
}

/// A reference to a buffer.
///
/// # Invariants
///
/// This value owns the reference.
pub(in super::super) struct Buffer(NonNull<bindings::dma_buf>);

// SAFETY: `from_c` is for a reference that is passed on.
unsafe impl FromC for Buffer {
    type C = *mut bindings::dma_buf;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A valid buffer: contract of this function. INVARIANT: The reference is passed on
        // by the same contract.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl Buffer {
    /// Returns the buffer behind a file descriptor of the current process.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such file; `EINVAL` if it is not a DMA-buf.
    pub(in super::super) fn get(fd: c_int) -> Result<Self> {
        dma_buf_get(fd)
    }
}

impl Deref for Buffer {
    type Target = DmaBuf;

    fn deref(&self) -> &DmaBuf {
        // SAFETY: The reference keeps the buffer: type invariant.
        unsafe { DmaBuf::view(self.0.as_ptr()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: This value owns the reference: type invariant.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}

/// Operations of an importer.
///
/// # Invariants
///
/// Null, meaning none, or operations that exist until the memory that uses them is released.
#[derive(Clone, Copy)]
pub(in super::super) struct AttachOps(*const dma_buf_attach_ops);

// SAFETY: `from_c` has the type invariant as its contract, which drivers uphold
// (`ib_umem_dmabuf_get`).
unsafe impl FromC for AttachOps {
    type C = *const dma_buf_attach_ops;

    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Contract of this function.
        Self(c)
    }
}

// SAFETY: It is not limited to a call: type invariant.
unsafe impl Within<'_> for AttachOps {}

static STAYS: dma_buf_attach_ops = dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: None,
};

static REVOCABLE: dma_buf_attach_ops = dma_buf_attach_ops {
    allow_peer2peer: true,
    invalidate_mappings: Some(invalidate),
};

impl AttachOps {
    /// For a pinned buffer.
    // INVARIANT: Static.
    pub(in super::super) const PINNED: Self = Self(&raw const STAYS);

    /// For a pinned buffer that the exporter may revoke.
    // INVARIANT: Static.
    pub(in super::super) const REVOCABLE: Self = Self(&raw const REVOCABLE);
}

rdma::callback! {
    /// See [`invalidate`](super::super::dmabuf::invalidate).
    fn invalidate(held: Invalidated<'_>) = super::super::dmabuf::invalidate;
}

/// Memory that is not attached yet.
pub(in super::super) struct Unattached(KBox<bindings::ib_umem_dmabuf>);

impl Unattached {
    /// Creates memory for `size` bytes at `offset` of a buffer.
    pub(in super::super) fn new(
        host: HostDevice,
        offset: usize,
        size: usize,
        writable: bool,
    ) -> Result<Self> {
        let mut umem = KBox::new(bindings::ib_umem_dmabuf::default(), accounted::GFP)?;
        umem.umem.ibdev = host.into_c();
        umem.umem.length = size;
        umem.umem.address = offset;
        umem.umem.set_writable(writable.into());
        umem.umem.set_is_dmabuf(1);
        Ok(Self(umem))
    }

    /// Attaches the memory, which takes over the reference to the buffer. `dma_device` is the
    /// device that performs the DMA.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a device; those of the exporter.
    pub(in super::super) fn attach(
        self,
        buffer: Buffer,
        dma_device: Passed<bindings::device>,
        ops: AttachOps,
    ) -> Result<Owned<Dmabuf>> {
        let (dma_device, ops) = (dma_device.into_c(), ops.0);
        if dma_device.is_null() {
            return Err(EINVAL);
        }
        let umem = KBox::into_raw(self.0);
        // SAFETY: `buffer` is a reference. The operations (invariant of `AttachOps`) and the device
        // (`ib_umem.h`) live as long as the memory. The exporter may call the operations from now
        // on, under its lock; the memory is complete except for `attach`, which they get as an
        // argument. On failure, nobody else has the memory.
        unsafe {
            let attached =
                bindings::dma_buf_dynamic_attach(buffer.0.as_ptr(), dma_device, ops, umem.cast());
            match from_err_ptr(attached) {
                Ok(attach) => {
                    (*umem).attach = attach;
                    core::mem::forget(buffer);
                    Ok(Owned::new(NonNull::new_unchecked(umem)))
                }
                Err(e) => {
                    drop(KBox::from_raw(umem));
                    Err(e)
                }
            }
        }
    }
}

/// Detaches and frees memory that has been revoked. May sleep.
pub(in super::super) fn end(umem: Owned<Dmabuf>) {
    let (attach, buffer) = (umem.attach().raw(), umem.attach().dmabuf().raw());
    let umem = umem.into_raw();
    // SAFETY: The memory is from `Unattached::attach`, and access to it is exclusive (`Owned`).
    // After the detachment, the exporter does not call it. The memory owns the reference to the
    // buffer.
    unsafe {
        bindings::dma_buf_detach(buffer, attach);
        bindings::dma_buf_put(buffer);
        drop(KBox::from_raw(umem.as_ptr()));
    }
}

/// Memory with its reservation lock held.
///
/// # Invariants
///
/// `attach` is the memory's attachment. For `'a`, the current thread holds the reservation lock of
/// its buffer.
pub(in super::super) struct Held<'a> {
    state: &'a State,
    attach: &'a Attachment,
}

// SAFETY: `from_c` is for attached memory with its lock held; drivers uphold this, and the exported
// functions assert it.
unsafe impl FromC for Held<'_> {
    type C = *mut bindings::ib_umem_dmabuf;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Attached memory with its lock held: contract of this function.
        // INVARIANT: Contract of this function.
        unsafe { Self::of(Dmabuf::view(c)) }
    }
}

// SAFETY: The references are limited to `'a`.
unsafe impl<'a> Within<'a> for Held<'a> {}

/// Like [`Held`], from an exporter's attachment, which the memory may not have recorded yet.
pub(in super::super) struct Invalidated<'a>(pub(in super::super) Held<'a>);

// SAFETY: `dma-buf.h`: `invalidate_mappings` gets an attachment with these operations, under the
// lock.
unsafe impl FromC for Invalidated<'_> {
    type C = *mut bindings::dma_buf_attachment;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An attachment, whose importer is the memory that `Unattached::attach` passed,
        // with its lock held: contract of this function. INVARIANT: By the same contract.
        unsafe {
            Self(Held {
                state: State::view((*c).importer_priv.cast()),
                attach: Attachment::view(c),
            })
        }
    }
}

// SAFETY: The references are limited to `'a`.
unsafe impl<'a> Within<'a> for Invalidated<'a> {}

impl<'a> Held<'a> {
    /// # Safety
    ///
    /// The caller must uphold the type invariant.
    unsafe fn of(umem: &'a Dmabuf) -> Self {
        Self {
            // SAFETY: Another view of the same structure, to which nobody else has references as
            // long as the lock is held: contract of this function.
            state: unsafe { State::view(umem.raw()) },
            attach: umem.attach(),
        }
    }

    /// The head, common to all kinds.
    pub(in super::super) fn umem(&self) -> &'a Umem {
        self.state.umem()
    }

    fn resv(&self) -> &'a Resv {
        self.attach.dmabuf().resv()
    }

    /// Has lockdep check that the lock is held.
    pub(in super::super) fn assert(&self) {
        assert_held(self.resv());
    }

    /// Returns whether the memory was revoked.
    pub(in super::super) fn is_revoked(&self) -> bool {
        self.state.revoked()
    }

    /// Returns whether the buffer is mapped.
    pub(in super::super) fn is_mapped(&self) -> bool {
        self.state.sgt().is_some()
    }

    /// Maps the buffer, which must not be mapped yet. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the exporter.
    pub(in super::super) fn map(&mut self) -> Result {
        // SAFETY: The attachment's lock is held: type invariant. The table exists until `unmap`.
        let table = from_err_ptr(unsafe {
            bindings::dma_buf_map_attachment(self.attach.raw(), DMA_BIDIRECTIONAL)
        })?;
        // SAFETY: A mapped table, or null. `sgt` is read only through `self`, so no reference is
        // left when `unmap` borrows it mutably.
        self.state.set_sgt(unsafe { FromC::from_c(table) });
        Ok(())
    }

    /// Restores the exporter's table and unmaps the buffer, if it is mapped. The table that drivers
    /// see becomes empty, since the exporter frees its entries. May sleep.
    pub(in super::super) fn unmap(&mut self) {
        let Some(table) = self.state.sgt() else {
            return;
        };
        self.restore();
        self.state.set_part(None);
        self.state.set_part_nents(0);
        // SAFETY: The table is from `map`, and the lock is held: type invariant.
        unsafe {
            bindings::dma_buf_unmap_attachment(self.attach.raw(), table.raw(), DMA_BIDIRECTIONAL);
        }
        self.state.set_sgt(None);
    }

    /// Entries of the exporter's table; none if it is not mapped.
    pub(in super::super) fn entries(&self) -> impl Iterator<Item = Exported<'_>> {
        let table = self.state.sgt();
        table
            .into_iter()
            .flat_map(|table| table.entries())
            .map(Exported)
    }

    /// Makes an entry the first of the memory's part, without its first `skip` bytes.
    pub(in super::super) fn begin_at(&self, entry: Exported<'_>, skip: usize) {
        self.state.set_first_sg(Some(entry.0));
        self.state.set_first_sg_offset(skip);
        let now = entry.segment();
        // CAST: Less than the entry's length.
        entry.set(Piece {
            addr: now.addr.wrapping_add(skip as u64),
            len: now.len.wrapping_sub(skip as u32),
        });
    }

    /// Makes an entry the last of the memory's part, without its last `trim` bytes.
    pub(in super::super) fn end_at(&self, entry: Exported<'_>, trim: usize) {
        self.state.set_last_sg(Some(entry.0));
        self.state.set_last_sg_trim(trim);
        let now = entry.segment();
        // CAST: Less than the entry's length.
        entry.set(Piece {
            len: now.len.wrapping_sub(trim as u32),
            ..now
        });
    }

    /// Restores the first and the last entry.
    fn restore(&self) {
        if let Some(first) = self.state.first_sg().map(Exported) {
            let (now, skip) = (first.segment(), self.state.first_sg_offset());
            // CAST: The value set by `begin_at`.
            first.set(Piece {
                addr: now.addr.wrapping_sub(skip as u64),
                len: now.len.wrapping_add(skip as u32),
            });
        }
        if let Some(last) = self.state.last_sg().map(Exported) {
            let now = last.segment();
            // CAST: The value set by `end_at`.
            last.set(Piece {
                len: now.len.wrapping_add(self.state.last_sg_trim() as u32),
                ..now
            });
        }
        self.state.set_first_sg(None);
        self.state.set_first_sg_offset(0);
        self.state.set_last_sg(None);
        self.state.set_last_sg_trim(0);
    }

    /// Returns whether the memory's part has a first entry.
    pub(in super::super) fn has_begun(&self) -> bool {
        self.state.first_sg().is_some()
    }

    /// Makes the memory's part, of `entries` entries, visible to drivers.
    pub(in super::super) fn show(&self, entries: u32) {
        self.state.set_part(self.state.first_sg());
        self.state.set_part_nents(entries);
    }

    /// Pins the buffer: the exporter does not move it.
    ///
    /// # Errors
    ///
    /// Those of the exporter.
    pub(in super::super) fn pin(&mut self) -> Result {
        dma_buf_pin(self.attach)?;
        self.mark(true, self.state.revoked());
        Ok(())
    }

    /// Unpins the buffer, if it is pinned, and marks the memory as revoked.
    pub(in super::super) fn unpin_revoked(&mut self) {
        if self.state.pinned() {
            dma_buf_unpin(self.attach);
        }
        self.mark(false, true);
    }

    fn mark(&self, pinned: bool, revoked: bool) {
        // SAFETY: The lock, which is held (type invariant), guards both bits, and they share their
        // storage with no other fields.
        unsafe {
            bindings::ib_umem_dmabuf::set_pinned_raw(self.state.raw(), pinned.into());
            bindings::ib_umem_dmabuf::set_revoked_raw(self.state.raw(), revoked.into());
        }
    }

    /// Waits until the exporter has moved the content to the mapped location. Returns the result of
    /// `dma_resv_wait_timeout`.
    pub(in super::super) fn wait(&self) -> c_long {
        dma_resv_wait_timeout(
            self.resv(),
            bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
            false,
            c_long::MAX as c_ulong,
        )
    }

    /// Sets the driver's callback for revocation.
    pub(in super::super) fn set_revoke(
        &self,
        revoke: Option<unsafe extern "C" fn(*mut c_void)>,
        private: Passed<c_void>,
    ) {
        self.state.set_pinned_revoke(revoke);
        self.state.set_private(private);
    }

    /// Tells the driver that the memory is revoked.
    pub(in super::super) fn tell_driver(&self) {
        if let Some(tell) = self.state.pinned_revoke() {
            // SAFETY: `ib_umem_dmabuf_set_revoke_locked`: the driver has set both, and they are
            // valid until the memory is revoked or released.
            unsafe { tell(self.state.private().into_c()) };
        }
    }

    /// Unlocks the buffer.
    pub(in super::super) fn unlock(self) {
        dma_resv_unlock(self.resv());
    }
}

/// An entry of the exporter's table while it is mapped.
#[derive(Clone, Copy)]
pub(in super::super) struct Exported<'a>(Entry<'a>);

impl Exported<'_> {
    /// The segment of the entry.
    pub(in super::super) fn segment(self) -> Piece {
        self.0.segment()
    }

    fn set(self, piece: Piece) {
        // SAFETY: Only `Held` creates such entries, of the table that is mapped for this memory.
        // Nobody uses its segments without the lock before they are given to the driver.
        unsafe { self.0.set_segment(piece) };
    }
}

/// Memory whose reservation lock is held until this is dropped.
pub(in super::super) struct Locked<'a>(Held<'a>);

impl Dmabuf {
    /// Locks the buffer. May sleep.
    pub(in super::super) fn lock(&self) -> Locked<'_> {
        dma_resv_lock(self.attach().dmabuf().resv(), Passed::NULL);
        // SAFETY: The lock was just taken, and is held until the value is dropped.
        Locked(unsafe { Held::of(self) })
    }
}

impl Locked<'_> {
    /// Leaves the buffer locked; the caller of the exported function unlocks it.
    pub(in super::super) fn leave(self) {
        core::mem::forget(self);
    }
}

impl<'a> Deref for Locked<'a> {
    type Target = Held<'a>;

    fn deref(&self) -> &Held<'a> {
        &self.0
    }
}

impl<'a> DerefMut for Locked<'a> {
    fn deref_mut(&mut self) -> &mut Held<'a> {
        &mut self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        dma_resv_unlock(self.0.resv());
    }
}
