// SPDX-License-Identifier: GPL-2.0

//! Memory of kernel consumers that a device may access while it is posted.

use super::Pd;
use crate::bindings;
use crate::features::DMA_BIDIRECTIONAL;
use core::ptr::NonNull;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Memory for requests of queue pairs of one protection domain. It is mapped for DMA as long as it
/// exists. Drop may sleep if nothing else keeps the protection domain; otherwise any context.
///
/// # Invariants
///
/// `start` is memory of `len` bytes, owned by this, and mapped for the device of `pd` at `addr`.
/// The device does not access it, except while a request that was posted with it is outstanding;
/// then a queue pair owns this, and does not use `start`.
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
    len: u32,
    addr: u64,
    pd: Arc<Pd>,
}

// SAFETY: The memory is owned, and a protection domain may be used from any thread.
unsafe impl Send for Buffer {}
// SAFETY: As for `Send`: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates a buffer of `len` zeroed bytes, at least one. May sleep. If the length is a peer's,
    /// compare it with a limit before: here it may take all memory that there is in one piece.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, without a report in the log: the length may be a peer's; `EOVERFLOW` if a request
    /// cannot be so large.
    pub fn new(pd: &Arc<Pd>, len: usize) -> Result<Self> {
        let count = u32::try_from(len.max(1)).map_err(|_| EOVERFLOW)?;
        let bytes = KVec::from_elem(0_u8, len.max(1), GFP_KERNEL | __GFP_NOWARN)?;
        let (start, _, capacity) = bytes.into_raw_parts();
        let device = pd.device().raw();
        // SAFETY: The device exists (`DeviceRef`), and the memory does until `drop`.
        let (addr, failed) = unsafe {
            let addr = bindings::rdma_helper_ib_dma_map_single(
                device,
                start.cast(),
                len.max(1),
                DMA_BIDIRECTIONAL,
            );
            (
                addr,
                bindings::rdma_helper_ib_dma_mapping_error(device, addr),
            )
        };
        let mapped = NonNull::new(start).filter(|_| failed == 0);
        let Some(start) = mapped else {
            // SAFETY: These are the parts of the vector above.
            drop(unsafe { KVec::from_raw_parts(start, len.max(1), capacity) });
            return Err(ENOMEM);
        };
        // INVARIANT: Allocated and mapped above; nothing was posted.
        Ok(Self {
            start,
            capacity,
            len: count,
            addr,
            pd: pd.clone(),
        })
    }

    fn size(&self) -> usize {
        // CAST: `usize` has at least 32 bits.
        self.len as usize
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The memory exists, and the device does not access it: who can borrow this has not
        // posted it (type invariant).
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.size()) }
    }

    /// Returns the bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `bytes`; `&mut self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.size()) }
    }

    /// Returns its protection domain.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the address for the device.
    pub(super) fn addr(&self) -> u64 {
        self.addr
    }

    /// Returns the number of bytes.
    pub(super) fn length(&self) -> u32 {
        self.len
    }

    /// Returns the element of a request for the first `len` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has fewer.
    pub(super) fn element(&self, len: usize) -> Result<bindings::ib_sge> {
        let length = u32::try_from(len).map_err(|_| EINVAL)?;
        if length > self.len {
            return Err(EINVAL);
        }
        Ok(bindings::ib_sge {
            addr: self.addr,
            length,
            lkey: self.pd.key(),
        })
    }

    /// Passes the memory to the device: it is to be posted.
    pub(super) fn sync_for_device(&self) {
        // SAFETY: The device exists (`DeviceRef`); the memory is mapped there (type invariant).
        unsafe {
            bindings::rdma_helper_ib_dma_sync_for_device(
                self.pd.device().raw(),
                self.addr,
                self.size(),
            )
        };
    }

    /// Takes the memory back from the device.
    pub(super) fn sync_for_cpu(&self) {
        // SAFETY: As in `sync_for_device`.
        unsafe {
            bindings::rdma_helper_ib_dma_sync_for_cpu(
                self.pd.device().raw(),
                self.addr,
                self.size(),
            )
        };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: The memory is mapped there, and nothing is posted, so the device does not access
        // it (type invariant). The parts are those of the vector that `new` has made.
        unsafe {
            bindings::rdma_helper_ib_dma_unmap_single(
                self.pd.device().raw(),
                self.addr,
                self.size(),
                DMA_BIDIRECTIONAL,
            );
            drop(KVec::from_raw_parts(
                self.start.as_ptr(),
                self.size(),
                self.capacity,
            ));
        }
    }
}
