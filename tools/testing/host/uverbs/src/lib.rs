// SPDX-License-Identifier: GPL-2.0

//! `uverbs/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../../../uverbs/proto/mod.rs"]
pub mod proto;
