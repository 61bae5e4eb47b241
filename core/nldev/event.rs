// SPDX-License-Identifier: GPL-2.0

//! Event notifications (`rdma monitor`), and character devices of clients.

use kernel::prelude::*;
use rdma::bindings;
use rdma::sync::rcu;

use super::dev::Who;
use super::edge::ClientChardev;
use super::request::Request;
use super::request::Text;
use super::Notice;
use crate::device::Device;
use crate::netlink;
use crate::netlink::Message;
use crate::proto::nla;
use crate::proto::nla::Strictness;
use crate::proto::nldev::dev::PortNdev;
use crate::proto::nldev::event;
use crate::proto::nldev::event::About;
use crate::proto::nldev::event::Chardev;
use crate::proto::nldev::event::Kind;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;

/// Maximum size of a client's name in bytes, with its NUL.
const CLIENT_LEN: usize = bindings::RDMA_NLDEV_ATTR_CHARDEV_TYPE_SIZE as usize;

impl Notice {
    fn kind(self) -> Kind {
        match self {
            Self::Register => Kind::Register,
            Self::Unregister => Kind::Unregister,
            Self::Rename => Kind::Rename,
            Self::NetdevAttach { .. } => Kind::NetdevAttach,
            Self::NetdevDetach { .. } => Kind::NetdevDetach,
            Self::NetdevRename { .. } => Kind::NetdevRename,
        }
    }

    fn port(self) -> Option<u32> {
        match self {
            Self::Register | Self::Unregister | Self::Rename => None,
            Self::NetdevAttach { port }
            | Self::NetdevDetach { port }
            | Self::NetdevRename { port } => Some(port),
        }
    }
}

/// Sends an event to the listeners in the device's network namespace. May sleep.
///
/// # Errors
///
/// `ENOMEM`, `ENOBUFS`. It is not an error if there are no listeners.
pub(super) fn tell(device: &Device, notice: Notice) -> Result {
    let net = device.net(&rcu::read_lock()).try_hold();
    // A listener holds a reference to its namespace, so an exiting namespace has none.
    let Some(net) = net else { return Ok(()) };
    let who = Who::of(device);
    let netdev = notice.port().and_then(|port| device.netdev(port));
    let name = netdev.as_ref().map(|netdev| netdev.name());
    let hidden = netdev.as_ref().is_some_and(|netdev| !netdev.is_in(&net));
    let ndev = netdev
        .as_ref()
        .zip(name.as_ref())
        .map(|(netdev, name)| PortNdev {
            index: netdev.ifindex(),
            name: name.as_bytes(),
        });
    let about = match (notice, ndev) {
        (Notice::Register | Notice::Unregister | Notice::Rename, _) => About::Device(who.handle()),
        (
            Notice::NetdevAttach { .. } | Notice::NetdevDetach { .. } | Notice::NetdevRename { .. },
            _,
        ) if hidden => About::Hidden,
        (Notice::NetdevAttach { port } | Notice::NetdevDetach { port }, ndev) => {
            About::Port(who.handle(), port, ndev)
        }
        (Notice::NetdevRename { .. }, Some(ndev)) => About::Ndev(ndev),
        (Notice::NetdevRename { .. }, None) => About::Hidden,
    };
    let mut message = Message::new()?;
    let head = nla::Message {
        message_type: Command::Monitor.message_type(),
        flags: 0,
        seq: 0,
        port: 0,
    };
    message
        .writer()
        .message(head, |w| event::put(w, notice.kind(), &about))?;
    match netlink::multicast(&net, message, bindings::RDMA_NL_GROUP_NOTIFY) {
        Err(ESRCH) => Ok(()),
        sent => sent,
    }
}

/// Converts a device number to the user space encoding.
fn encoded(number: bindings::dev_t) -> u64 {
    let (major, minor) = (number >> 20, number & 0xf_ffff);
    u64::from(minor & 0xff | major << 8 | (minor & !0xff) << 12)
}

/// `RDMA_NLDEV_CMD_GET_CHARDEV`: the character device of a client, for a port, for a device, or
/// global.
pub(super) fn get_chardev(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Liberal)?;
    let client = Text::<CLIENT_LEN>::of(&attrs, Attr::ChardevType).ok_or(EINVAL)?;
    let mut port = 0;
    let device = match attrs.u32(Attr::DevIndex) {
        Some(_) => {
            let device = request.device(&attrs)?;
            port = match attrs.u32(Attr::PortIndex) {
                Some(port) if !device.has_port(port) => return Err(EINVAL),
                Some(port) => port,
                // Any port.
                None => u32::MAX,
            };
            Some(device)
        }
        None if attrs.has(Attr::PortIndex) => return Err(EINVAL),
        None => None,
    };
    request.answer(Command::GetChardev, |w| {
        let found = ClientChardev::find(w, device.as_deref(), client.as_cstr(), port)?;
        let chardev = Chardev {
            number: encoded(found.number()),
            abi: found.abi,
            name: found.name().to_bytes(),
        };
        Ok(chardev.put(w)?)
    })
}
