// SPDX-License-Identifier: GPL-2.0

//! The character devices of clients, for netlink.

use kernel::prelude::*;
use kernel::str::CStr;
use kernel::warn_on;

use super::CLIENTS;
use crate::device::Device;
use crate::edge::client::request_client;
use crate::edge::client::NlInfo;
use crate::errno::eopnotsupp;

/// Asks a client by its name for what `RDMA_NLDEV_CMD_GET_CHARDEV` shows: of a device, or
/// its global one. A module of that client is loaded, if there is none yet. The answer's
/// device is counted for the caller. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if no such client is there or it has nothing, and those of the client.
pub(crate) fn nl_info(device: Option<&Device>, name: &CStr, info: &mut NlInfo) -> Result {
    let mut ask = || match device {
        Some(device) => device_nl_info(device, name, info),
        None => global_nl_info(name, info),
    };
    let mut answer = ask();
    if answer == Err(ENOENT) {
        request_client(name);
        answer = ask();
    }
    match answer {
        Err(error) if error == ENOENT => Err(eopnotsupp()),
        Err(error) => Err(error),
        Ok(()) if warn_on!(info.cdev.is_null()) => Err(EINVAL),
        Ok(()) => Ok(()),
    }
}

/// A client's answer, whatever it said.
fn taken(answer: Option<Result>) -> Result {
    let answer = answer.ok_or_else(eopnotsupp)?;
    // That number means that there is no client.
    if warn_on!(answer == Err(ENOENT)) {
        return Err(EINVAL);
    }
    answer
}

fn device_nl_info(device: &Device, name: &CStr, info: &mut NlInfo) -> Result {
    // The lock keeps the client on the device, and with that its character device.
    let slots = device.state().clients.read();
    let client = slots.added().find(|client| client.is_named(name));
    let client = client.ok_or(ENOENT)?;
    taken(client.get_nl_info(Some(device), info))
}

fn global_nl_info(name: &CStr, info: &mut NlInfo) -> Result {
    // The lock keeps the client registered, and with that its character device.
    let clients = CLIENTS.read().ok_or(ENODEV)?;
    let client = clients
        .iter()
        .find(|listed| listed.registered && listed.client.is_named(name));
    let client = client.ok_or(ENOENT)?.client;
    taken(client.get_nl_info(None, info))
}
