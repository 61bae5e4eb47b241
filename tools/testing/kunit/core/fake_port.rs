// SPDX-License-Identifier: GPL-2.0

//! Methods of the suites' drivers: a port that is up, with one GID and one P_Key.

use kernel::ffi::c_int;
use rdma::bindings;

/// What does not change of a port.
///
/// # Safety
///
/// For C only, as a method of a driver.
pub(crate) unsafe extern "C" fn immutable(
    _ib: *mut bindings::ib_device,
    _port: u32,
    to: *mut bindings::ib_port_immutable,
) -> c_int {
    // SAFETY: The core's own structure.
    unsafe {
        (*to).gid_tbl_len = 1;
        (*to).pkey_tbl_len = 1;
        (*to).core_cap_flags = bindings::RDMA_CORE_CAP_PROT_IB;
    }
    0
}

/// What changes.
///
/// # Safety
///
/// For C only, as a method of a driver.
pub(crate) unsafe extern "C" fn query_port(
    _ib: *mut bindings::ib_device,
    _port: u32,
    to: *mut bindings::ib_port_attr,
) -> c_int {
    // SAFETY: The core's own structure.
    unsafe {
        (*to).state = bindings::ib_port_state_IB_PORT_ACTIVE;
        (*to).gid_tbl_len = 1;
        (*to).pkey_tbl_len = 1;
    }
    0
}

/// Its one GID.
///
/// # Safety
///
/// For C only, as a method of a driver.
pub(crate) unsafe extern "C" fn query_gid(
    _ib: *mut bindings::ib_device,
    _port: u32,
    _index: c_int,
    gid: *mut bindings::ib_gid,
) -> c_int {
    // SAFETY: The core's own structure.
    unsafe { (*gid).raw = core::mem::ManuallyDrop::new(*b"\xfe\x80\0\0\0\0\0\0fakegid.") };
    0
}

/// Its one P_Key.
///
/// # Safety
///
/// For C only, as a method of a driver.
pub(crate) unsafe extern "C" fn query_pkey(
    _ib: *mut bindings::ib_device,
    _port: u32,
    _index: u16,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: The core's own key.
    unsafe { *pkey = 0xffff };
    0
}
