// SPDX-License-Identifier: GPL-2.0

//! `rust/token.rs` of the kernel crate `rdma`, as a crate of its own.
//!
//! The unit tests in `model.rs` are built with `cfg(test)`, under which the token
//! takes its atomics from loom: they cover every interleaving of a few steps.
//! `tests/threads.rs` uses the crate as the kernel does, with real threads.

#[path = "../../../../../rust/token.rs"]
pub mod token;

#[cfg(test)]
mod model;

pub use token::{Exclusive, Kick, RunToken, Turn};
