// SPDX-License-Identifier: GPL-2.0

//! Memory windows (`struct ib_mw`).

use super::make;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::mw::Mw;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::object::Use;
use rdma::edge::verbs;
use rdma::edge::View;

/// Makes a window of a type (`enum ib_mw_type`) in a domain. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has none; `ENOMEM`; those of the driver.
pub(crate) fn alloc(new: &New<'_, Mw>, pd: &verbs::Pd, kind: u32) -> Result<Owned<verbs::Mw>> {
    let device = pd.dev();
    let ops = device.ops();
    let alloc = ops.alloc_mw.ok_or_else(unsupported)?;
    // SAFETY: The size is that of the driver's windows. The domain is not destroyed while a window
    // uses it, which is counted below; the handle outlives the window.
    let mw = unsafe {
        make(
            device,
            ops.size_ib_mw,
            None,
            |mw: *mut bindings::ib_mw| {
                (*mw).device = device.raw();
                (*mw).pd = pd.raw();
                (*mw).uobject = new.handle().raw();
                (*mw).type_ = kind;
            },
            |mw| alloc(mw, new.call().udata().raw()),
        )?
    };
    pd.usecnt().count().keep();
    Ok(mw)
}

/// Destroys a window. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn dealloc(mw: Dying<'_, Mw>) -> Result<Dead<'_, Mw>> {
    let pd = mw.object().pd();
    let dealloc = mw.object().dev().ops().dealloc_mw.ok_or_else(unsupported)?;
    // SAFETY: Nobody else uses the window (`Dying`), which has counted a use of its domain. `make`
    // has allocated the memory.
    unsafe {
        to_result(dealloc(mw.raw()))?;
        drop(Use::kept(pd.usecnt()));
        bindings::kfree(mw.raw().cast());
        Ok(mw.gone())
    }
}
