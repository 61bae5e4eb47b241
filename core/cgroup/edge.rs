// SPDX-License-Identifier: GPL-2.0

//! The rdma cgroup controller at the edge: what it keeps of a device and of an object of a user.
//!
//! To be held against `include/linux/cgroup_rdma.h`.

use super::Limits;
use crate::device::Device;
use crate::private;
use crate::private::rdmacg_resource_type;
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::Passed;

/// Makes a device known to the controller, or ends that. May sleep.
pub(super) fn set(device: &Device, on: bool) {
    let mut known = device.slot::<Limits>().known.lock();
    if *known == on {
        return;
    }
    let raw = device.as_raw();
    // SAFETY: The field is the controller's from registration to its end, which alternate under the
    // lock. The name is an array of the device's, and stays where it is.
    unsafe {
        let device = &raw mut (*raw).cg_device;
        if on {
            (*device).name = (&raw mut (*raw).name).cast();
            private::rdmacg_register_device(device);
        } else {
            private::rdmacg_unregister_device(device);
        }
    }
    *known = on;
}

/// A device that the controller knows. Only C makes one.
struct Limited(*mut bindings::ib_device);

rdma::argument! {
    /// The device is registered, and `life` makes it known to the controller before.
    impl Limited = |device: Passed<bindings::ib_device>| Limited(device.into_c());
}

impl IntoC<*mut bindings::rdmacg_device> for Limited {
    fn into_c(self) -> *mut bindings::rdmacg_device {
        self.0
            .wrapping_byte_add(offset_of!(bindings::ib_device, cg_device))
            .cast()
    }
}

/// Where it is noted which cgroup is charged for an object. Only C makes one.
struct ChargeAt(*mut bindings::ib_rdmacg_object);

rdma::argument! {
    /// The field of an object that is not charged, nobody else's meanwhile.
    impl ChargeAt = |object: Passed<bindings::ib_rdmacg_object>| ChargeAt(object.into_c());
}

impl IntoC<*mut *mut bindings::rdma_cgroup> for ChargeAt {
    fn into_c(self) -> *mut *mut bindings::rdma_cgroup {
        self.0
            .wrapping_byte_add(offset_of!(bindings::ib_rdmacg_object, cg))
            .cast()
    }
}

/// The cgroup that is charged for an object. Only C makes one, to give it back.
struct Charged(*mut bindings::rdma_cgroup);

rdma::c_struct! {
    /// What is noted of an object that is charged. Private to this file.
    struct Charge: bindings::ib_rdmacg_object;
    fields {
        /// The cgroup. The controller writes it when it charges.
        const cg: Passed<bindings::rdma_cgroup>;
    }
}

rdma::argument! {
    /// The field of an object that is charged, and is not any more after this. The controller keeps
    /// the cgroup until it is given back.
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
    /// Counts an object against the limit of the caller's cgroup: `EAGAIN` if that is reached;
    /// `ENOMEM`, `EINVAL`. May sleep.
    fn ib_rdmacg_try_charge(
        object: ChargeAt, device: Limited, resource: rdmacg_resource_type,
    ) -> Result = charge;
    /// The reverse of [`ib_rdmacg_try_charge`]. May sleep.
    fn ib_rdmacg_uncharge(object: Charged, device: Limited, resource: rdmacg_resource_type)
        = give_back;
}
