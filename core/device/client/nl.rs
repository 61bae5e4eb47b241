// SPDX-License-Identifier: GPL-2.0

//! Character devices of clients, for netlink.

use kernel::prelude::*;
use kernel::str::CStr;
use kernel::warn_on;

use super::Listed;
use super::CLIENTS;
use crate::device::Device;
use crate::edge::client::request_client;
use crate::edge::client::NlInfo;
use rdma::errno::eopnotsupp;

/// Queries a client, by its name, for the data of `RDMA_NLDEV_CMD_GET_CHARDEV`: the character
/// device for `device`, or its global one. Loads the client's module if there is no such client
/// yet. The character device is returned with a reference for the caller. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if there is no such client or it has no character device; errors of the client.
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

/// Checks the result of a client's method.
fn taken(answer: Option<Result>) -> Result {
    let answer = answer.ok_or_else(eopnotsupp)?;
    // `ENOENT` is reserved for "no such client".
    if warn_on!(answer == Err(ENOENT)) {
        return Err(EINVAL);
    }
    answer
}

fn device_nl_info(device: &Device, name: &CStr, info: &mut NlInfo) -> Result {
    // The lock keeps the client on the device, and so its character device valid.
    let slots = device.state().clients.read();
    let client = slots.clients().find(|client| client.is_named(name));
    let client = client.ok_or(ENOENT)?;
    taken(client.get_nl_info(Some(device), info))
}

fn global_nl_info(name: &CStr, info: &mut NlInfo) -> Result {
    // The lock keeps the client registered, and so its character device valid.
    let clients = CLIENTS.read().ok_or(ENODEV)?;
    let client = clients
        .iter()
        .filter_map(Listed::client)
        .find(|client| client.is_named(name));
    taken(client.ok_or(ENOENT)?.get_nl_info(None, info))
}
