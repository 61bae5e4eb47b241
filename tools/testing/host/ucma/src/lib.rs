// SPDX-License-Identifier: GPL-2.0

//! `ucma/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../../../ucma/proto/mod.rs"]
pub mod proto;
