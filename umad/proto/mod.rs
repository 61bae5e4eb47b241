// SPDX-License-Identifier: GPL-2.0

//! What `ib_umad` decides about the bytes of programs. Pure: no kernel calls, no allocation.
//!
//! * [`header`]: what stands before each MAD that a program reads or writes, in both layouts;
//! * [`register`]: what a program registers, in three layouts;
//! * [`send`]: lengths of a MAD to be sent, and which sends are duplicates;
//! * [`receive`]: how much of a MAD a read copies.
//!
//! Specification: `include/uapi/rdma/ib_user_mad.h`.

pub mod header;
pub mod receive;
pub mod register;
pub mod send;
#[allow(dead_code, reason = "shared with ib_core, which uses all of it")]
#[path = "../../mad/proto/wire.rs"]
pub mod wire;

/// Agents that an open file may have.
pub const AGENTS: usize = 32;

/// MADs that wait in an open file to be read. More are dropped.
pub const WAITING: usize = 200_000;

/// The request is refused with `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;
