// SPDX-License-Identifier: GPL-2.0

//! Support for user-verbs calls, shared by `ib_uverbs` and drivers.
//!
//! | file | what |
//! |---|---|
//! | `udata` | the driver's part of a call: input and output bytes |
//! | `attrs` | attributes of `ioctl` calls, and memory that is freed when the call ends |
//! | `mmap` | mappings of a device's memory through an open file |
//! | `edge` | the C structures |
//!
//! `ib_uverbs` allocates the structures: the `struct uverbs_attr_bundle` of a call, which is the
//! last field of a private `struct bundle_priv` if the call has attributes; the open file; the
//! character device, whose `disassociate_srcu` is held while a call runs. Their declarations are in
//! private headers ([`crate::private`]).
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/rdma/uverbs_types.h`.

pub(crate) mod attrs;
mod edge;
mod mmap;
mod udata;

use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::UFile;
use rdma::edge::Passed;

/// Returns the user context of an open file. The caller must hold the device's `disassociate_srcu`
/// until it no longer uses the result. Any context. Returns an error pointer: `EIO` if the device
/// has been removed, `EINVAL` if the user has not created a context.
fn ucontext(file: &UFile) -> *mut bindings::ib_ucontext {
    let context = file.ucontext_at();
    if !edge::has_device(file) {
        return EIO.to_ptr();
    }
    if context.is_null() {
        return EINVAL.to_ptr();
    }
    context
}

/// Handler of methods that only destroy an object: the caller destroys it.
fn nothing(_call: Passed<bindings::uverbs_attr_bundle>) -> c_int {
    0
}

rdma::export! {
    in rdma::bindings;

    /// See [`ucontext`].
    fn ib_uverbs_get_ucontext_file(file: &UFile) -> *mut bindings::ib_ucontext = ucontext;
    /// See [`nothing`].
    fn uverbs_destroy_def_handler(call: Passed<bindings::uverbs_attr_bundle>) -> c_int = nothing;
}

rdma::export! {
    in crate::private;

    /// See [`edge::clear_udata`].
    fn uverbs_get_cleared_udata(call: edge::ClearedCall<'_>) -> *mut bindings::ib_udata
        = edge::clear_udata;
}
