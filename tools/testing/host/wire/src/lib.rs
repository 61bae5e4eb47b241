// SPDX-License-Identifier: GPL-2.0

//! `rust/wire` of the kernel crate `rdma`, as a crate of its own.
//!
//! Everything is in [`wire`], which is the kernel's file, and is re-exported at
//! the root. The tests are in `tests/`.

#![no_std]

#[path = "../../../../../rust/wire/mod.rs"]
pub mod wire;

pub use wire::*;
