// SPDX-License-Identifier: GPL-2.0

//! What is tracked of users' contexts and DMA handles: their way to the core's [`Device`].
//!
//! Their other fields are in [`rdma::edge::uverbs`] and [`crate::object::tables`]; `rdma` does not
//! know the core's device.

use crate::device::Device;
use rdma::bindings;
use rdma::edge::View;

rdma::c_struct! {
    /// A user's context.
    pub(crate) struct TrackedContext: bindings::ib_ucontext;
    fields {
        /// Written by `ib_uverbs` before the context is tracked.
        const device: Option<&Device>;
    }
}

rdma::c_struct! {
    /// A DMA handle.
    pub(crate) struct TrackedDmah: bindings::ib_dmah;
    fields {
        /// Written by `ib_uverbs` before the handle is tracked.
        const device: Option<&Device>;
    }
}

/// The device of a user's context.
pub(crate) fn device(context: &rdma::edge::uverbs::UContext) -> Option<&Device> {
    // SAFETY: Both are views of the same structure.
    let context: &TrackedContext = unsafe { View::view(View::raw(context)) };
    context.device()
}

tracked! {
    TrackedContext as Ctx;
    TrackedDmah as Dmah;
}
