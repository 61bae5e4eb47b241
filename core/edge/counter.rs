// SPDX-License-Identifier: GPL-2.0

//! Counters (`struct rdma_counter`) that queue pairs are bound to.

use crate::device::Device;
use crate::restrack::Entry;
use crate::stats;
use kernel::sync::Mutex;
use kernel::sync::Refcount;
use rdma::bindings;

rdma::c_struct! {
    /// A counter, the beginning of a driver's structure. While it is in the device's table, whoever
    /// has its entry can use it. C header: `include/rdma/rdma_counter.h`.
    pub(crate) struct Counter: bindings::rdma_counter;
    init CounterInit<'a> {
        /// The device.
        device: &'a Device,
        /// The port whose queue pairs it counts.
        port: u32,
    }
    fields {
        /// What is tracked of it.
        embed entry at res: Entry;
        /// How many queue pairs have it, and who makes it.
        embed count at kref.refcount: Refcount;
        /// Held around the driver's methods of it. Initialised when it is made.
        embed mutex at lock: Mutex<()>;
        /// Its number, which the driver gives it when the first queue pair is bound.
        racy id: u32;
        /// Its values; up to date after [`query_stats`](Self::query_stats).
        const stats: Option<&stats::HwStats>, set_stats;
        const raw_mode at mode.mode: u32, set_raw_mode;
        const mask at mode.mask: u32, set_mask;
        const bind_opcnt at mode.bind_opcnt: bool, set_bind_opcnt;
        const raw_qp_type at mode.param.qp_type: i32, set_raw_qp_type;
    }
}
