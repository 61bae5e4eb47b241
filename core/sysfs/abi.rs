// SPDX-License-Identifier: GPL-2.0

//! What other modules call.

use super::port;
use super::port::Port;
use crate::device::Device;
use crate::private::exported_private;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::sysfs::Directory;

rdma::exported!(ib_port_sysfs_get_ibdev_kobj);
exported_private!(
    ib_port_register_client_groups,
    ib_port_unregister_client_groups
);

/// The device and port of a port's directory. Any context, while the directory is there.
///
/// # Safety
///
/// `kobj` is the directory of a port; `port_num` may be written.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_port_sysfs_get_ibdev_kobj(
    kobj: *mut bindings::kobject,
    port_num: *mut u32,
) -> *mut bindings::ib_device {
    // SAFETY: By this function's duty.
    unsafe {
        let port = Directory::<Port>::from_raw(kobj);
        port_num.write(port.number());
        port.device().as_raw()
    }
}

/// Adds files of a client's to the directory of a port. May sleep.
///
/// # Errors
///
/// `EINVAL` without such a port, else those of `sysfs_create_groups`.
///
/// # Safety
///
/// The device is registered. `groups` is a list, ended by null, of groups of
/// `struct ib_port_attribute` that stays until the files are removed.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_port_register_client_groups(
    device: *mut bindings::ib_device,
    port_num: u32,
    groups: *mut *const bindings::attribute_group,
) -> c_int {
    // SAFETY: By this function's duty.
    match port::find(unsafe { Device::from_raw(device) }, port_num) {
        // SAFETY: The directory is there while the device is registered; the rest by this
        // function's duty.
        Some(port) => unsafe { bindings::sysfs_create_groups(port.as_raw(), groups.cast_const()) },
        None => EINVAL.to_errno(),
    }
}

/// The reverse of [`ib_port_register_client_groups`]. Waits for readers.
///
/// # Safety
///
/// The files are there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_port_unregister_client_groups(
    device: *mut bindings::ib_device,
    port_num: u32,
    groups: *mut *const bindings::attribute_group,
) {
    // SAFETY: By this function's duty.
    if let Some(port) = port::find(unsafe { Device::from_raw(device) }, port_num) {
        // SAFETY: By this function's duty.
        unsafe { bindings::sysfs_remove_groups(port.as_raw(), groups.cast_const()) };
    }
}
