// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of soft-RoCE, as a module of their own: loading it runs them.
//!
//! The files under test are compiled into it, so that `rdma_rxe` itself carries no
//! tests. The pure ones among them are tested more closely on the host.

// What the suites do not call.
#![allow(dead_code, unused_imports)]

use kernel::prelude::*;
use rdma::wire;

mod edge;
mod mem;
#[path = "mem/kunit.rs"]
mod memory;
#[allow(unreachable_pub)]
mod proto;
mod queue;

rdma::resident_module! { struct Main(Suites); }

module! {
    type: Main,
    name: "rxe_kunit",
    authors: ["The rust-rdma authors"],
    description: "KUnit suites of soft-RoCE",
    license: "GPL",
}

struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
