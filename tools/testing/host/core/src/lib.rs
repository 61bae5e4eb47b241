// SPDX-License-Identifier: GPL-2.0

//! `core/proto` as a crate of its own, and what of the kernel crate `rdma` its tables rest on;
//! the tests are in `tests/`.

#[path = "../../../../../rust/anchor.rs"]
pub mod anchor;
#[path = "../../../../../rust/front.rs"]
pub mod front;
#[path = "../../../../../core/proto/mod.rs"]
pub mod proto;
pub mod rng;
