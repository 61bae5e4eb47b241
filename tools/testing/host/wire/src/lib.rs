// SPDX-License-Identifier: GPL-2.0

//! `rust/wire` of the kernel crate `rdma`, as a crate of its own.
//!
//! Everything is in [`wire`], which is the kernel's file, and is re-exported at
//! the root. The tests are in `tests/`.

#![no_std]

#[deny(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing
)]
#[path = "../../../../../rust/wire/mod.rs"]
pub mod wire;

pub use wire::*;
