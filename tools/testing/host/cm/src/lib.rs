// SPDX-License-Identifier: GPL-2.0

//! `cm/proto` as a crate of its own; the tests are in `tests/`.

#![no_std]

#[path = "../../../../../cm/proto/mod.rs"]
pub mod proto;
#[path = "../../core/src/rng.rs"]
pub mod rng;
