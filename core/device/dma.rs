// SPDX-License-Identifier: GPL-2.0

//! Scatterlists of devices without DMA: their addresses are the kernel's own.

use kernel::ffi::c_int;
use rdma::bindings;

/// Writes into each entry its memory's address as the device's. Returns how many.
///
/// # Safety
///
/// `sg` is a scatterlist of `entries` entries, of memory that the kernel has mapped.
#[no_mangle]
pub unsafe extern "C" fn ib_dma_virt_map_sg(
    _device: *mut bindings::ib_device,
    sg: *mut bindings::scatterlist,
    entries: c_int,
) -> c_int {
    let mut at = sg;
    for _ in 0..entries {
        if at.is_null() {
            break;
        }
        // SAFETY: By this function's duty it is an entry, followed by the others.
        at = unsafe {
            bindings::rdma_helper_sg_map_virtual(at);
            bindings::rdma_helper_sg_next(at)
        };
    }
    entries
}

#[cfg(CONFIG_INFINIBAND_VIRT_DMA)]
rdma::exported!(ib_dma_virt_map_sg);
