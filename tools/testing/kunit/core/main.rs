// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of `core/proto`, as a module: loading it runs them.
//!
//! The engines are tested by themselves on the host. Here they are compared with
//! the functions that the running kernel's `ib_core` exports, whichever that is:
//! each file is the suite of the engine of that name, [`peer`] is the other side.

use kernel::prelude::*;

mod addresses;
mod contexts;
mod device;
mod fake_port;
mod modify_qp;
mod pack;
mod peer;
mod polling;
#[path = "../../../../core/proto/mod.rs"]
mod proto;
mod rates;
mod restrack;
mod roce;
mod sg_pages;
mod verbs;

rdma::resident_module! { struct Main(Suites); }

module! {
    type: Main,
    name: "rdma_kunit_core",
    authors: ["The rust-rdma authors"],
    description: "KUnit suites of the RDMA core's engines",
    license: "GPL",
}

struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
