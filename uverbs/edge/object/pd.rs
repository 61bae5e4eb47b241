// SPDX-License-Identifier: GPL-2.0

//! Protection domains (`struct ib_pd`).

use super::entry;
use super::make;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::pd::Pd;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::View;

/// Makes a domain. May sleep.
///
/// # Errors
///
/// `ENOMEM`; those of the driver.
pub(crate) fn alloc(new: &New<'_, Pd>) -> Result<Owned<verbs::Pd>> {
    let device = new.device()?;
    let ops = device.ops();
    let alloc = ops.alloc_pd.ok_or_else(unsupported)?;
    // SAFETY: The size is that of the driver's domains; the handle outlives the domain.
    unsafe {
        make(
            device,
            ops.size_ib_pd,
            entry!(bindings::ib_pd, rdma_restrack_type_RDMA_RESTRACK_PD),
            |pd: *mut bindings::ib_pd| {
                (*pd).device = device.raw();
                (*pd).uobject = new.handle().raw();
            },
            |pd| alloc(pd, new.call().udata().raw()),
        )
    }
}

/// Destroys a domain that no other object uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn dealloc(pd: Dying<'_, Pd>) -> Result<Dead<'_, Pd>> {
    if pd.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    // SAFETY: Nobody else uses the domain (`Dying`).
    unsafe {
        to_result(bindings::ib_dealloc_pd_user(
            pd.raw(),
            pd.call().udata().raw(),
        ))?;
        Ok(pd.gone())
    }
}
