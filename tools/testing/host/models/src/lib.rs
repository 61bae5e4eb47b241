// SPDX-License-Identifier: GPL-2.0

//! The parts of the kernel crate `rdma` that work without locks, built with loom's atomics. The
//! models are in `tests/`: each runs under every interleaving of a few steps. `token.rs` has a
//! crate of its own.

#[path = "../../../../../rust/timer/closed.rs"]
pub mod closed;
#[path = "../../../../../rust/front.rs"]
pub mod front;
#[path = "../../../../../rust/gate/word.rs"]
pub mod word;
