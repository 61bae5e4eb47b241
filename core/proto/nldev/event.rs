// SPDX-License-Identifier: GPL-2.0

//! What `rdma monitor` hears, and where programs open a client of a device.

use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::dev::Handle;
use super::dev::PortNdev;
use super::Attr;

/// What happened (`enum rdma_nl_notify_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// There is a new device.
    Register = 0,
    /// It has gone.
    Unregister = 1,
    /// A port got its network device.
    NetdevAttach = 2,
    /// It lost it.
    NetdevDetach = 3,
    /// The device has another name.
    Rename = 4,
    /// A port's network device has another name.
    NetdevRename = 5,
}

/// What is said of it.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// A device.
    Device(Handle<'a>),
    /// A port and its network device, if it has one that the listener may see.
    Port(Handle<'a>, u32, Option<PortNdev<'a>>),
    /// A network device.
    Ndev(PortNdev<'a>),
    /// Nothing: the network device is in another namespace.
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
    /// Its number, as user space encodes it (`huge_encode_dev`).
    pub number: u64,
    /// Version of what is spoken there.
    pub abi: u64,
    /// Its name.
    pub name: &'a [u8],
}

impl Chardev<'_> {
    /// Writes it.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u64(Attr::Chardev.raw(), self.number, PAD)?;
        w.put_u64(Attr::ChardevAbi.raw(), self.abi, PAD)?;
        w.put_str(Attr::ChardevName.raw(), self.name)
    }
}
