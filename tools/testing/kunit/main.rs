// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of the crate `rdma`, as a module: loading it runs them.
//!
//! The results are KTAP in the kernel log. `tools/kernel/base.config` has KUnit
//! built in; each file here is the suite of the wrapper of that name.

use kernel::prelude::*;

mod accounted;
mod context;
mod crc32;
mod gate;
mod kvec;
mod list;
mod nospec;
mod shared_ring;
mod sync;
mod table;
mod timer;
mod workqueue;

rdma::resident_module! { struct Main(Suites); }

module! {
    type: Main,
    name: "rdma_kunit",
    authors: ["RDMA in Rust contributors"],
    description: "KUnit suites of the RDMA subsystem's shared code",
    license: "GPL",
}

struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
