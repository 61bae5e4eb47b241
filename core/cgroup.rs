// SPDX-License-Identifier: GPL-2.0

//! Limits of the rdma cgroup. Without the controller (`CONFIG_CGROUP_RDMA`) nothing is limited.
//!
//! C header: `include/linux/cgroup_rdma.h`.

#[cfg(CONFIG_CGROUP_RDMA)]
pub(crate) mod abi;

use crate::device::Device;

/// Makes the device known to the cgroup controller. Before it is registered. May sleep.
pub(crate) fn register(device: &Device) {
    #[cfg(CONFIG_CGROUP_RDMA)]
    // SAFETY: The field is the controller's from here to `unregister`; the name is an array of the
    // device's, and stays where it is.
    unsafe {
        let raw = device.as_raw();
        (*raw).cg_device.name = (&raw mut (*raw).name).cast();
        crate::private::rdmacg_register_device((&raw mut (*raw).cg_device).cast());
    }
    #[cfg(not(CONFIG_CGROUP_RDMA))]
    let _ = device;
}

/// The reverse of [`register`]: nobody charges the device any more. May sleep.
pub(crate) fn unregister(device: &Device) {
    #[cfg(CONFIG_CGROUP_RDMA)]
    // SAFETY: It was registered.
    unsafe {
        crate::private::rdmacg_unregister_device((&raw mut (*device.as_raw()).cg_device).cast())
    };
    #[cfg(not(CONFIG_CGROUP_RDMA))]
    let _ = device;
}
