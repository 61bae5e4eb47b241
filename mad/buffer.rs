// SPDX-License-Identifier: GPL-2.0

//! Memory that devices, consumers and this core share: the bytes of MADs.

use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::prelude::*;
use rdma::bindings;

/// What an allocation may do, for C's flags: sleep, or not.
pub(super) const fn flags(gfp: bindings::gfp_t) -> Flags {
    if gfp & 1 << bindings::___GFP_DIRECT_RECLAIM_BIT != 0 {
        GFP_KERNEL
    } else {
        GFP_ATOMIC
    }
}

/// Bytes on the heap that others have a pointer to.
///
/// # Invariants
///
/// `ptr` is of a `KVec<u8>` that was taken apart, whose capacity is `len`, all of them
/// initialised, and nobody else frees it.
pub(super) struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: Bytes on the heap belong to no thread.
unsafe impl core::marker::Send for Buffer {}
// SAFETY: Access to the bytes is by unsafe functions only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Zeros. The context is that of `flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(len: usize, flags: Flags) -> Result<Self> {
        let len = len.max(1);
        // Cleared by the allocator: a loop here would go byte by byte.
        let bytes = KVec::<u8>::with_capacity(len, flags | __GFP_ZERO)?;
        let (ptr, _, capacity) = bytes.into_raw_parts();
        debug_assert_eq!(len, capacity);
        // INVARIANT: Just taken apart; room for bytes is what was asked for, and all of it zeros.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
            len,
        })
    }

    pub(super) const fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// # Safety
    ///
    /// Nobody writes to it meanwhile, the device included.
    pub(super) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant, initialised; and this function's duty.
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// # Safety
    ///
    /// Nobody else has access to it meanwhile, the device included.
    #[allow(clippy::mut_from_ref, reason = "the caller promises that it is alone")]
    pub(super) unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: As in `bytes`.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// How many bytes there are.
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        drop(unsafe { KVec::from_raw_parts(self.ptr.as_ptr(), self.len, self.len) });
    }
}

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The device reads.
    ToDevice,
    /// The device writes.
    FromDevice,
}

impl Way {
    const fn raw(self) -> bindings::dma_data_direction {
        match self {
            Self::ToDevice => bindings::dma_data_direction_DMA_TO_DEVICE,
            Self::FromDevice => bindings::dma_data_direction_DMA_FROM_DEVICE,
        }
    }
}

/// Bytes that a device may access. Has to be given back by [`unmap`](Self::unmap); dropping
/// it leaves the device's access as it is.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    addr: u64,
    len: u32,
    way: Way,
}

impl Mapping {
    /// Lets a device access bytes. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The device is alive, and the bytes stay until it was unmapped.
    pub(super) unsafe fn new(
        device: *mut bindings::ib_device,
        ptr: *mut u8,
        len: u32,
        way: Way,
    ) -> Result<Self> {
        // SAFETY: By this function's duty.
        unsafe {
            let addr = bindings::rdma_helper_ib_dma_map_single(
                device,
                ptr.cast(),
                len as usize,
                way.raw(),
            );
            if bindings::rdma_helper_ib_dma_mapping_error(device, addr) != 0 {
                return Err(ENOMEM);
            }
            Ok(Self { addr, len, way })
        }
    }

    /// Ends the access. Any context.
    ///
    /// # Safety
    ///
    /// The device is the one it was made for, and this is called once.
    pub(super) unsafe fn unmap(self, device: *mut bindings::ib_device) {
        // SAFETY: By this function's duty.
        unsafe {
            bindings::rdma_helper_ib_dma_unmap_single(
                device,
                self.addr,
                self.len as usize,
                self.way.raw(),
            )
        };
    }

    /// As a work request has it.
    pub(super) const fn sge(&self, lkey: u32) -> bindings::ib_sge {
        bindings::ib_sge {
            addr: self.addr,
            length: self.len,
            lkey,
        }
    }
}
