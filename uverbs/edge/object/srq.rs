// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (`struct ib_srq`).

use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::object::srq::Srq;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;

/// Destroys a queue. May sleep.
///
/// # Errors
///
/// `EBUSY`: queue pairs use it; those of the driver.
pub(crate) fn destroy(srq: Dying<'_, Srq>) -> Result<Dead<'_, Srq>> {
    // SAFETY: Nobody else uses the queue (`Dying`).
    unsafe {
        to_result(bindings::ib_destroy_srq_user(
            srq.raw(),
            srq.call().udata().raw(),
        ))?;
        Ok(srq.gone())
    }
}
