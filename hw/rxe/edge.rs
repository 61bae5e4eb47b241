// SPDX-License-Identifier: GPL-2.0

//! C functions that only this driver calls.
//!
//! The declarations are in `linux/random.h`, `rust/helpers/mem.c` and `rust/helpers/odp.c`.

use crate::mem::Part;
use core::ffi::c_void;
use rdma::bindings;
use rdma::edge::IntoC;

/// A number that may be a kernel address. Never dereferenced.
pub(crate) struct Address(pub(crate) usize);

impl IntoC<*const c_void> for Address {
    #[inline(always)]
    fn into_c(self) -> *const c_void {
        core::ptr::without_provenance(self.0)
    }
}

rdma::import! { in rdma::bindings;
    /// Returns a random byte. Any context; cheap, since the kernel generates them in batches.
    pub(crate) fn random_u8() -> u8 = get_random_u8;
    /// Returns eight random bytes. Any context.
    pub(crate) fn random_u64() -> u64 = get_random_u64;
    /// Returns whether the kernel maps memory at an address. Accepts any address. Any context.
    pub(crate) fn is_mapped(at: Address) -> bool = rdma_helper_virt_addr_valid;
    /// Returns the part of `of` that the smallest node has, if each has one in proportion to its CPUs.
    /// Any context.
    pub(crate) fn smallest_node_part(of: u32) -> u32 = rdma_helper_smallest_node_part;
    /// Returns the ID of the user that answers for what the current task does: the owner of the
    /// outermost user namespace that it is in and that root has not made; otherwise the effective
    /// user. Process context.
    pub(crate) fn answerable_user() -> u32 = rdma_helper_answerable_user;
}

/// Writes the CPU's cache lines of registered memory back. Any context.
pub(crate) fn write_back(part: &Part<'_>) {
    let (at, len) = part.range();
    // SAFETY: The range is mapped for reads (invariant of `Part`), and the function does not change
    // its contents.
    unsafe { bindings::rdma_helper_wb_cache_pmem(at.as_ptr().cast(), len) };
}
