// SPDX-License-Identifier: GPL-2.0

//! `iwcm/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../../../iwcm/proto/mod.rs"]
pub mod proto;
