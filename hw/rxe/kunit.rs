// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of soft-RoCE, in a module of their own: loading it runs them.
//!
//! The files under test are compiled into this module, so that `rdma_rxe` itself contains no tests.
//! The pure files have more thorough tests on the host.

// Covers items that the suites do not use.
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
