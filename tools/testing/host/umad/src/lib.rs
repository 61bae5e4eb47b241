// SPDX-License-Identifier: GPL-2.0

//! `umad/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../../../umad/proto/mod.rs"]
pub mod proto;
