// SPDX-License-Identifier: GPL-2.0

//! C functions that only this driver calls.
//!
//! The declarations are in `linux/random.h` and `rust/helpers/mem.c`.

use crate::mem::Part;
use core::ffi::c_void;
use rdma::bindings;
use rdma::edge::IntoC;

/// A number that may be a kernel address. It is never dereferenced.
pub(crate) struct Address(pub(crate) usize);

impl IntoC<*const c_void> for Address {
    #[inline(always)]
    fn into_c(self) -> *const c_void {
        core::ptr::without_provenance(self.0)
    }
}

rdma::import! { in rdma::bindings;
    /// A random byte. Any context; from a stock, so that it costs little.
    pub(crate) fn random_u8() -> u8 = get_random_u8;
    /// Eight random bytes. Any context.
    pub(crate) fn random_u64() -> u64 = get_random_u64;
    /// Whether the kernel maps memory at an address. Takes any address. Any context.
    pub(crate) fn is_mapped(at: Address) -> bool = rdma_helper_virt_addr_valid;
}

/// Writes bytes of registered memory back from the CPU's caches. Any context.
pub(crate) fn write_back(part: &Part<'_>) {
    let (at, len) = part.range();
    // SAFETY: The range is mapped for reads (invariant of `Part`), and the function leaves the
    // contents as they are.
    unsafe { bindings::rdma_helper_wb_cache_pmem(at.as_ptr().cast(), len) };
}
