// SPDX-License-Identifier: GPL-2.0

//! What user verbs call for each object.

use crate::private::exported_private;
use crate::private::rdmacg_resource_type;
use crate::private::rdmacg_try_charge;
use crate::private::rdmacg_uncharge;
use kernel::ffi::c_int;
use rdma::bindings;

exported_private!(ib_rdmacg_try_charge, ib_rdmacg_uncharge);

/// Counts an object against the limit of the caller's cgroup. May sleep.
///
/// # Errors
///
/// `EAGAIN` if the limit is reached, `ENOMEM`, `EINVAL`.
///
/// # Safety
///
/// The device is registered with the controller; `object` may be written.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_rdmacg_try_charge(
    object: *mut bindings::ib_rdmacg_object,
    device: *mut bindings::ib_device,
    resource: rdmacg_resource_type,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        rdmacg_try_charge(
            (&raw mut (*object).cg).cast(),
            (&raw mut (*device).cg_device).cast(),
            resource,
        )
    }
}

/// The reverse of [`ib_rdmacg_try_charge`]. May sleep.
///
/// # Safety
///
/// `object` was charged, and is not any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_rdmacg_uncharge(
    object: *mut bindings::ib_rdmacg_object,
    device: *mut bindings::ib_device,
    resource: rdmacg_resource_type,
) {
    // SAFETY: By this function's duty.
    unsafe {
        rdmacg_uncharge(
            (*object).cg.cast(),
            (&raw mut (*device).cg_device).cast(),
            resource,
        )
    };
}
