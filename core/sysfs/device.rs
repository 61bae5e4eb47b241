// SPDX-License-Identifier: GPL-2.0

//! Files in the directory of a device.

use super::edge::File;
use crate::device::port;
use crate::device::Device;
use crate::edge::device::FW_VERSION;
use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Lent;
use rdma::provider::unsupported;
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

fn node_type(device: &Device, page: &mut Page<'_>) -> Result {
    let node_type = u32::from(device.node_type());
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
    // Four 16-bit groups in network byte order.
    let [a, b, c, d, e, f, g, h] = raw.to_ne_bytes();
    page.text(fmt!(
        "{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}\n"
    ))
}

fn node_guid(device: &Device, page: &mut Page<'_>) -> Result {
    guid(device.node_guid(), page)
}

fn sys_image_guid(device: &Device, page: &mut Page<'_>) -> Result {
    guid(device.attrs().sys_image_guid(), page)
}

fn fw_ver(device: &Device, page: &mut Page<'_>) -> Result {
    let mut version = [0; FW_VERSION];
    device.driver().get_dev_fw_str(Lent(&mut version));
    page.bytes(until_nul(&version));
    page.bytes(b"\n");
    Ok(())
}

fn node_desc(device: &Device, page: &mut Page<'_>) -> Result {
    let text = device.node_desc();
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
        // CAST: Bytes, whose sign depends on the architecture in C.
        *to = *from as c_char;
    }
    let mask = bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC;
    // CAST: The mask is a single low bit.
    port::modify_device(device, mask as i32, Lent(&mut desc))
}

/// The bytes before the first NUL.
fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(&[])
}
