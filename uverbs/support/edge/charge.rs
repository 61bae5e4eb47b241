// SPDX-License-Identifier: GPL-2.0

//! What the creator of an object is charged in its rdma cgroup: one `HCA_OBJECT` for each numbered
//! handle. Without the controller (`CONFIG_CGROUP_RDMA`) nothing is charged.
//!
//! C header: `drivers/infiniband/core/core_priv.h`.

use kernel::prelude::*;
use rdma::edge::uverbs::Uobject;

#[cfg(CONFIG_CGROUP_RDMA)]
mod controller {
    use kernel::prelude::*;
    use rdma::bindings;
    use rdma::edge::uverbs::CgroupObject;
    use rdma::edge::Passed;

    /// One object of the device.
    pub(super) const OBJECT: u32 = crate::private::rdmacg_resource_type_RDMACG_RESOURCE_HCA_OBJECT;

    rdma::import! {
        in crate::private;

        pub(super) fn charge(object: &CgroupObject, device: Passed<bindings::ib_device>, kind: u32)
            -> Result = ib_rdmacg_try_charge;
        pub(super) fn uncharge(object: &CgroupObject, device: Passed<bindings::ib_device>, kind: u32)
            = ib_rdmacg_uncharge;
    }
}

/// Charges this task for a new handle, which has a context. May sleep.
///
/// # Errors
///
/// `EAGAIN` at the limit, `ENOMEM`.
#[cfg(CONFIG_CGROUP_RDMA)]
pub(crate) fn charge(handle: &Uobject) -> Result {
    let context = handle.context().ok_or(EIO)?;
    controller::charge(handle.cg_obj(), context.device(), controller::OBJECT)
}

/// Reverses [`charge`], once. May sleep.
#[cfg(CONFIG_CGROUP_RDMA)]
pub(crate) fn uncharge(handle: &Uobject) {
    if let Some(context) = handle.context() {
        controller::uncharge(handle.cg_obj(), context.device(), controller::OBJECT);
    }
}

/// Nothing is charged.
///
/// # Errors
///
/// None.
#[cfg(not(CONFIG_CGROUP_RDMA))]
pub(crate) fn charge(_handle: &Uobject) -> Result {
    Ok(())
}

/// Nothing was charged.
#[cfg(not(CONFIG_CGROUP_RDMA))]
pub(crate) fn uncharge(_handle: &Uobject) {}
