// SPDX-License-Identifier: GPL-2.0

//! Memory for MADs, and its DMA mappings.

use super::port::Live;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;

use crate::device::Device;

/// So many bytes of zeros; at least one. The context is that of `flags`.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn zeros(len: usize, flags: Flags) -> Result<KVec<u8>> {
    let len = len.max(1);
    // The allocator clears the memory: faster than a loop here.
    let mut bytes = KVec::<u8>::with_capacity(len, flags | __GFP_ZERO)?;
    // SAFETY: There is room for `len` bytes, which `__GFP_ZERO` has initialised.
    unsafe { bytes.inc_len(len) };
    Ok(bytes)
}

/// Direction of a transfer.
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

/// Bytes that a device may access. Dropping it leaves the mapping as it is: the owner of the
/// memory calls [`unmap`](Self::unmap).
pub(super) struct Mapping {
    addr: u64,
    len: u32,
    way: Way,
}

impl Mapping {
    /// Maps bytes for a port's device. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The bytes exist until the mapping is undone; nobody else writes to them while the device
    /// may read them, nor accesses them while it may write.
    pub(super) unsafe fn new(live: Live<'_>, ptr: NonNull<u8>, len: u32, way: Way) -> Result<Self> {
        let device = live.device().raw();
        // SAFETY: The device is registered (`Live`); the rest is this function's requirement.
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

    /// Ends the access. Any context.
    ///
    /// # Safety
    ///
    /// The device is the one that the mapping was made for, and does not access the bytes.
    pub(super) unsafe fn unmap(self, device: &Device) {
        // SAFETY: The device exists; it is taken by value, so undone once. The rest is this
        // function's requirement.
        unsafe {
            bindings::rdma_helper_ib_dma_unmap_single(
                device.raw(),
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
