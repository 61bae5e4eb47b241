// SPDX-License-Identifier: GPL-2.0

//! Devices, ports and system settings: `rdma dev`, `rdma link show`, `rdma system`.

use core::ffi::CStr;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::features::NAMES_PER_NETNS;

use super::edge;
use super::link::NAME_LEN;
use super::lookup;
use super::request::Answer;
use super::request::Attributes;
use super::request::Dump;
use super::request::Request;
use super::request::Text;
use crate::device;
use crate::device::Device;
use crate::device::DeviceName;
use crate::device::Registered;
use crate::proto::names::Naming;
use crate::proto::netns::Mode;
use crate::proto::nla::Strictness;
use crate::proto::nldev::dev::Dev;
use crate::proto::nldev::dev::Handle;
use crate::proto::nldev::dev::IbPort;
use crate::proto::nldev::dev::Port;
use crate::proto::nldev::dev::PortNdev;
use crate::proto::nldev::dev::Protocol;
use crate::proto::nldev::dev::Sys;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;

/// Snapshot of index and name of a device.
pub(super) struct Who {
    index: u32,
    name: DeviceName,
}

impl Who {
    pub(super) fn of(device: &Device) -> Self {
        Self {
            index: device.index(),
            name: device.name(),
        }
    }

    pub(super) fn handle(&self) -> Handle<'_> {
        Handle {
            index: self.index,
            name: self.name.as_bytes(),
        }
    }
}

/// Returns the port number of a request.
///
/// # Errors
///
/// `EINVAL` if the attribute is missing, or if the device has no such port.
pub(super) fn port(attrs: &Attributes<'_>, device: &Device) -> Result<u32> {
    let port = attrs.u32(Attr::PortIndex).ok_or(EINVAL)?;
    device.has_port(port).then_some(port).ok_or(EINVAL)
}

/// Returns the protocol of a port.
fn protocol(device: &Device, port: u32) -> Option<Protocol> {
    let caps = lookup::core_caps(device, port);
    let any = |mask: u32| caps & mask != 0;
    if any(bindings::RDMA_CORE_CAP_OPA_MAD) {
        Some(Protocol::Opa)
    } else if any(bindings::RDMA_CORE_CAP_PROT_IB) {
        Some(Protocol::Ib)
    } else if any(bindings::RDMA_CORE_CAP_PROT_IWARP) {
        Some(Protocol::Iwarp)
    } else if any(bindings::RDMA_CORE_CAP_PROT_ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP) {
        Some(Protocol::Roce)
    } else if any(bindings::RDMA_CORE_CAP_PROT_USNIC) {
        Some(Protocol::Usnic)
    } else {
        None
    }
}

fn put_device(w: &mut Answer<'_>, device: &Device) -> Result {
    let who = Who::of(device);
    let firmware = edge::firmware(device);
    let parent = device.fields().parent().map(Device::name);
    let dev = Dev {
        handle: who.handle(),
        ports: *device.ports().end(),
        cap_flags: device.attrs().device_cap_flags(),
        fw_version: CStr::from_bytes_until_nul(&firmware)
            .unwrap_or_default()
            .to_bytes(),
        node_guid: u64::from_be(device.node_guid()),
        sys_image_guid: u64::from_be(device.attrs().sys_image_guid()),
        node_type: device.node_type(),
        dim: device.use_cq_dim(),
        // CAST: Both enums have few values.
        dev_type: device.dev_type() as u8,
        parent: parent.as_ref().map(DeviceName::as_bytes),
        name_assign_type: device.name_assign_type() as u8,
        protocol: protocol(device, *device.ports().start()),
    };
    Ok(dev.put(w)?)
}

fn put_port(request: &Request<'_>, w: &mut Answer<'_>, device: &Device, port: u32) -> Result {
    let attr = device.query_port(port)?;
    let who = Who::of(device);
    let netdev = device
        .netdev(port)
        .filter(|netdev| netdev.is_in(request.net()));
    let name = netdev.as_ref().map(|netdev| netdev.name());
    let is_ib = lookup::core_caps(device, port) & bindings::RDMA_CORE_CAP_PROT_IB != 0;
    let ib = is_ib.then(|| IbPort {
        cap_flags: u64::from(attr.port_cap_flags) | u64::from(attr.port_cap_flags2) << 32,
        subnet_prefix: attr.subnet_prefix,
        lid: attr.lid,
        sm_lid: attr.sm_lid,
        lmc: attr.lmc,
    });
    let port = Port {
        handle: who.handle(),
        port,
        ib,
        // CAST: There are only a few states.
        state: attr.state as u8,
        phys_state: attr.phys_state,
        ndev: netdev
            .as_ref()
            .zip(name.as_ref())
            .map(|(netdev, name)| PortNdev {
                index: netdev.ifindex(),
                name: name.as_bytes(),
            }),
    };
    Ok(port.put(w)?)
}

/// `RDMA_NLDEV_CMD_GET`.
pub(super) fn get(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Liberal)?;
    let device = request.device(&attrs)?;
    request.answer(Command::Get, |w| put_device(w, &device))
}

/// Dump of `RDMA_NLDEV_CMD_GET`: all devices that the sender may see.
pub(super) fn list(dump: &mut Dump<'_>) -> Result {
    dump.each(Command::Get, lookup::next_seen, |_, w, device| {
        put_device(w, device)
    });
    Ok(())
}

/// `RDMA_NLDEV_CMD_PORT_GET`. For compatibility the response carries `RDMA_NLDEV_CMD_GET`.
pub(super) fn port_get(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Liberal)?;
    if !attrs.has(Attr::PortIndex) {
        return Err(EINVAL);
    }
    let device = request.device(&attrs)?;
    let port = port(&attrs, &device)?;
    request.answer(Command::Get, |w| put_port(request, w, &device, port))
}

/// Dump of `RDMA_NLDEV_CMD_PORT_GET`: all ports of a device.
pub(super) fn port_list(dump: &mut Dump<'_>) -> Result {
    let attrs = dump.request.attributes(Strictness::Liberal)?;
    let device = dump.request.device(&attrs)?;
    let next = |_: &Request<'_>, from: u32| {
        let port = from.max(*device.ports().start());
        device.has_port(port).then_some((port, port))
    };
    dump.each(Command::PortGet, next, |request, w, port| {
        put_port(request, w, &device, *port)
    });
    Ok(())
}

/// Moves a device to another network namespace, where it may get another name.
fn relocate(request: &Request<'_>, device: Registered, fd: u32, naming: Naming<'_>) -> Result {
    let message = request.message();
    let moved = device::netns::move_to(device, fd, naming, |net| {
        message.is_capable_in(net, bindings::CAP_NET_ADMIN)
    });
    moved.map_err(|refused| {
        if let Some(complaint) = refused.complaint.filter(|_| NAMES_PER_NETNS) {
            request.explain(complaint.words());
        }
        refused.error
    })
}

/// `RDMA_NLDEV_CMD_SET`: sets one of the name, network namespace and CQ moderation of a device. With
/// [`NAMES_PER_NETNS`] also name and namespace; without, the name goes first.
pub(super) fn set(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = request.device(&attrs)?;
    let name = Text::<NAME_LEN>::of(&attrs, Attr::DevName);
    let name = name.as_ref().map(Text::as_bytes);
    if name.is_some_and(<[u8]>::is_empty) {
        return Err(EINVAL);
    }
    match (name, attrs.u32(Attr::NetNsFd)) {
        (Some(name), Some(fd)) if NAMES_PER_NETNS => {
            return relocate(request, device, fd, Naming::Given(name));
        }
        (Some(name), _) => return device::rename(&device, name),
        (None, Some(fd)) => return relocate(request, device, fd, Naming::Kept),
        (None, None) => {}
    }
    if let Some(dim) = attrs.u8(Attr::DevDim) {
        if dim > 1 {
            return Err(EINVAL);
        }
        device.set_dim(dim != 0);
        return Ok(());
    }
    Ok(())
}

/// `RDMA_NLDEV_CMD_NEWDEV`: adds a subdevice.
pub(super) fn new_sub(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let name = Text::<{ rdma::net::DeviceName::LEN }>::of(&attrs, Attr::DevName).ok_or(EINVAL)?;
    let kind = attrs.u8(Attr::DevType).ok_or(EINVAL)?;
    let parent = request.device(&attrs)?;
    device::sub::add(&parent, kind.into(), name.as_cstr())
}

/// `RDMA_NLDEV_CMD_DELDEV`: deletes a subdevice.
pub(super) fn delete_sub(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    device::sub::remove(request.device(&attrs)?)
}

/// Whether unprivileged users may set privileged Q_Keys (`rdma system set privileged-qkey`).
static PRIVILEGED_QKEY: Atomic<i32> = Atomic::new(0);

fn privileged_qkey() -> bool {
    PRIVILEGED_QKEY.load(Relaxed) != 0
}

/// `RDMA_NLDEV_CMD_SYS_GET`.
pub(super) fn sys_get(request: &Request<'_>) -> Result {
    let _request = request.parse(request.body(), Strictness::Liberal)?;
    let sys = Sys {
        netns_mode: device::netns::mode(),
        privileged_qkey: privileged_qkey(),
    };
    request.answer(Command::SysGet, |w| Ok(sys.put(w)?))
}

/// `RDMA_NLDEV_CMD_SYS_SET`: changes one setting.
pub(super) fn sys_set(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    if let Some(mode) = attrs.u8(Attr::SysNetnsMode) {
        let mode = Mode::from_raw(mode).map_err(|_| EINVAL)?;
        return device::netns::set_mode(mode);
    }
    match attrs.u8(Attr::SysPrivilegedQkeyMode) {
        Some(on @ (0 | 1)) => {
            PRIVILEGED_QKEY.store(on.into(), Relaxed);
            Ok(())
        }
        _ => Err(EINVAL),
    }
}

rdma::export! {
    in crate::private;

    /// See [`privileged_qkey`].
    fn rdma_nl_get_privileged_qkey() -> bool = privileged_qkey;
}
