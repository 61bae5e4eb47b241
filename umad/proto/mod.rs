// SPDX-License-Identifier: GPL-2.0

//! Pure engines of `ib_umad`, for bytes from programs. No kernel calls, no allocation.
//!
//! * [`header`]: the header before each MAD that a program reads or writes, in both layouts;
//! * [`register`]: registration requests, in three layouts;
//! * [`send`]: lengths of a MAD to be sent, and duplicates;
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

/// Maximum number of agents of an open file.
pub const AGENTS: usize = 32;

/// Maximum number of MADs that wait to be read from an open file. Further ones are dropped.
pub const WAITING: usize = 200_000;

/// The request is refused with `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;
