// SPDX-License-Identifier: GPL-2.0

//! The files of a device itself.

use crate::device::Device;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;
use rdma::provider::unsupported;
use rdma::sysfs::constant;
use rdma::sysfs::Attribute;
use rdma::sysfs::Input;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

/// The files of every device, and of its copies.
pub(super) static GROUP: StaticGroup<File> = StaticGroup::new(None, &FILES);

static FILES: [Option<&File>; 6] = [
    Some(&File::read_only(c"node_type", node_type)),
    Some(&File::read_only(c"node_guid", node_guid)),
    Some(&File::read_only(c"sys_image_guid", sys_image_guid)),
    Some(&File::read_only(c"fw_ver", fw_ver)),
    Some(&File::new(c"node_desc", node_desc, set_node_desc)),
    None,
];

/// A file of a device.
#[repr(C)]
pub(super) struct File {
    raw: bindings::device_attribute,
    show: fn(&Device, &mut Page<'_>) -> Result,
    store: fn(&Device, Input<'_>) -> Result,
}

// SAFETY: It points to constants only.
unsafe impl Send for File {}
// SAFETY: As above.
unsafe impl Sync for File {}

// SAFETY: A `struct device_attribute` begins with an attribute.
unsafe impl Attribute for File {}

impl File {
    const fn new(
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

    const fn read_only(name: &'static CStr, show: fn(&Device, &mut Page<'_>) -> Result) -> Self {
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
    // SAFETY: As in `show_file`.
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
    // SAFETY: By this function's duty; the owner outlives its copies.
    unsafe { Device::from_raw((*dev.cast::<bindings::ib_core_device>()).owner) }
}

fn node_type(device: &Device, page: &mut Page<'_>) -> Result {
    // SAFETY: Set before the device was registered.
    let node_type = u32::from(unsafe { (*device.as_raw()).node_type });
    let name = match node_type {
        bindings::RDMA_NODE_IB_CA => "CA",
        bindings::RDMA_NODE_IB_SWITCH => "switch",
        bindings::RDMA_NODE_IB_ROUTER => "router",
        bindings::RDMA_NODE_RNIC => "RNIC",
        bindings::RDMA_NODE_USNIC => "usNIC",
        bindings::RDMA_NODE_USNIC_UDP => "usNIC UDP",
        bindings::RDMA_NODE_UNSPECIFIED => "unspecified",
        _ => "<unknown>",
    };
    page.text(fmt!("{node_type}: {name}\n"))
}

fn guid(raw: bindings::__be64, page: &mut Page<'_>) -> Result {
    // Four numbers of 16 bits, as they are on the wire.
    let [a, b, c, d, e, f, g, h] = raw.to_ne_bytes();
    page.text(fmt!(
        "{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}\n"
    ))
}

fn node_guid(device: &Device, page: &mut Page<'_>) -> Result {
    // SAFETY: Set before the device was registered.
    guid(unsafe { (*device.as_raw()).node_guid }, page)
}

fn sys_image_guid(device: &Device, page: &mut Page<'_>) -> Result {
    // SAFETY: As above.
    guid(unsafe { (*device.as_raw()).attrs.sys_image_guid }, page)
}

fn fw_ver(device: &Device, page: &mut Page<'_>) -> Result {
    // Whatever the driver writes, a NUL follows.
    let mut version = [0u8; bindings::IB_FW_VERSION_NAME_MAX as usize + 1];
    // SAFETY: The array has the room that drivers are promised.
    unsafe { bindings::ib_get_device_fw_str(device.as_raw(), version.as_mut_ptr().cast()) };
    page.bytes(until_nul(&version));
    page.bytes(b"\n");
    Ok(())
}

fn node_desc(device: &Device, page: &mut Page<'_>) -> Result {
    // SAFETY: The field is as long as that. A driver may change it meanwhile, as it may while C
    // looks: bytes, each of them old or new.
    let text: [u8; 64] = unsafe {
        (&raw const (*device.as_raw()).node_desc)
            .cast::<[u8; 64]>()
            .read_volatile()
    };
    page.bytes(until_nul(&text));
    page.bytes(b"\n");
    Ok(())
}

fn set_node_desc(device: &Device, input: Input<'_>) -> Result {
    if device.ops().modify_device.is_none() {
        return Err(unsupported());
    }
    let mut desc = bindings::ib_device_modify {
        sys_image_guid: 0,
        node_desc: [0; 64],
    };
    for (to, from) in desc.node_desc.iter_mut().zip(input.bytes()) {
        // CAST: bytes, whatever sign C gives them.
        *to = *from as c_char;
    }
    let mask = bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC;
    // SAFETY: The device is there while its file is written.
    to_result(unsafe { bindings::ib_modify_device(device.as_raw(), mask as i32, &mut desc) })
}

/// The bytes before the first NUL.
fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}
