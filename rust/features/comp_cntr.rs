// SPDX-License-Identifier: GPL-2.0

//! Completion counters (`struct ib_comp_cntr`): what a driver has for them, and what a queue pair has
//! of them. On kernels that have none, the types stand in, and nobody has anything.
//!
//! Stateless. C header: `include/rdma/ib_verbs.h`.

#![allow(
    clippy::needless_return,
    reason = "of two statements one is compiled, and either may be the last"
)]

use crate::bindings;
use crate::edge::device::Device;
use kernel::ffi::c_int;

#[cfg(rdma_has_comp_cntr)]
mod c {
    pub use crate::bindings::ib_comp_cntr;
    pub use crate::bindings::ib_comp_cntr_caps;
    pub use crate::bindings::ib_qp_attach_comp_cntr_attr;
}

#[cfg(not(rdma_has_comp_cntr))]
mod c {
    /// A structure with the same fields `device`, `uobject`, `usecnt` and `res`.
    pub use crate::bindings::ib_dmah as ib_comp_cntr;

    /// Limits of a device.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    #[allow(non_camel_case_types, reason = "the name in C")]
    pub struct ib_comp_cntr_caps {
        /// The highest value of a counter.
        pub max_value: u64,
        /// Maximum number of counters.
        pub max_counters: u32,
        /// Operations that can be counted.
        pub supported_qp_attach_ops: u32,
    }

    /// How a counter is attached to a queue pair.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    #[allow(non_camel_case_types, reason = "the name in C")]
    pub struct ib_qp_attach_comp_cntr_attr {
        /// Operations that are counted.
        pub op_mask: u32,
    }
}

pub use c::ib_comp_cntr;
pub use c::ib_comp_cntr_caps;
pub use c::ib_qp_attach_comp_cntr_attr;

/// Their kind as tracked objects.
#[cfg(rdma_has_comp_cntr)]
pub const KIND: bindings::rdma_restrack_type = bindings::rdma_restrack_type_RDMA_RESTRACK_COMP_CNTR;
/// Their kind as tracked objects; where there is none, it is beyond the last kind.
#[cfg(not(rdma_has_comp_cntr))]
pub const KIND: bindings::rdma_restrack_type = bindings::rdma_restrack_type_RDMA_RESTRACK_MAX;

/// The methods of a driver for completion counters, those that it has.
#[derive(Clone, Copy, Default)]
pub struct Methods {
    /// Size of the driver's counters.
    pub size: usize,
    /// Makes a counter.
    pub create:
        Option<unsafe extern "C" fn(*mut ib_comp_cntr, *mut bindings::uverbs_attr_bundle) -> c_int>,
    /// Destroys a counter.
    pub destroy: Option<unsafe extern "C" fn(*mut ib_comp_cntr) -> c_int>,
    /// Changes the value of an entry (`enum ib_comp_cntr_entry`, `enum ib_comp_cntr_modify_op`).
    pub modify: Option<unsafe extern "C" fn(*mut ib_comp_cntr, u32, u32, u64) -> c_int>,
    /// Reads the value of an entry.
    pub read: Option<unsafe extern "C" fn(*mut ib_comp_cntr, u32, *mut u64) -> c_int>,
    /// Tells the limits. The attributes of the call are null if the kernel asks for itself.
    pub query_caps: Option<
        unsafe extern "C" fn(
            *mut bindings::ib_device,
            *mut ib_comp_cntr_caps,
            *mut bindings::uverbs_attr_bundle,
        ) -> c_int,
    >,
    /// Attaches a counter to a queue pair.
    pub attach: Option<
        unsafe extern "C" fn(
            *mut bindings::ib_qp,
            *mut ib_comp_cntr,
            *mut ib_qp_attach_comp_cntr_attr,
        ) -> c_int,
    >,
}

/// Place of the method `destroy_comp_cntr` in `struct ib_device_ops`.
#[cfg(rdma_has_comp_cntr)]
pub const DESTROY_AT: Option<usize> = Some(core::mem::offset_of!(
    bindings::ib_device_ops,
    destroy_comp_cntr
));
/// Place of the method `destroy_comp_cntr` in `struct ib_device_ops`.
#[cfg(not(rdma_has_comp_cntr))]
pub const DESTROY_AT: Option<usize> = None;

/// Returns the methods of a device's driver. Any context.
pub fn methods(device: &Device) -> Methods {
    #[cfg(rdma_has_comp_cntr)]
    {
        let ops = device.ops();
        return Methods {
            size: ops.size_ib_comp_cntr,
            create: ops.create_comp_cntr,
            destroy: ops.destroy_comp_cntr,
            modify: ops.modify_comp_cntr,
            read: ops.read_comp_cntr,
            query_caps: ops.query_comp_cntr_caps,
            attach: ops.qp_attach_comp_cntr,
        };
    }
    #[cfg(not(rdma_has_comp_cntr))]
    {
        let _: &Device = device;
        return Methods::default();
    }
}

/// Returns how many completion counters a device has at most; 0 if it has none. Calls the driver, whose
/// errors are ignored as in C; may sleep.
pub fn max_counters(device: &Device) -> u32 {
    use crate::edge::View;
    let Some(query) = methods(device).query_caps else {
        return 0;
    };
    let mut caps = ib_comp_cntr_caps::default();
    // SAFETY: The method belongs to the driver of the device and writes to `caps` only. The kernel
    // asks without attributes of a call of a program.
    let _: c_int = unsafe { query(device.raw(), &mut caps, core::ptr::null_mut()) };
    caps.max_counters
}

/// The fields of a queue pair for its counters: a table of them by the operations that each counts,
/// and all these operations. `None` if the kernel has none.
///
/// # Safety
///
/// The queue pair exists.
pub unsafe fn of_qp(qp: *mut bindings::ib_qp) -> Option<(*mut bindings::xarray, *mut u32)> {
    #[cfg(rdma_has_comp_cntr)]
    // SAFETY: The queue pair exists: this function's contract.
    return Some(unsafe { (&raw mut (*qp).comp_cntrs, &raw mut (*qp).comp_cntr_op_mask) });
    #[cfg(not(rdma_has_comp_cntr))]
    {
        let _: *mut bindings::ib_qp = qp;
        return None;
    }
}
