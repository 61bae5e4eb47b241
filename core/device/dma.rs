// SPDX-License-Identifier: GPL-2.0

//! Scatterlists of devices without DMA, whose DMA addresses are kernel virtual addresses.

mod edge;

use kernel::ffi::c_int;
use rdma::edge::Passed;

use self::edge::List;

fn map(_device: Passed<rdma::bindings::ib_device>, list: List, entries: c_int) -> c_int {
    list.map_virtual(entries);
    entries
}

rdma::export! { in rdma::bindings;
    /// Sets the DMA address of each entry to its kernel virtual address. Returns the number of
    /// entries.
    fn ib_dma_virt_map_sg(
        device: Passed<rdma::bindings::ib_device>, sg: List, entries: c_int,
    ) -> c_int = map;
}
