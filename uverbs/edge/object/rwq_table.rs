// SPDX-License-Identifier: GPL-2.0

//! Indirection tables of work queues (`struct ib_rwq_ind_table`).
//!
//! A table owns an array with the addresses of its queues, of which it counts a use each.

use super::make;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::rwq_table::RwqTable;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::object::Use;
use rdma::edge::verbs;
use rdma::edge::View;

/// The array of a table.
type Queues = KVec<*mut bindings::ib_wq>;

/// Makes a table of `1 << log_size` queues. The caller has counted a use of each of them, and keeps it
/// if this succeeds. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has no method for it; `ENOMEM`; those of the driver.
pub(crate) fn create<'a>(
    new: &New<'_, RwqTable>,
    log_size: u32,
    of: impl ExactSizeIterator<Item = &'a verbs::Wq>,
) -> Result<Owned<verbs::RwqTable>> {
    let device = new.device()?;
    let ops = device.ops();
    let create = ops.create_rwq_ind_table.ok_or_else(unsupported)?;
    if 1_usize.checked_shl(log_size) != Some(of.len()) {
        return Err(EINVAL);
    }
    let mut queues = Queues::with_capacity(of.len(), accounted::GFP)?;
    for queue in of {
        queues.push(queue.raw(), accounted::GFP)?;
    }
    let array = queues.as_mut_ptr();
    let mut attr = bindings::ib_rwq_ind_table_init_attr {
        log_ind_tbl_size: log_size,
        ind_tbl: array,
    };
    // SAFETY: The size is that of the driver's tables; the handle outlives the table.
    let table = unsafe {
        make(
            device,
            ops.size_ib_rwq_ind_table,
            None,
            |table: *mut bindings::ib_rwq_ind_table| {
                (*table).device = device.raw();
                (*table).uobject = new.handle().raw();
                (*table).log_ind_tbl_size = log_size;
                (*table).ind_tbl = array;
            },
            |table| create(table, &raw mut attr, new.call().udata().raw()),
        )?
    };
    // The table's now, until `destroy`.
    core::mem::forget(queues);
    Ok(table)
}

/// Destroys a table that no queue pair uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn destroy(table: Dying<'_, RwqTable>) -> Result<Dead<'_, RwqTable>> {
    if table.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    let c = table.raw();
    // SAFETY: Nobody else uses the table (`Dying`). `create` has given it the array, which has so
    // many queues, and counted a use of each of them.
    unsafe {
        let destroy = (*(*c).device).ops.destroy_rwq_ind_table;
        to_result(destroy.ok_or_else(unsupported)?(c))?;
        let len = 1_usize.wrapping_shl((*c).log_ind_tbl_size);
        let queues = Queues::from_raw_parts((*c).ind_tbl, len, len);
        bindings::kfree(c.cast());
        for queue in &queues {
            drop(Use::kept(verbs::Wq::view(*queue).usecnt()));
        }
        Ok(table.gone())
    }
}
