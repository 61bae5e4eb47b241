// SPDX-License-Identifier: GPL-2.0

//! Raw bindings to `include/rdma`, generated for the kernel that is built against.
//!
//! Types that the `kernel` crate binds are re-used from there, so that both crates agree on them.

#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]

use kernel::ffi;

include!(env!("RDMA_BINDINGS"));
