// SPDX-License-Identifier: GPL-2.0

//! Indirection tables of work queues (`struct ib_rwq_ind_table`).
//!
//! A table owns an array with the addresses of its queues, of which it counts a use each.

use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::unsupported;
use crate::object::rwq_table::RwqTable;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Use;
use rdma::edge::verbs;
use rdma::edge::View;

/// The array of a table.
type Queues = KVec<*mut bindings::ib_wq>;

/// Destroys a table that no queue pair uses. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn destroy(table: Dying<'_, RwqTable>) -> Result<Dead<'_, RwqTable>> {
    let c = table.raw();
    // SAFETY: Nobody else uses the table (`Dying`). `create` has given it the array, which has so
    // many queues, and counted a use of each of them.
    unsafe {
        let destroy = (*(*c).device).ops.destroy_rwq_ind_table;
        to_result(destroy.ok_or(unsupported())?(c))?;
        let len = 1_usize.wrapping_shl((*c).log_ind_tbl_size);
        let queues = Queues::from_raw_parts((*c).ind_tbl, len, len);
        bindings::kfree(c.cast());
        for queue in &queues {
            drop(Use::kept(verbs::Wq::view(*queue).usecnt()));
        }
        Ok(table.gone())
    }
}
