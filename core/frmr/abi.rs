// SPDX-License-Identifier: GPL-2.0

//! What drivers call.

use super::Driver;
use super::Key;
use super::Pool;
use super::Pools;
use crate::device::Device;
use bindings::ib_device;
use bindings::ib_frmr_pool_ops;
use bindings::ib_mr;
use core::mem::ManuallyDrop;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

/// Gives a device pools. 0, `-EINVAL` for operations that cannot create or destroy, or if it
/// has pools, `-ENOMEM`. May sleep.
///
/// # Safety
///
/// The device and the operations exist until [`ib_frmr_pools_cleanup`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_frmr_pools_init(
    device: *mut ib_device,
    pool_ops: *const ib_frmr_pool_ops,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let (dev, ops) = unsafe { (Device::from_raw(device), &*pool_ops) };
        if ops.create_frmrs.is_none() || ops.destroy_frmrs.is_none() {
            return Err(EINVAL);
        }
        // INVARIANT: By this function's duty.
        let pools = Pools::new(Driver {
            device,
            ops: pool_ops,
        })?;
        let mut slot = dev.slot::<super::Slot>().pools.write();
        if slot.is_some() {
            return Err(EINVAL);
        }
        // For the functions below; the slot keeps them.
        // SAFETY: The field is written here and in the clean-up only.
        unsafe { (*device).frmr_pools = Arc::as_ptr(&pools).cast_mut().cast() };
        *slot = Some(pools);
        Ok(0)
    })
}

/// Destroys the pools of a device, and the handles in them. May sleep, for long.
///
/// # Safety
///
/// The device exists; no region has a handle, and no other function here runs for it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_frmr_pools_cleanup(device: *mut ib_device) {
    // SAFETY: By this function's duty.
    let dev = unsafe { Device::from_raw(device) };
    let pools = dev.slot::<super::Slot>().pools.write().take();
    // SAFETY: As above.
    unsafe { (*device).frmr_pools = core::ptr::null_mut() };
    drop(pools);
}

/// Gives a region a handle of the kind in its `frmr.key`. 0, `-EINVAL` without pools, `-ENOMEM`,
/// or the driver's error. May sleep.
///
/// # Safety
///
/// The device and the region exist; the clean-up does not run.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_frmr_pool_pop(device: *mut ib_device, mr: *mut ib_mr) -> c_int {
    // SAFETY: By this function's duty the pools stay.
    from_result(|| unsafe {
        let pools: *const Pools = (*device).frmr_pools.cast();
        let pools = pools.as_ref().ok_or(EINVAL)?;
        let pool = pools.find_or_make(Key::from_c(&(*mr).frmr.key))?;
        (*mr).frmr.handle = pool.take()?;
        // Not counted: the tree keeps it until the clean-up.
        (*mr).frmr.pool = Arc::as_ptr(&pool).cast_mut().cast();
        Ok(0)
    })
}

/// The pool of a region's handle.
///
/// # Safety
///
/// The region has a handle, and the clean-up does not run.
unsafe fn pool_of(mr: *mut ib_mr) -> ManuallyDrop<Arc<Pool>> {
    // SAFETY: By this function's duty it is what `ib_frmr_pool_pop` noted; the reference is the
    // tree's, and not dropped here.
    unsafe { ManuallyDrop::new(Arc::from_raw((*mr).frmr.pool.cast::<Pool>())) }
}

/// Puts a region's handle back. May sleep.
///
/// # Safety
///
/// The region has a handle, which it does not use any more; the clean-up does not run.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_frmr_pool_push(_device: *mut ib_device, mr: *mut ib_mr) {
    // SAFETY: By this function's duty.
    unsafe { pool_of(mr).put((*mr).frmr.handle) };
}

/// A region's handle will not come back: the driver destroys it itself. Any context.
///
/// # Safety
///
/// The region has a handle; the clean-up does not run.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_frmr_pool_drop(mr: *mut ib_mr) {
    // SAFETY: By this function's duty.
    unsafe { pool_of(mr) }.forget();
}

rdma::exported!(
    ib_frmr_pools_init,
    ib_frmr_pools_cleanup,
    ib_frmr_pool_pop,
    ib_frmr_pool_push,
    ib_frmr_pool_drop,
);
