// SPDX-License-Identifier: GPL-2.0

//! From user contexts and DMA handles, as tracked by restrack, to the core's [`Device`].
//!
//! Their other fields are in [`rdma::edge::uverbs`] and [`crate::object::tables`]; the `rdma` crate
//! does not have the core's device type.

use crate::device::Device;
use rdma::bindings;
use rdma::edge::View;
use rdma::features::comp_cntr::ib_comp_cntr;

rdma::c_struct! {
    /// A user context.
    pub(crate) struct TrackedContext: bindings::ib_ucontext;
    fields {
        /// Written by `ib_uverbs` before the context is added to restrack.
        const device: Option<&Device>;
    }
}

rdma::c_struct! {
    /// A DMA handle.
    pub(crate) struct TrackedDmah: bindings::ib_dmah;
    fields {
        /// Written by `ib_uverbs` before the handle is added to restrack.
        const device: Option<&Device>;
    }
}

rdma::c_struct! {
    /// A completion counter.
    pub(crate) struct TrackedCompCntr: ib_comp_cntr;
    fields {
        /// Written by `ib_uverbs` before the counter is added to restrack.
        const device: Option<&Device>;
    }
}

/// Returns the device of a user context.
pub(crate) fn device(context: &rdma::edge::uverbs::UContext) -> Option<&Device> {
    // SAFETY: Both types are views of `struct ib_ucontext`.
    let context: &TrackedContext = unsafe { View::view(View::raw(context)) };
    context.device()
}
