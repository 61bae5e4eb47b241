// SPDX-License-Identifier: GPL-2.0

//! What drivers call.

use super::edge;
use super::edge::Driver;
use super::edge::Host;
use super::edge::PoolOps;
use super::edge::Region;
use super::edge::Served;
use super::edge::Serving;
use super::Pools;
use super::Slot;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Alone;
use rdma::edge::Passed;

/// Gives a device pools. May sleep.
///
/// # Errors
///
/// `EINVAL` for operations that cannot create or destroy, or if it has pools; `ENOMEM`.
fn init(device: Host, ops: PoolOps) -> Result {
    let pools = Pools::new(Driver::new(device, &ops)?)?;
    let mut slot = device.slot::<Slot>().pools.write();
    if slot.is_some() {
        return Err(EINVAL);
    }
    // For the functions below; the slot keeps them.
    edge::note(&device, Some(&pools));
    *slot = Some(pools);
    Ok(())
}

/// Destroys the pools of a device, and the handles in them. No region has a handle, and no other
/// function here runs for the device. May sleep, for long.
fn cleanup(device: Host) {
    let pools = device.slot::<Slot>().pools.write().take();
    edge::note(&device, None);
    drop(pools);
}

/// Gives a region a handle of the kind in its `frmr.key`. May sleep.
///
/// # Errors
///
/// `EINVAL` without pools, `ENOMEM`, the driver's.
fn pop(device: Serving<'_>, mut mr: Alone<'_, Region>) -> Result {
    let pools = device.pools().ok_or(EINVAL)?;
    let pool = pools.find_or_make(mr.key())?;
    let handle = pool.take()?;
    Region::give(&mut mr, &pool, handle);
    Ok(())
}

/// Puts a region's handle back, which it does not use any more. May sleep.
fn push(_device: Passed<bindings::ib_device>, mr: Served<'_>) {
    mr.pool().put(mr.handle());
}

/// A region's handle will not come back: the driver destroys it itself. Any context.
fn forget(mr: Served<'_>) {
    mr.pool().forget();
}

rdma::export! {
    in rdma::bindings;

    /// See [`init`].
    fn ib_frmr_pools_init(device: Host, ops: PoolOps) -> Result = init;
    /// See [`cleanup`].
    fn ib_frmr_pools_cleanup(device: Host) = cleanup;
    /// See [`pop`].
    fn ib_frmr_pool_pop(device: Serving<'_>, mr: Alone<'_, Region>) -> Result = pop;
    /// See [`push`].
    fn ib_frmr_pool_push(device: Passed<bindings::ib_device>, mr: Served<'_>) = push;
    /// See [`forget`].
    fn ib_frmr_pool_drop(mr: Served<'_>) = forget;
}
