// SPDX-License-Identifier: GPL-2.0

//! `core/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../../../core/proto/mod.rs"]
pub mod proto;
pub mod rng;
