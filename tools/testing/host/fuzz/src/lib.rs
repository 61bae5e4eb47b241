// SPDX-License-Identifier: GPL-2.0

//! What fuzzing does to the engines. Each target is a function of bytes, which decide
//! everything; it panics when a promise is broken.
//!
//! * [`packets`]: two queue pairs talk, and somebody on the wire loses, repeats, forges;
//! * [`rings`]: a user scribbles over the queues that are shared with the kernel;
//! * [`cm`]: a peer and a consumer of one connection do anything;
//! * [`ucma`]: commands that a program writes to `rdma_ucm`, and several programs at once;
//! * [`wire`]: datagrams, headers and network headers are parsed and written back.
//!
//! `make fuzz` grows inputs by coverage; the smallest set of them is in `corpus/`, and
//! those that once broke something in `regress/`. `tests/replay.rs` runs both.

pub mod bytes;
pub mod cm;
pub mod forge;
pub mod memory;
pub mod packets;
pub mod rings;
pub mod ucma;
pub mod wire;

/// A target.
pub type Target = fn(&[u8]);

/// All of them by name, which is that of their folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("packets", packets::run),
    ("rings", rings::run),
    ("ucma", ucma::run),
    ("wire", wire::run),
    ("cm", cm::run),
];
