// SPDX-License-Identifier: GPL-2.0

//! Events for `rdma monitor`, and character devices of clients.

use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::dev::Handle;
use super::dev::PortNdev;
use super::Attr;

/// Type of an event (`enum rdma_nl_notify_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A device was registered.
    Register = 0,
    /// A device was unregistered.
    Unregister = 1,
    /// A network device was attached to a port.
    NetdevAttach = 2,
    /// A network device was detached from a port.
    NetdevDetach = 3,
    /// A device was renamed.
    Rename = 4,
    /// The network device of a port was renamed.
    NetdevRename = 5,
}

/// The object that an event is about.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// An RDMA device.
    Device(Handle<'a>),
    /// A port and its network device, if it has one that the listener may see.
    Port(Handle<'a>, u32, Option<PortNdev<'a>>),
    /// A network device.
    Ndev(PortNdev<'a>),
    /// Not shown: the network device is in another namespace.
    Hidden,
}

fn put_ndev(w: &mut Writer<impl Sink>, ndev: &PortNdev<'_>) -> Result<(), Full> {
    w.put_u32(Attr::NdevIndex.raw(), ndev.index)?;
    w.put_str(Attr::NdevName.raw(), ndev.name)
}

/// Writes an event: `RDMA_NLDEV_CMD_MONITOR`.
pub fn put(w: &mut Writer<impl Sink>, kind: Kind, about: &About<'_>) -> Result<(), Full> {
    match about {
        About::Device(handle) => handle.put(w)?,
        About::Port(handle, port, ndev) => {
            handle.put(w)?;
            w.put_u32(Attr::PortIndex.raw(), *port)?;
            if let Some(ndev) = ndev {
                put_ndev(w, ndev)?;
            }
        }
        About::Ndev(ndev) => put_ndev(w, ndev)?,
        About::Hidden => {}
    }
    w.put_u8(Attr::EventType.raw(), kind as u8)
}

/// The character device of a client: `RDMA_NLDEV_CMD_GET_CHARDEV`.
#[derive(Clone, Copy, Debug)]
pub struct Chardev<'a> {
    /// Device number, as user space encodes it (`huge_encode_dev`).
    pub number: u64,
    /// ABI version of the character device.
    pub abi: u64,
    /// Name of the character device.
    pub name: &'a [u8],
}

impl Chardev<'_> {
    /// Writes the response.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u64(Attr::Chardev.raw(), self.number, PAD)?;
        w.put_u64(Attr::ChardevAbi.raw(), self.abi, PAD)?;
        w.put_str(Attr::ChardevName.raw(), self.name)
    }
}
