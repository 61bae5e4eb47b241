// SPDX-License-Identifier: GPL-2.0

//! What the user-verbs module and drivers share of a user's call.
//!
//! | file | what |
//! |---|---|
//! | `udata` | the driver's own part of a call: bytes in, bytes out |
//! | `attrs` | the attributes of a call by `ioctl`, and memory that lives as long as it |
//! | `mmap` | what a file of a device's user can be mapped to |
//! | `edge` | the C structures of these |
//!
//! The module `ib_uverbs` makes the structures: a call's `struct uverbs_attr_bundle`, which
//! is the end of a private `struct bundle_priv` if the call has attributes at all; the open
//! file; the device behind it, whose `disassociate_srcu` is held while a call runs. They are
//! declared in the private headers ([`crate::private`]).
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
use rdma::edge::View;

/// The user context of an open file, whose device's `disassociate_srcu` the caller holds until the
/// result is not used any more. Any context. An error pointer: `EIO` if the device is gone,
/// `EINVAL` if the user has made no context yet.
fn ucontext(file: &UFile) -> *mut bindings::ib_ucontext {
    let context = file.ucontext();
    if !edge::has_device(file) {
        return EIO.to_ptr();
    }
    context.map_or(EINVAL.to_ptr(), View::raw)
}

/// The handler of methods that only destroy an object, which is done around it.
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
