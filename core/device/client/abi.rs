// SPDX-License-Identifier: GPL-2.0

//! What other modules call.

use core::ptr;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;

use super::add;
use super::data;
use super::unregister;
use super::xa_err;
use super::Client;
use super::Listed;
use super::CLIENTS;
use crate::device::port::Protocol;
use crate::device::registry;
use crate::device::Device;

/// Registers a client: it is told of each device that is there, and of those to come. May
/// sleep.
///
/// Errors: `ENOMEM`.
///
/// # Safety
///
/// The client is initialised but for what the core keeps in it, and stays until it is
/// unregistered; its methods may be called until then.
#[no_mangle]
pub unsafe extern "C" fn ib_register_client(
    client: *mut bindings::ib_client,
) -> kernel::ffi::c_int {
    let Some(raw) = NonNull::new(client) else {
        return EINVAL.to_errno();
    };
    // SAFETY: By this function's duty nobody else uses it yet.
    unsafe { bindings::init_completion(&raw mut (*client).uses_zero) };
    // INVARIANT: It is listed below, before it is used by others.
    let client = Client(raw);
    client.uses().open(1);

    // Devices that come see the client; of those that are there it is told here.
    let mut clients = None;
    let devices = registry::hold_after(|| {
        let mut list = CLIENTS.write();
        let id = match list.last() {
            Some(last) => last.client.id().checked_add(1).ok_or(ENOSPC)?,
            None => 0,
        };
        // SAFETY: Nobody else uses the client yet.
        unsafe { (*raw.as_ptr()).client_id = id };
        list.push(
            Listed {
                client,
                registered: true,
            },
            GFP_KERNEL,
        )?;
        clients = Some(list);
        Ok(())
    });
    let told = match &devices {
        Ok(devices) => devices
            .registered()
            .try_for_each(|device| add(device, client)),
        Err(error) => return error.to_errno(),
    };
    drop(clients);
    drop(devices);
    match told {
        Ok(()) => 0,
        Err(error) => {
            unregister(client);
            error.to_errno()
        }
    }
}

/// Unregisters a client: it is told that each device goes. When it returns, no method of
/// the client runs or will. No lock is held that its methods take. May sleep.
///
/// # Safety
///
/// The client is registered, and this is called once.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_client(client: *mut bindings::ib_client) {
    if let Some(client) = NonNull::new(client) {
        // INVARIANT: By this function's duty it is listed.
        unregister(Client(client));
    }
}

/// Keeps a client's data of a device, which `ib_get_client_data` gives back. Between its
/// `add` and the end of its `remove`. May sleep.
///
/// # Safety
///
/// Device and client are those of such a call.
#[no_mangle]
pub unsafe extern "C" fn ib_set_client_data(
    device: *mut bindings::ib_device,
    client: *mut bindings::ib_client,
    data: *mut kernel::ffi::c_void,
) {
    let data = if warn_on!(
        // SAFETY: It looks at the pointer's value only.
        unsafe { bindings::IS_ERR(data) }
    ) {
        ptr::null_mut()
    } else {
        data
    };
    // SAFETY: By this function's duty.
    let old = unsafe {
        bindings::xa_store(
            &raw mut (*device).client_data,
            (*client).client_id as usize,
            data,
            bindings::GFP_KERNEL,
        )
    };
    warn_on!(xa_err(old) != 0);
}

/// The network device of a client that takes what came for an address; null if no client
/// has one. The caller owns a reference. May sleep.
///
/// # Safety
///
/// The device is registered; GID and address are valid.
#[no_mangle]
pub unsafe extern "C" fn ib_get_net_dev_by_params(
    device: *mut bindings::ib_device,
    port: u32,
    pkey: u16,
    gid: *const bindings::ib_gid,
    addr: *const bindings::sockaddr,
) -> *mut bindings::net_device {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    if !device.port_speaks(port, Protocol::Ib) {
        return ptr::null_mut();
    }
    let slots = device.state().clients.read();
    let found = slots
        .added()
        .find_map(|client| {
            let method = client.raw().get_net_dev_by_params?;
            // SAFETY: The slot holds device and client; the rest by this function's duty.
            let dev =
                unsafe { method(device.as_raw(), port, pkey, gid, addr, data(device, client)) };
            (!dev.is_null()).then_some(dev)
        })
        .unwrap_or(ptr::null_mut());
    found
}

rdma::exported!(
    ib_register_client,
    ib_unregister_client,
    ib_set_client_data,
    ib_get_net_dev_by_params,
);
