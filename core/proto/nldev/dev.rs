// SPDX-License-Identifier: GPL-2.0

//! Answers about devices, ports and the whole system.

use super::super::netns::Mode;
use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::Attr;

/// Which device: every answer begins with it.
#[derive(Clone, Copy, Debug)]
pub struct Handle<'a> {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: &'a [u8],
}

impl Handle<'_> {
    /// Writes it.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::DevIndex.raw(), self.index)?;
        w.put_str(Attr::DevName.raw(), self.name)
    }
}

/// What the first port of a device speaks.
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
    /// Its name.
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
    /// Which one.
    pub handle: Handle<'a>,
    /// The number of its last port.
    pub ports: u32,
    /// What it can do.
    pub cap_flags: u64,
    /// Version of its firmware; empty if it has none.
    pub fw_version: &'a [u8],
    /// Its identifier, as a number.
    pub node_guid: u64,
    /// Its system's identifier, as a number.
    pub sys_image_guid: u64,
    /// `enum rdma_nl_node_type`.
    pub node_type: u8,
    /// Whether its completion queues adapt their moderation.
    pub dim: bool,
    /// `enum rdma_nl_dev_type`; 0 for most.
    pub dev_type: u8,
    /// The device it was made under.
    pub parent: Option<&'a [u8]>,
    /// `enum rdma_nl_name_assign_type`.
    pub name_assign_type: u8,
    /// None if the first port speaks nothing that has a name.
    pub protocol: Option<Protocol>,
}

impl Dev<'_> {
    /// Writes it.
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

/// What only a port of an InfiniBand link has.
#[derive(Clone, Copy, Debug)]
pub struct IbPort {
    /// What it can do: the first word below, the second above.
    pub cap_flags: u64,
    /// Upper half of its GIDs.
    pub subnet_prefix: u64,
    /// Its address.
    pub lid: u32,
    /// The subnet manager's.
    pub sm_lid: u32,
    /// How many low bits of the address are a path's own.
    pub lmc: u8,
}

/// A network device.
#[derive(Clone, Copy, Debug)]
pub struct PortNdev<'a> {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: &'a [u8],
}

/// A port: `RDMA_NLDEV_CMD_PORT_GET`.
#[derive(Clone, Copy, Debug)]
pub struct Port<'a> {
    /// Its device.
    pub handle: Handle<'a>,
    /// Its number.
    pub port: u32,
    /// For InfiniBand links.
    pub ib: Option<IbPort>,
    /// `enum ib_port_state`.
    pub state: u8,
    /// `enum ib_port_phys_state`.
    pub phys_state: u8,
    /// Its network device, if that is in the reader's namespace.
    pub ndev: Option<PortNdev<'a>>,
}

impl Port<'_> {
    /// Writes it.
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
    /// How devices are shared.
    pub netns_mode: Mode,
    /// Whether users may set Q_Keys that are the privileged's.
    pub privileged_qkey: bool,
}

impl Sys {
    /// Writes it. Memory survives `fork` and events can be watched, in every kernel
    /// that has this.
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
