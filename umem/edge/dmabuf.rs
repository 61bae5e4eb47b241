// SPDX-License-Identifier: GPL-2.0

//! Memory of a DMA-buf (`struct ib_umem_dmabuf`): its attachment, and what the buffer's reservation
//! lock guards.
//!
//! To be held against `include/rdma/ib_umem.h` and `include/linux/dma-buf.h`. From [`Unattached`] comes
//! memory that is attached until [`end`]. All that changes of it meanwhile is in [`State`], which is
//! only reached through [`Held`], the proof that the lock of this very memory is held.

use core::ops::Deref;
use core::ops::DerefMut;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
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

rdma::c_struct! {
    /// A reservation lock.
    pub(in super::super) struct Resv: bindings::dma_resv;
    fields {}
}

rdma::c_struct! {
    /// A buffer.
    pub(in super::super) struct DmaBuf: bindings::dma_buf;
    fields {
        /// Bytes; never changes.
        const size: usize;
        /// Its lock; never changes.
        const resv: &Resv;
    }
}

rdma::c_struct! {
    /// A device's attachment to a buffer.
    pub(in super::super) struct Attachment: bindings::dma_buf_attachment;
    fields {
        /// The buffer, which the attachment's memory holds a reference to.
        const dmabuf: &DmaBuf;
    }
}

rdma::c_struct! {
    /// Memory of a DMA-buf, which is attached.
    pub(in super::super) struct Dmabuf: bindings::ib_umem_dmabuf;
    fields {
        /// The part that all kinds have.
        embed umem: Umem;
        /// Its attachment. Written when the memory is attached, before anybody but the exporter
        /// has it.
        const attach: &Attachment;
    }
}

rdma::c_struct! {
    /// What changes of such memory: guarded by the reservation lock.
    struct State: bindings::ib_umem_dmabuf;
    fields {
        /// The part that all kinds have.
        embed umem: Umem;
        /// The exporter's table while it is mapped, else null.
        cell sgt: Option<&sg_table::Mapped>, set_sgt;
        /// The first entry of our part of the table, and by how much it is shortened.
        cell first_sg: Option<Entry<'_>>, set_first_sg;
        cell first_sg_offset: usize, set_first_sg_offset;
        /// The last entry of our part of the table, and by how much it is shortened.
        cell last_sg: Option<Entry<'_>>, set_last_sg;
        cell last_sg_trim: usize, set_last_sg_trim;
        /// Our part of the table, for drivers.
        cell part at umem.sgt_append.sgt.sgl: Option<Entry<'_>>, set_part;
        /// Entries of that part.
        cell part_nents at umem.sgt_append.sgt.nents: u32, set_part_nents;
        /// What the driver wants to be called when the memory is taken away, and with what.
        cell pinned_revoke: Option<unsafe extern "C" fn(*mut c_void)>, set_pinned_revoke;
        cell private: Passed<c_void>, set_private;
        /// Whether the exporter was asked not to move the buffer.
        bit pinned: bool;
        /// Whether the memory was taken away, for good.
        bit revoked: bool;
    }
}

// SAFETY: `Held` alone has references, while the lock is held; `Opaque` is not `Sync`.
unsafe impl OfCall for State {}

rdma::import! {
    in rdma::bindings;

    /// The buffer behind a file of the current process.
    fn dma_buf_get(fd: c_int) -> Result<Buffer> = dma_buf_get;
    /// Without a ticket it cannot fail.
    fn dma_resv_lock(resv: &Resv, ticket: Passed<bindings::ww_acquire_ctx>) -> c_int
        = dma_resv_lock;
    /// For `Held` and `Locked` alone, which hold the lock.
    fn dma_resv_unlock(resv: &Resv) = dma_resv_unlock;
    fn dma_resv_wait_timeout(resv: &Resv, usage: u32, interruptible: bool, timeout: c_ulong)
        -> c_long = dma_resv_wait_timeout;
    fn assert_held(resv: &Resv) = rdma_helper_dma_resv_assert_held;
    /// For `Held` alone, under the lock.
    fn dma_buf_pin(attach: &Attachment) -> Result = dma_buf_pin;
    /// For `Held` alone, of what is pinned.
    fn dma_buf_unpin(attach: &Attachment) = dma_buf_unpin;
}

/// A reference to a buffer.
///
/// # Invariants
///
/// We own the reference.
pub(in super::super) struct Buffer(NonNull<bindings::dma_buf>);

// SAFETY: `from_c`'s contract is that a reference is given.
unsafe impl FromC for Buffer {
    type C = *mut bindings::dma_buf;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A buffer: contract of this function. INVARIANT: By the same contract.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl Buffer {
    /// The buffer behind a file of the current process.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such file, `EINVAL` if it is no buffer.
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
        // SAFETY: The reference is ours: type invariant.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}

/// The operations of whoever is attached.
///
/// # Invariants
///
/// Null, which stands for none, or operations that exist until the memory that they are of is
/// released.
#[derive(Clone, Copy)]
pub(in super::super) struct AttachOps(*const dma_buf_attach_ops);

// SAFETY: `from_c`'s contract is the type invariant, which drivers keep to (`ib_umem_dmabuf_get`).
unsafe impl FromC for AttachOps {
    type C = *const dma_buf_attach_ops;

    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: By the contract of this function.
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
    /// Of a buffer that stays.
    // INVARIANT: Static.
    pub(in super::super) const PINNED: Self = Self(&raw const STAYS);

    /// Of a buffer that stays until the exporter takes it away.
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
    /// `size` bytes at `offset` of a buffer, for a device.
    pub(in super::super) fn new(
        host: HostDevice,
        offset: usize,
        size: usize,
        writable: bool,
    ) -> Result<Self> {
        let mut umem = KBox::new(bindings::ib_umem_dmabuf::default(), GFP_KERNEL)?;
        umem.umem.ibdev = host.into_c();
        umem.umem.length = size;
        umem.umem.address = offset;
        umem.umem.set_writable(writable.into());
        umem.umem.set_is_dmabuf(1);
        Ok(Self(umem))
    }

    /// Attaches the memory, which has the reference to the buffer from now on, with a device that
    /// does the DMA.
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
        // SAFETY: We hold the buffer, the operations exist as long as the memory (invariant of
        // `AttachOps`), and so does the device (`ib_umem.h`). The exporter may call the operations
        // from now on, under its lock; the memory is whole but for `attach`, which they get as an
        // argument. If this fails nobody has the memory.
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

/// Detaches and frees memory that is revoked. May sleep.
pub(in super::super) fn end(umem: Owned<Dmabuf>) {
    let (attach, buffer) = (umem.attach().raw(), umem.attach().dmabuf().raw());
    let umem = umem.into_raw();
    // SAFETY: The memory is that of `Unattached::attach`, which nobody else has (`Owned`). After the
    // detachment the exporter calls nothing. The reference to the buffer is the memory's.
    unsafe {
        bindings::dma_buf_detach(buffer, attach);
        bindings::dma_buf_put(buffer);
        drop(KBox::from_raw(umem.as_ptr()));
    }
}

/// Memory whose reservation lock is held.
///
/// # Invariants
///
/// For `'a`, the lock of the buffer that `attach`, the memory's attachment, is of is held by the
/// current thread.
pub(in super::super) struct Held<'a> {
    state: &'a State,
    attach: &'a Attachment,
}

// SAFETY: `from_c`'s contract is that the memory is attached and its lock held, which drivers keep
// to, and which the exported functions assert.
unsafe impl FromC for Held<'_> {
    type C = *mut bindings::ib_umem_dmabuf;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Attached memory, whose lock is held: contract of this function.
        // INVARIANT: By the same contract.
        unsafe { Self::of(Dmabuf::view(c)) }
    }
}

// SAFETY: The references are of `'a`.
unsafe impl<'a> Within<'a> for Held<'a> {}

/// As [`Held`], as an exporter knows it: it may have the attachment before the memory notes it.
pub(in super::super) struct Invalidated<'a>(pub(in super::super) Held<'a>);

// SAFETY: `dma-buf.h`: `invalidate_mappings` gets an attachment of these operations, under the lock.
unsafe impl FromC for Invalidated<'_> {
    type C = *mut bindings::dma_buf_attachment;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An attachment, whose importer is the memory that `Unattached::attach` passed; its
        // lock is held: contract of this function. INVARIANT: By the same contract.
        unsafe {
            Self(Held {
                state: State::view((*c).importer_priv.cast()),
                attach: Attachment::view(c),
            })
        }
    }
}

// SAFETY: The references are of `'a`.
unsafe impl<'a> Within<'a> for Invalidated<'a> {}

impl<'a> Held<'a> {
    /// # Safety
    ///
    /// The type invariant.
    unsafe fn of(umem: &'a Dmabuf) -> Self {
        Self {
            // SAFETY: Another view of the same structure, of which nobody has references as long as the
            // lock is held: contract of this function.
            state: unsafe { State::view(umem.raw()) },
            attach: umem.attach(),
        }
    }

    /// The part that all kinds have.
    pub(in super::super) fn umem(&self) -> &'a Umem {
        self.state.umem()
    }

    fn resv(&self) -> &'a Resv {
        self.attach.dmabuf().resv()
    }

    /// Lets lockdep check that the lock is held.
    pub(in super::super) fn assert(&self) {
        assert_held(self.resv());
    }

    /// Whether it was taken away, for good.
    pub(in super::super) fn is_revoked(&self) -> bool {
        self.state.revoked()
    }

    /// Whether it is mapped.
    pub(in super::super) fn is_mapped(&self) -> bool {
        self.state.sgt().is_some()
    }

    /// Maps the buffer, which is not mapped. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the exporter.
    pub(in super::super) fn map(&mut self) -> Result {
        // SAFETY: An attachment whose lock is held: type invariant. The table stays until `unmap`.
        let table = from_err_ptr(unsafe {
            bindings::dma_buf_map_attachment(
                self.attach.raw(),
                bindings::dma_data_direction_DMA_BIDIRECTIONAL,
            )
        })?;
        // SAFETY: A table that is mapped, or null; `sgt` is read only through `self`, and no reference
        // is left when `unmap` borrows it mutably.
        self.state.set_sgt(unsafe { FromC::from_c(table) });
        Ok(())
    }

    /// Unmaps the buffer, if it is mapped, with its table as it was. What drivers see is empty
    /// then: the exporter frees the table. May sleep.
    pub(in super::super) fn unmap(&mut self) {
        let Some(table) = self.state.sgt() else {
            return;
        };
        self.restore();
        self.state.set_part(None);
        self.state.set_part_nents(0);
        // SAFETY: The table is that of `map`, and the lock is held: type invariant.
        unsafe {
            bindings::dma_buf_unmap_attachment(
                self.attach.raw(),
                table.raw(),
                bindings::dma_data_direction_DMA_BIDIRECTIONAL,
            );
        }
        self.state.set_sgt(None);
    }

    /// The entries of the exporter's table, if it is mapped.
    pub(in super::super) fn entries(&self) -> impl Iterator<Item = Exported<'_>> {
        let table = self.state.sgt();
        table
            .into_iter()
            .flat_map(|table| table.entries())
            .map(Exported)
    }

    /// Makes an entry the first of our part, which begins `skip` bytes behind its beginning.
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

    /// Makes an entry the last of our part, which ends `trim` bytes before its end.
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

    /// Gives the first and the last entry back as they were.
    fn restore(&self) {
        if let Some(first) = self.state.first_sg().map(Exported) {
            let (now, skip) = (first.segment(), self.state.first_sg_offset());
            // CAST: What `begin_at` took.
            first.set(Piece {
                addr: now.addr.wrapping_sub(skip as u64),
                len: now.len.wrapping_add(skip as u32),
            });
        }
        if let Some(last) = self.state.last_sg().map(Exported) {
            let now = last.segment();
            // CAST: What `end_at` took.
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

    /// Whether our part has a first entry.
    pub(in super::super) fn has_begun(&self) -> bool {
        self.state.first_sg().is_some()
    }

    /// Makes our part, of so many entries, the table that drivers see.
    pub(in super::super) fn show(&self, entries: u32) {
        self.state.set_part(self.state.first_sg());
        self.state.set_part_nents(entries);
    }

    /// Asks the exporter not to move the buffer.
    ///
    /// # Errors
    ///
    /// Those of the exporter.
    pub(in super::super) fn pin(&mut self) -> Result {
        dma_buf_pin(self.attach)?;
        self.mark(true, self.state.revoked());
        Ok(())
    }

    /// Lets the exporter move the buffer, if it was asked not to, and marks the memory as taken
    /// away.
    pub(in super::super) fn unpin_revoked(&mut self) {
        if self.state.pinned() {
            dma_buf_unpin(self.attach);
        }
        self.mark(false, true);
    }

    fn mark(&self, pinned: bool, revoked: bool) {
        // SAFETY: Both bits are guarded by the lock, which is held: type invariant. There are no others
        // beside them.
        unsafe {
            bindings::ib_umem_dmabuf::set_pinned_raw(self.state.raw(), pinned.into());
            bindings::ib_umem_dmabuf::set_revoked_raw(self.state.raw(), revoked.into());
        }
    }

    /// Waits until the exporter has moved the content to where it is mapped: what
    /// `dma_resv_wait_timeout` returns.
    pub(in super::super) fn wait(&self) -> c_long {
        dma_resv_wait_timeout(
            self.resv(),
            bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
            false,
            c_long::MAX as c_ulong,
        )
    }

    /// Sets what the driver is told by.
    pub(in super::super) fn set_revoke(
        &self,
        revoke: Option<unsafe extern "C" fn(*mut c_void)>,
        private: Passed<c_void>,
    ) {
        self.state.set_pinned_revoke(revoke);
        self.state.set_private(private);
    }

    /// Tells the driver that the memory is taken away.
    pub(in super::super) fn tell_driver(&self) {
        if let Some(tell) = self.state.pinned_revoke() {
            // SAFETY: `ib_umem_dmabuf_set_revoke_locked`: the driver has set both, and they are good
            // until the memory is revoked or released.
            unsafe { tell(self.state.private().into_c()) };
        }
    }

    /// Unlocks.
    pub(in super::super) fn unlock(self) {
        dma_resv_unlock(self.resv());
    }
}

/// An entry of the exporter's table while it is mapped.
#[derive(Clone, Copy)]
pub(in super::super) struct Exported<'a>(Entry<'a>);

impl Exported<'_> {
    /// The segment.
    pub(in super::super) fn segment(self) -> Piece {
        self.0.segment()
    }

    fn set(self, piece: Piece) {
        // SAFETY: `Held` makes such entries, of the table that is mapped for us, whose segments nobody
        // uses without the lock before the driver is given them.
        unsafe { self.0.set_segment(piece) };
    }
}

/// Memory whose reservation lock is held until this is dropped.
pub(in super::super) struct Locked<'a>(Held<'a>);

impl Dmabuf {
    /// Locks. May sleep.
    pub(in super::super) fn lock(&self) -> Locked<'_> {
        dma_resv_lock(self.attach().dmabuf().resv(), Passed::NULL);
        // SAFETY: Just locked, until the value is dropped.
        Locked(unsafe { Held::of(self) })
    }
}

impl Locked<'_> {
    /// Leaves it locked; the caller of the exported function unlocks.
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
