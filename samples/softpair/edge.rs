// SPDX-License-Identifier: GPL-2.0

//! The edge of softpair: the memory of its consumers.
//!
//! The only unsafe code of the driver. It rests on the contract of `ib_post_send` and
//! `ib_post_recv`, which no Rust type expresses.

/// Copies between the buffers of two posted requests, which may overlap. `from` and `to` are
/// addresses that the requests name with [`KEY`](crate::KEY), and have not completed.
pub(crate) fn copy(from: u64, to: u64, length: u32) {
    // CAST: Kernel virtual addresses, as there is no DMA; `length` fits in `usize`.
    // SAFETY: The consumers of both queue pairs posted addresses with the key for all kernel
    // memory, and guarantee that the memory is valid and not accessed otherwise until their
    // requests complete.
    unsafe { core::ptr::copy(from as *const u8, to as *mut u8, length as usize) };
}
