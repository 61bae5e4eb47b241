// SPDX-License-Identifier: GPL-2.0

//! Files of the driver model's devices at the edge (`struct device_attribute`).
//!
//! sysfs calls `show` and `store` with the device that the file is of and the attribute that
//! describes it, and waits for them before the file is gone.

use crate::device::Device;
use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;
use rdma::sysfs::constant;
use rdma::sysfs::Attribute;
use rdma::sysfs::Input;
use rdma::sysfs::Page;

/// A file of a device.
#[repr(C)]
pub(super) struct File {
    raw: bindings::device_attribute,
    show: fn(&Device, &mut Page<'_>) -> Result,
    store: fn(&Device, Input<'_>) -> Result,
}

// SAFETY: It points to constants only.
unsafe impl Send for File {}
// SAFETY: It points to constants only.
unsafe impl Sync for File {}

// SAFETY: A `struct device_attribute` begins with an attribute.
unsafe impl Attribute for File {}

impl File {
    pub(super) const fn new(
        name: &'static CStr,
        show: fn(&Device, &mut Page<'_>) -> Result,
        store: fn(&Device, Input<'_>) -> Result,
    ) -> Self {
        // SAFETY: Of a C structure of integers and pointers.
        let mut raw: bindings::device_attribute = unsafe { core::mem::zeroed() };
        raw.attr = constant(name, 0o644);
        raw.__bindgen_anon_1.show = Some(show_file);
        raw.__bindgen_anon_2.store = Some(store_file);
        Self { raw, show, store }
    }

    pub(super) const fn read_only(
        name: &'static CStr,
        show: fn(&Device, &mut Page<'_>) -> Result,
    ) -> Self {
        let mut file = Self::new(name, show, |_, _| Err(EIO));
        file.raw.attr.mode = 0o444;
        file.raw.__bindgen_anon_2.store = None;
        file
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`].
unsafe extern "C" fn show_file(
    dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The attribute is that of a `File`; the page is sysfs's.
    unsafe {
        let file = &*attribute.cast::<File>();
        Page::fill(page, |page| (file.show)(owner(dev), page))
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`].
unsafe extern "C" fn store_file(
    dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    data: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The attribute is that of a `File`; data and length are sysfs's.
    unsafe {
        let file = &*attribute.cast::<File>();
        Input::take(data, count, |input| (file.store)(owner(dev), input))
    }
}

/// The device of a `struct device` of our class, that of a copy among them.
///
/// # Safety
///
/// `dev` begins a `struct ib_core_device` that lives for `'a`.
pub(crate) unsafe fn owner<'a>(dev: *mut bindings::device) -> &'a Device {
    // SAFETY: This function's contract. The device outlives its copies, so the owner of a copy
    // that lives for `'a` does.
    unsafe { Device::from_raw((*dev.cast::<bindings::ib_core_device>()).owner) }
}
