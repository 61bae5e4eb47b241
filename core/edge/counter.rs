// SPDX-License-Identifier: GPL-2.0

//! Counters (`struct rdma_counter`) that queue pairs are bound to.

use crate::device::Device;
use crate::restrack::Entry;
use crate::stats;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::sync::CRefcount;

rdma::c_struct! {
    /// A counter, at the start of a driver's structure. While it is in the device's restrack table,
    /// a reference to its entry keeps it usable. C header: `include/rdma/rdma_counter.h`.
    pub(crate) struct Counter: bindings::rdma_counter;
    init CounterInit<'a> {
        /// The device.
        device: &'a Device,
        /// The port whose queue pairs it counts.
        port: u32,
    }
    fields {
        /// Restrack entry of the counter.
        embed entry at res: Entry;
        /// Reference count: one per bound queue pair, and one of the creator.
        embed count at kref.refcount: CRefcount;
        /// Serialises the driver's methods on the counter. Initialised at allocation.
        embed mutex at lock: Mutex<()>;
        /// Number of the counter, assigned by the driver when the first queue pair is bound.
        racy id: u32;
        /// Values of the counter, up to date after [`query_stats`](Self::query_stats).
        const stats: Option<&stats::HwStats>, set_stats;
        const raw_mode at mode.mode: u32, set_raw_mode;
        const mask at mode.mask: u32, set_mask;
        const bind_opcnt at mode.bind_opcnt: bool, set_bind_opcnt;
        const raw_qp_type at mode.param.qp_type: i32, set_raw_qp_type;
    }
}
