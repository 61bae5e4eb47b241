// SPDX-License-Identifier: GPL-2.0

//! Memory for MADs, and its DMA mappings.

use super::port::Live;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;
use rdma::features::DMA_FROM_DEVICE;
use rdma::features::DMA_TO_DEVICE;

use crate::device::Device;

/// Allocates `len` zeroed bytes, at least one. The context depends on `flags`.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn zeros(len: usize, flags: Flags) -> Result<KVec<u8>> {
    let len = len.max(1);
    // The allocator clears the memory faster than a loop here.
    let mut bytes = KVec::<u8>::with_capacity(len, flags | __GFP_ZERO)?;
    // SAFETY: The capacity is at least `len` bytes, which `__GFP_ZERO` has initialised.
    unsafe { bytes.inc_len(len) };
    Ok(bytes)
}

/// Bytes that C reads numbers of up to eight bytes from, at their places in a MAD.
#[repr(C, align(8))]
pub(super) struct Aligned<const N: usize>(pub(super) [u8; N]);

/// Direction of a DMA transfer.
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
            Self::ToDevice => DMA_TO_DEVICE,
            Self::FromDevice => DMA_FROM_DEVICE,
        }
    }
}

/// A DMA mapping. Dropping it does not unmap: the owner of the memory calls [`unmap`](Self::unmap).
pub(super) struct Mapping {
    addr: u64,
    len: u32,
    way: Way,
}

impl Mapping {
    /// Maps bytes for the device of a port. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The bytes must exist until they are unmapped. Until then, nothing else writes to them if
    /// the device reads them, and nothing else accesses them if the device writes to them.
    pub(super) unsafe fn new(live: Live<'_>, ptr: NonNull<u8>, len: u32, way: Way) -> Result<Self> {
        let device = live.device().raw();
        // SAFETY: The device is registered (`Live`); the rest is the contract of this function.
        unsafe {
            let addr = bindings::rdma_helper_ib_dma_map_single(
                device,
                ptr.as_ptr().cast(),
                len as usize,
                way.raw(),
            );
            if bindings::rdma_helper_ib_dma_mapping_error(device, addr) != 0 {
                return Err(ENOMEM);
            }
            Ok(Self { addr, len, way })
        }
    }

    /// Unmaps the bytes. Any context.
    ///
    /// # Safety
    ///
    /// `device` must be the one that the mapping was created for, and must not access the bytes any
    /// more.
    pub(super) unsafe fn unmap(self, device: &Device) {
        // SAFETY: The device exists; `self` is consumed, so it is unmapped once. The rest is the
        // contract of this function.
        unsafe {
            bindings::rdma_helper_ib_dma_unmap_single(
                device.raw(),
                self.addr,
                self.len as usize,
                self.way.raw(),
            )
        };
    }

    /// A scatter/gather element of the mapping.
    pub(super) const fn sge(&self, lkey: u32) -> bindings::ib_sge {
        bindings::ib_sge {
            addr: self.addr,
            length: self.len,
            lkey,
        }
    }
}
