// SPDX-License-Identifier: GPL-2.0

//! `cma/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../../../cma/proto/mod.rs"]
pub mod proto;
#[path = "../../core/src/rng.rs"]
pub mod rng;
