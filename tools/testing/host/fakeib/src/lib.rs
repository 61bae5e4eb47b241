// SPDX-License-Identifier: GPL-2.0

//! `tools/testing/fakeib/proto` as a crate of its own; the tests are in `tests/`.

#[path = "../../../fakeib/proto/mod.rs"]
pub mod proto;

/// The lists that the fabric is made of.
pub type List<T> = Vec<T>;
