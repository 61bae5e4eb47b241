// SPDX-License-Identifier: GPL-2.0

//! Raw bindings to the headers that are private to the modules of the core
//! (`drivers/infiniband/core/*.h`), including everything of [`rdma::bindings`].

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

include!(env!("RDMA_PRIVATE"));
