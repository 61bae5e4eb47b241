// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of soft-RoCE, in a module of their own: loading it runs them.
//!
//! The files under test are compiled into this module, so that `rdma_rxe` itself contains no tests.
//! The pure files have more thorough tests on the host.

// Covers items that the suites do not use.
#![allow(dead_code, unused_imports)]

use kernel::prelude::*;
use rdma::wire;

/// The edge of soft-RoCE, which counts the checks of addresses.
mod edge {
    use crate::plain_edge;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;

    pub(crate) use crate::plain_edge::*;

    static CHECKED: Atomic<u64> = Atomic::new(0);

    pub(crate) fn is_mapped(at: Address) -> bool {
        let _: u64 = CHECKED.fetch_add(1u64, Relaxed);
        plain_edge::is_mapped(at)
    }

    /// Returns the number of calls of [`is_mapped`] so far.
    pub(crate) fn checked() -> u64 {
        CHECKED.load(Relaxed)
    }
}
mod mem;
#[path = "mem/kunit.rs"]
mod memory;
#[path = "edge.rs"]
mod plain_edge;
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
