// SPDX-License-Identifier: GPL-2.0

//! Scatterlists of C.

use kernel::ffi::c_int;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::Passed;

/// A scatterlist. Only C makes one.
pub(super) struct List(*mut bindings::scatterlist);

rdma::argument! {
    /// A scatterlist of as many entries as the number says that is passed along, or fewer, of memory
    /// that the kernel has mapped.
    impl List = |list: Passed<bindings::scatterlist>| List(list.into_c());
}

impl List {
    /// Writes into each entry its memory's address as the device's.
    pub(super) fn map_virtual(self, entries: c_int) {
        let mut at = self.0;
        for _ in 0..entries {
            if at.is_null() {
                break;
            }
            // SAFETY: It is an entry, followed by the others (`from_c`'s contract).
            at = unsafe {
                bindings::rdma_helper_sg_map_virtual(at);
                bindings::rdma_helper_sg_next(at)
            };
        }
    }
}
