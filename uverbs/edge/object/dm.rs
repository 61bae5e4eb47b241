// SPDX-License-Identifier: GPL-2.0

//! Device memory (`struct ib_dm`). A driver allocates and frees the structure.

use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::dm::Dm;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Bare;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;

/// Allocates `length` bytes of device memory. `alignment` is a power of two. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has none; those of the driver.
pub(crate) fn alloc(new: &New<'_, Dm>, length: u64, alignment: u32) -> Result<Owned<verbs::Dm>> {
    let context = new.context()?;
    let device = context.dev();
    let alloc = device.ops().alloc_dm.ok_or_else(unsupported)?;
    let mut asked = bindings::ib_dm_alloc_attr {
        length,
        alignment,
        flags: 0,
    };
    // SAFETY: The context and its device exist during the call. The driver returns a new object,
    // which nobody else uses, or an error; of the handle only the address is kept.
    unsafe {
        let dm = from_err_ptr(alloc(
            device.raw(),
            context.raw(),
            &mut asked,
            new.call().raw(),
        ))?;
        let mut dm = Bare::<verbs::Dm>::from_c(dm).fill(verbs::DmInit {
            dev: device,
            // The field has 32 bits. Memory behind cannot be registered.
            length: u32::try_from(asked.length).unwrap_or(u32::MAX),
            uobject: Passed::from_c(new.handle().raw()),
        });
        verbs::Dm::set_first_usecnt(&mut dm, 0);
        Ok(dm)
    }
}

/// Frees device memory that no region uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn free(dm: Dying<'_, Dm>) -> Result<Dead<'_, Dm>> {
    if dm.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    let free = dm.object().dev().ops().dealloc_dm.ok_or_else(unsupported)?;
    // SAFETY: Nobody else uses the memory (`Dying`).
    unsafe {
        to_result(free(dm.raw(), dm.call().raw()))?;
        Ok(dm.gone())
    }
}
