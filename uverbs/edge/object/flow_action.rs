// SPDX-License-Identifier: GPL-2.0

//! Flow actions (`struct ib_flow_action`), which drivers allocate and free.

use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::unsupported;
use crate::object::flow_action::FlowAction;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::object::UseCount;

rdma::c_struct! {
    /// A flow action.
    pub(crate) struct Action: bindings::ib_flow_action;
    fields {
        /// The device.
        const device: &Device;
        /// Number of flows that use it.
        embed usecnt: UseCount;
    }
}

/// Destroys an action that no flow uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn destroy(action: Dying<'_, FlowAction>) -> Result<Dead<'_, FlowAction>> {
    if action.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    let device = action.object().device();
    let destroy = device.ops().destroy_flow_action.ok_or_else(unsupported)?;
    // SAFETY: Nobody else uses the action (`Dying`).
    unsafe {
        to_result(destroy(action.raw()))?;
        Ok(action.gone())
    }
}
