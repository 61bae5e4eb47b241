// SPDX-License-Identifier: GPL-2.0

//! Sub-devices, which `rdma dev add NAME type SMI parent PARENT` creates.
//!
//! A sub-device takes over one function of its parent that a single device could not provide: if
//! ports have several planes, the subnet management of each plane. The core ties it to its parent,
//! and deletes it by `rdma dev del` or when the parent is unregistered.
//!
//! ```text
//!   core: add_sub_dev --> Provider::add_sub_device --> Registration, then owned by the core
//!   core: del_sub_dev --> unregistered and freed, its data dropped
//! ```
//!
//! C header: `include/rdma/ib_verbs.h` (`add_sub_dev`, `del_sub_dev`).

use super::adapter::Adapter;
use super::device::Device;
use super::device::Unregistered;
use super::unsupported;
use super::Provider;
use crate::bindings;
use crate::edge::device::Device as Fields;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::str::CStrExt;

/// Type of a sub-device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SubDevice {
    /// Subnet management.
    Smi = bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI,
}

impl<P: Provider> Unregistered<P> {
    /// Makes the device a sub-device, for [`Provider::add_sub_device`].
    pub fn set_sub_device(&mut self, kind: SubDevice) {
        // CAST: The enum is `repr(u32)` with the C numbers.
        Fields::set_dev_type(self, kind as u32);
    }
}

#[expect(
    clippy::missing_safety_doc,
    reason = "the header of the adapter has the contract of callbacks"
)]
impl<P: Provider> Adapter<P> {
    pub(super) unsafe extern "C" fn add_sub_dev(
        parent: *mut bindings::ib_device,
        kind: bindings::rdma_nl_dev_type,
        name: *const c_char,
    ) -> *mut bindings::ib_device {
        // SAFETY: (device), and the name is a string that is valid for the call.
        let (parent, name) = unsafe { (Device::<P>::from_raw(parent), CStr::from_char_ptr(name)) };
        let kind = match kind {
            bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI => SubDevice::Smi,
            _ => return unsupported().to_ptr(),
        };
        match P::add_sub_device(parent, kind, name) {
            // The core deletes it by `del_sub_dev`, so no reference is kept.
            Ok(new) => new.release().as_raw(),
            Err(e) => e.to_ptr(),
        }
    }

    pub(super) unsafe extern "C" fn del_sub_dev(sub: *mut bindings::ib_device) {
        // SAFETY: The device was created by `add_sub_dev`, and is deleted once; it exists until the
        // function frees it.
        unsafe { bindings::ib_unregister_device(sub) };
    }
}
