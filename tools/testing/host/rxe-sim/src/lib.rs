// SPDX-License-Identifier: GPL-2.0

//! The soft-RoCE protocol engine on the host, and a world to run it in.
//!
//! [`proto`] is the kernel's own source. Around it:
//!
//! * [`host`]: memory, rings and completion queues of one node; it asserts that the
//!   engine keeps its side of the contract (order of retirement, ranges, headers);
//! * [`node`]: one queue pair with its host; real packet bytes go in and out;
//! * [`world`]: two nodes, a wire that loses, repeats, delays and reorders, and a
//!   clock that jumps from event to event;
//! * [`rng`]: the only source of chance. A seed decides everything.

pub use rdma_wire as wire;

#[deny(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing
)]
#[path = "../../../../../hw/rxe/proto/mod.rs"]
pub mod proto;

pub mod host;
pub mod node;
pub mod rng;
pub mod world;
