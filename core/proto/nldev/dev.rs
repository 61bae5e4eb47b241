// SPDX-License-Identifier: GPL-2.0

//! Responses about devices, ports and the whole system.

use super::super::netns::Mode;
use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::Attr;

/// Identifies the device: every response starts with it.
#[derive(Clone, Copy, Debug)]
pub struct Handle<'a> {
    /// Index of the device.
    pub index: u32,
    /// Name of the device.
    pub name: &'a [u8],
}

impl Handle<'_> {
    /// Writes the attributes.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::DevIndex.raw(), self.index)?;
        w.put_str(Attr::DevName.raw(), self.name)
    }
}

/// Protocol of the first port of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Omni-Path.
    Opa,
    /// InfiniBand.
    Ib,
    /// iWARP.
    Iwarp,
    /// RDMA over Converged Ethernet.
    Roce,
    /// Cisco's usNIC.
    Usnic,
}

impl Protocol {
    /// Name of the protocol, as user space sees it.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Opa => b"opa",
            Self::Ib => b"ib",
            Self::Iwarp => b"iw",
            Self::Roce => b"roce",
            Self::Usnic => b"usnic",
        }
    }
}

/// A device: `RDMA_NLDEV_CMD_GET`.
#[derive(Clone, Copy, Debug)]
pub struct Dev<'a> {
    /// The device.
    pub handle: Handle<'a>,
    /// Number of the last port.
    pub ports: u32,
    /// Device capability flags.
    pub cap_flags: u64,
    /// Firmware version; empty if there is none.
    pub fw_version: &'a [u8],
    /// Node GUID, in host byte order.
    pub node_guid: u64,
    /// System image GUID, in host byte order.
    pub sys_image_guid: u64,
    /// `enum rdma_nl_node_type`.
    pub node_type: u8,
    /// Whether adaptive moderation of completion queues is on.
    pub dim: bool,
    /// `enum rdma_nl_dev_type`; 0 for most.
    pub dev_type: u8,
    /// Name of the parent device, if it was created under one.
    pub parent: Option<&'a [u8]>,
    /// `enum rdma_nl_name_assign_type`.
    pub name_assign_type: u8,
    /// `None` if the protocol of the first port has no name.
    pub protocol: Option<Protocol>,
}

impl Dev<'_> {
    /// Writes the response.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        self.handle.put(w)?;
        w.put_u32(Attr::PortIndex.raw(), self.ports)?;
        w.put_u64(Attr::CapFlags.raw(), self.cap_flags, PAD)?;
        if !self.fw_version.is_empty() {
            w.put_str(Attr::FwVersion.raw(), self.fw_version)?;
        }
        w.put_u64(Attr::NodeGuid.raw(), self.node_guid, PAD)?;
        w.put_u64(Attr::SysImageGuid.raw(), self.sys_image_guid, PAD)?;
        w.put_u8(Attr::DevNodeType.raw(), self.node_type)?;
        w.put_u8(Attr::DevDim.raw(), u8::from(self.dim))?;
        if self.dev_type != 0 {
            w.put_u8(Attr::DevType.raw(), self.dev_type)?;
        }
        if let Some(parent) = self.parent {
            w.put_str(Attr::ParentName.raw(), parent)?;
        }
        w.put_u8(Attr::NameAssignType.raw(), self.name_assign_type)?;
        match self.protocol {
            Some(protocol) => w.put_str(Attr::DevProtocol.raw(), protocol.name()),
            None => Ok(()),
        }
    }
}

/// Attributes that only ports with an InfiniBand link layer have.
#[derive(Clone, Copy, Debug)]
pub struct IbPort {
    /// Capability mask: the first word in the lower half, the second in the upper.
    pub cap_flags: u64,
    /// Subnet prefix: upper half of the port's GIDs.
    pub subnet_prefix: u64,
    /// Local identifier of the port.
    pub lid: u32,
    /// Local identifier of the subnet manager.
    pub sm_lid: u32,
    /// LID mask control: number of low LID bits that select a path.
    pub lmc: u8,
}

/// A network device.
#[derive(Clone, Copy, Debug)]
pub struct PortNdev<'a> {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: &'a [u8],
}

/// A port: `RDMA_NLDEV_CMD_PORT_GET`.
#[derive(Clone, Copy, Debug)]
pub struct Port<'a> {
    /// Device of the port.
    pub handle: Handle<'a>,
    /// Port number.
    pub port: u32,
    /// Set for InfiniBand links.
    pub ib: Option<IbPort>,
    /// `enum ib_port_state`.
    pub state: u8,
    /// `enum ib_port_phys_state`.
    pub phys_state: u8,
    /// Network device of the port, if it is in the reader's namespace.
    pub ndev: Option<PortNdev<'a>>,
}

impl Port<'_> {
    /// Writes the response.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        self.handle.put(w)?;
        w.put_u32(Attr::PortIndex.raw(), self.port)?;
        if let Some(ib) = &self.ib {
            w.put_u64(Attr::CapFlags.raw(), ib.cap_flags, PAD)?;
            w.put_u64(Attr::SubnetPrefix.raw(), ib.subnet_prefix, PAD)?;
            w.put_u32(Attr::Lid.raw(), ib.lid)?;
            w.put_u32(Attr::SmLid.raw(), ib.sm_lid)?;
            w.put_u8(Attr::Lmc.raw(), ib.lmc)?;
        }
        w.put_u8(Attr::PortState.raw(), self.state)?;
        w.put_u8(Attr::PortPhysState.raw(), self.phys_state)?;
        if let Some(ndev) = &self.ndev {
            w.put_u32(Attr::NdevIndex.raw(), ndev.index)?;
            w.put_str(Attr::NdevName.raw(), ndev.name)?;
        }
        Ok(())
    }
}

/// The whole system: `RDMA_NLDEV_CMD_SYS_GET`.
#[derive(Clone, Copy, Debug)]
pub struct Sys {
    /// How devices are shared between network namespaces.
    pub netns_mode: Mode,
    /// Whether unprivileged users may set privileged Q_Keys.
    pub privileged_qkey: bool,
}

impl Sys {
    /// Writes the response. Copy on fork and event monitoring are always reported as supported.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u8(Attr::SysNetnsMode.raw(), self.netns_mode.raw())?;
        w.put_u8(
            Attr::SysPrivilegedQkeyMode.raw(),
            u8::from(self.privileged_qkey),
        )?;
        w.put_u8(Attr::SysMonitorMode.raw(), 1)?;
        w.put_u8(Attr::SysCopyOnFork.raw(), 1)
    }
}
