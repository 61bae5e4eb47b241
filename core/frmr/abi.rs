// SPDX-License-Identifier: GPL-2.0

//! Functions exported to drivers.

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

/// Creates the pools of a device. May sleep.
///
/// # Errors
///
/// `EINVAL` if the create or the destroy operation is missing, or the device has pools already;
/// `ENOMEM`.
fn init(device: Host, ops: PoolOps) -> Result {
    let pools = Pools::new(Driver::new(device, &ops)?)?;
    let mut slot = device.slot::<Slot>().pools.write();
    if slot.is_some() {
        return Err(EINVAL);
    }
    // Fast access for the functions below; the slot owns the pools.
    edge::note(&device, Some(&pools));
    *slot = Some(pools);
    Ok(())
}

/// Destroys the pools of a device and the handles in them. The caller must ensure that no region
/// has a handle and no other function of this file runs for the device. May sleep for a long time.
fn cleanup(device: Host) {
    let pools = device.slot::<Slot>().pools.write().take();
    edge::note(&device, None);
    drop(pools);
}

/// Assigns a handle of the kind in `frmr.key` to a region. May sleep.
///
/// # Errors
///
/// `EINVAL` without pools, `ENOMEM`, errors of the driver.
fn pop(device: Serving<'_>, mut mr: Alone<'_, Region>) -> Result {
    let pools = device.pools().ok_or(EINVAL)?;
    let pool = pools.find_or_make(mr.key())?;
    let handle = pool.take()?;
    Region::give(&mut mr, &pool, handle);
    Ok(())
}

/// Returns a region's handle, which the region must not use any more. May sleep.
fn push(_device: Passed<bindings::ib_device>, mr: Served<'_>) {
    mr.pool().put(mr.handle());
}

/// Forgets a region's handle, which the driver destroys itself. Any context.
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
