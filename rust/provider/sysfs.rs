// SPDX-License-Identifier: GPL-2.0

//! The sysfs attribute `parent` of a device: the name of the network device below it.
//!
//! The attribute and its group are constants of the driver, which the core and sysfs only read.
//! Unregistering removes the file and waits for readers, so the device's data is not accessed after
//! it was dropped.
//!
//! C headers: `include/linux/device.h`, `include/rdma/ib_verbs.h` (`device_group`).

use super::device::Device;
use super::Provider;
use crate::bindings;
use core::marker::PhantomData;
use core::ptr;
use kernel::ffi::c_char;

/// The attribute `parent` of devices of the driver `P`.
pub(super) struct Parent<P>(PhantomData<P>);

impl<P: Provider> Parent<P> {
    const ATTRIBUTE: &'static bindings::device_attribute = &{
        // SAFETY: A C structure of integers and pointers; in a zeroed one nothing is set.
        let mut attribute: bindings::device_attribute = unsafe { core::mem::zeroed() };
        attribute.attr.name = c"parent".to_bytes_with_nul().as_ptr();
        attribute.attr.mode = 0o444;
        attribute.__bindgen_anon_1.show = Some(Self::show);
        attribute
    };

    const ATTRIBUTES: &'static [*mut bindings::attribute; 2] = &[
        (&raw const Self::ATTRIBUTE.attr).cast_mut(),
        ptr::null_mut(),
    ];

    /// The group for `ib_device_ops::device_group`.
    pub(super) const GROUP: &'static bindings::attribute_group = &{
        // SAFETY: A C structure of integers and pointers; in a zeroed one nothing is set.
        let mut group: bindings::attribute_group = unsafe { core::mem::zeroed() };
        group.__bindgen_anon_2.attrs = Self::ATTRIBUTES.as_ptr().cast_mut();
        group
    };

    /// # Safety
    ///
    /// Only for C, as `show` of the attribute.
    unsafe extern "C" fn show(
        dev: *mut bindings::device,
        _: *mut bindings::device_attribute,
        out: *mut c_char,
    ) -> isize {
        // SAFETY: The attribute belongs to verbs devices, whose `struct device` is the start of a
        // `struct ib_core_device`, which has a pointer to the verbs device as long as it exists.
        let owner = unsafe { (*dev.cast::<bindings::ib_core_device>()).owner };
        // SAFETY: It is a device of this driver, and registered as long as the file exists.
        let name = match P::parent(unsafe { Device::from_raw(owner) }) {
            Ok(name) => name,
            // CAST: A small negative number.
            Err(e) => return e.to_errno() as isize,
        };
        let mut len = 0;
        for byte in name.as_bytes().iter().chain(b"\n") {
            // SAFETY: The buffer is a page; name and newline have at most 16 bytes.
            unsafe { out.add(len).cast::<u8>().write(*byte) };
            len = len.wrapping_add(1);
        }
        // CAST: At most 16.
        len as isize
    }
}
