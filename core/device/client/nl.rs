// SPDX-License-Identifier: GPL-2.0

//! The character devices of clients, for netlink.

use core::ffi::CStr;
use core::ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;

use super::data;
use super::CLIENTS;
use crate::device::Device;
use crate::errno::eopnotsupp;
use crate::private;

/// Asks a client by its name for what `RDMA_NLDEV_CMD_GET_CHARDEV` shows: of a device, or
/// its global one. A module of that client is loaded, if there is none yet. The answer's
/// device is counted for the caller. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if no such client is there or it has nothing, and those of the client.
pub(crate) fn nl_info(
    device: Option<&Device>,
    name: &CStr,
    info: &mut private::ib_client_nl_info,
) -> Result {
    let mut ask = || match device {
        Some(device) => device_nl_info(device, name, info),
        None => global_nl_info(name, info),
    };
    let mut answer = ask();
    if answer == Err(ENOENT) {
        // SAFETY: Format and string are terminated.
        unsafe {
            bindings::__request_module(true, c"rdma-client-%s".as_char_ptr(), name.as_char_ptr())
        };
        answer = ask();
    }
    match answer {
        Err(error) if error == ENOENT => Err(eopnotsupp()),
        Err(error) => Err(error),
        Ok(()) if warn_on!(info.cdev.is_null()) => Err(EINVAL),
        Ok(()) => Ok(()),
    }
}

/// Takes a client's answer; the character device is kept for the caller.
fn taken(ret: kernel::ffi::c_int, info: &private::ib_client_nl_info) -> Result {
    let answer = to_result(ret);
    // That number means that there is no client.
    if warn_on!(answer == Err(ENOENT)) {
        return Err(EINVAL);
    }
    answer?;
    if !info.cdev.is_null() {
        // SAFETY: The client keeps it while it is called, and we hold the slot.
        unsafe { bindings::get_device(info.cdev) };
    }
    Ok(())
}

fn device_nl_info(device: &Device, name: &CStr, info: &mut private::ib_client_nl_info) -> Result {
    let slots = device.state().clients.read();
    let client = slots.added().find(|client| client.is_named(name));
    let client = client.ok_or(ENOENT)?;
    let method = client.raw().get_nl_info.ok_or_else(eopnotsupp)?;
    // SAFETY: The slot holds device and client. It is one type in both bindings.
    let ret = unsafe {
        method(
            device.as_raw(),
            data(device, client),
            ptr::from_mut(info).cast(),
        )
    };
    taken(ret, info)
}

fn global_nl_info(name: &CStr, info: &mut private::ib_client_nl_info) -> Result {
    let clients = CLIENTS.read();
    let client = clients
        .iter()
        .find(|listed| listed.registered && listed.client.is_named(name));
    let client = client.ok_or(ENOENT)?.client;
    let method = client.raw().get_global_nl_info.ok_or_else(eopnotsupp)?;
    // SAFETY: The list holds the client. It is one type in both bindings.
    let ret = unsafe { method(ptr::from_mut(info).cast()) };
    taken(ret, info)
}
