// SPDX-License-Identifier: GPL-2.0

//! Address handles (`struct ib_ah`).

use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::object::ah::Ah;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::View;

/// Makes an address handle in a domain. May sleep.
///
/// # Errors
///
/// Those of the core and of the driver.
pub(crate) fn create(
    new: &New<'_, Ah>,
    pd: &verbs::Pd,
    attr: &verbs::AhAttr,
) -> Result<Owned<verbs::Ah>> {
    // SAFETY: The domain exists, and the attributes are this task's. The function returns a new
    // address handle, which nobody else uses, or an error. The handle outlives it.
    unsafe {
        let ah = from_err_ptr(bindings::rdma_create_user_ah(
            pd.raw(),
            attr.raw(),
            new.call().udata().raw(),
        ))?;
        let ah = NonNull::new(ah).ok_or(EINVAL)?;
        (*ah.as_ptr()).uobject = new.handle().raw();
        Ok(Owned::new(ah))
    }
}

/// Destroys an address handle. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn destroy(ah: Dying<'_, Ah>) -> Result<Dead<'_, Ah>> {
    // SAFETY: Nobody else uses the address handle (`Dying`).
    unsafe {
        to_result(bindings::rdma_destroy_ah_user(
            ah.raw(),
            bindings::rdma_destroy_ah_flags_RDMA_DESTROY_AH_SLEEPABLE,
            ah.call().udata().raw(),
        ))?;
        Ok(ah.gone())
    }
}
