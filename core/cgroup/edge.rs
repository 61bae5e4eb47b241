// SPDX-License-Identifier: GPL-2.0

//! FFI to the rdma cgroup controller: its fields in devices and in user objects.
//!
//! Must match `include/linux/cgroup_rdma.h`.

use super::Limits;
use crate::device::Device;
use crate::private;
use crate::private::rdmacg_resource_type;
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::Passed;

/// Registers a device with the controller, or unregisters it. May sleep.
pub(super) fn set(device: &Device, on: bool) {
    let mut known = device.slot::<Limits>().known.lock();
    if *known == on {
        return;
    }
    let raw = device.as_raw();
    // SAFETY: The controller owns the field from registration to unregistration; both alternate
    // under the lock. The name is an array in the device, so its address does not change.
    unsafe {
        let device = &raw mut (*raw).cg_device;
        if on {
            bindings::rdma_helper_rdmacg_describe(raw);
            private::rdmacg_register_device(device);
        } else {
            private::rdmacg_unregister_device(device);
        }
    }
    *known = on;
}

/// A device that is registered with the controller. Only C makes one.
struct Limited(*mut bindings::ib_device);

rdma::argument! {
    /// The device is registered; `life` registers it with the controller before that.
    impl Limited = |device: Passed<bindings::ib_device>| Limited(device.into_c());
}

impl IntoC<*mut bindings::rdmacg_device> for Limited {
    fn into_c(self) -> *mut bindings::rdmacg_device {
        self.0
            .wrapping_byte_add(offset_of!(bindings::ib_device, cg_device))
            .cast()
    }
}

/// Field of an object that stores the cgroup charged for it. Only C makes one.
struct ChargeAt(*mut bindings::ib_rdmacg_object);

rdma::argument! {
    /// The field of an object that is not charged. Nobody else accesses it during the call.
    impl ChargeAt = |object: Passed<bindings::ib_rdmacg_object>| ChargeAt(object.into_c());
}

impl IntoC<*mut *mut bindings::rdma_cgroup> for ChargeAt {
    fn into_c(self) -> *mut *mut bindings::rdma_cgroup {
        self.0
            .wrapping_byte_add(offset_of!(bindings::ib_rdmacg_object, cg))
            .cast()
    }
}

/// The cgroup charged for an object. Only C makes one, to uncharge it.
struct Charged(*mut bindings::rdma_cgroup);

rdma::c_struct! {
    /// Charge of an object. Private to this file.
    struct Charge: bindings::ib_rdmacg_object;
    fields {
        /// The charged cgroup. Written by the controller when it charges.
        const cg: Passed<bindings::rdma_cgroup>;
    }
}

rdma::argument! {
    /// The field of a charged object, which is not charged any more after this call. The controller
    /// keeps the cgroup alive until then.
    impl Charged = |charge: &'static Charge| Charged(charge.cg().into_c());
}

impl IntoC<*mut bindings::rdma_cgroup> for Charged {
    fn into_c(self) -> *mut bindings::rdma_cgroup {
        self.0
    }
}

rdma::import! { in crate::private;
    fn try_charge(object: ChargeAt, device: Limited, resource: rdmacg_resource_type) -> Result
        = rdmacg_try_charge;
    fn uncharge(object: Charged, device: Limited, resource: rdmacg_resource_type)
        = rdmacg_uncharge;
}

fn charge(object: ChargeAt, device: Limited, resource: rdmacg_resource_type) -> Result {
    try_charge(object, device, resource)
}

fn give_back(object: Charged, device: Limited, resource: rdmacg_resource_type) {
    uncharge(object, device, resource);
}

rdma::export! { in crate::private;
    /// Charges an object to the caller's cgroup. `EAGAIN` if the limit is reached; `ENOMEM`,
    /// `EINVAL`. May sleep.
    fn ib_rdmacg_try_charge(
        object: ChargeAt, device: Limited, resource: rdmacg_resource_type,
    ) -> Result = charge;
    /// Reverses [`ib_rdmacg_try_charge`]. May sleep.
    fn ib_rdmacg_uncharge(object: Charged, device: Limited, resource: rdmacg_resource_type)
        = give_back;
}
