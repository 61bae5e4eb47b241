// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0063 flags

//! A field that every holder of a reference relies on is forgotten when an object is made.

use rdma::edge::device::Device;
use rdma::edge::verbs::PdInit;

/// All fields.
#[cfg(not(wrong))]
pub fn literal(dev: &Device) -> PdInit<'_> {
    PdInit { dev, flags: 0 }
}

/// One is missing.
#[cfg(wrong)]
pub fn literal(dev: &Device) -> PdInit<'_> {
    PdInit { dev }
}
