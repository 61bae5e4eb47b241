// SPDX-License-Identifier: GPL-2.0

//! C scatterlists.

use kernel::ffi::c_int;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::Passed;

/// A scatterlist. Only C makes one.
pub(super) struct List(*mut bindings::scatterlist);

rdma::argument! {
    /// A scatterlist of at most as many entries as the call's count says, of memory that is mapped
    /// in the kernel.
    impl List = |list: Passed<bindings::scatterlist>| List(list.into_c());
}

impl List {
    /// Sets the DMA address of each entry to its kernel virtual address.
    pub(super) fn map_virtual(self, entries: c_int) {
        let mut at = self.0;
        for _ in 0..entries {
            if at.is_null() {
                break;
            }
            // SAFETY: `at` is an entry, followed by the others (`from_c`'s contract).
            at = unsafe {
                bindings::rdma_helper_sg_map_virtual(at);
                bindings::rdma_helper_sg_next(at)
            };
        }
    }
}
