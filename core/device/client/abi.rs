// SPDX-License-Identifier: GPL-2.0

//! Exported functions for clients.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::warn_on;
use rdma::edge::In;
use rdma::net::NetDevice;

use super::add;
use super::unregister;
use super::Listed;
use super::CLIENTS;
use crate::device::port::Protocol;
use crate::device::registry;
use crate::device::Device;
use crate::edge::client::Client;
use crate::edge::client::Data;
use crate::edge::client::GivenClient;
use crate::edge::client::NewClient;
use crate::edge::client::RawGid;
use crate::edge::client::SockAddr;

pub(super) fn register(client: NewClient<'_>) -> Result {
    // Devices registered later find the client in the list; it is notified here of those registered
    // now.
    let mut clients = None;
    let mut owned = None;
    let devices = registry::hold_after(|| {
        let mut list = CLIENTS.write().ok_or(ENODEV)?;
        list.reserve(1, GFP_KERNEL)?;
        let id = match list.last() {
            Some(last) => last.id.checked_add(1).ok_or(ENOSPC)?,
            None => 0,
        };
        let (client, own) = client.begin(id)?;
        list.push_within_capacity(Listed { id, own: Some(own) })
            .map_err(|_| ENOMEM)?;
        owned = Some(client);
        clients = Some(list);
        Ok(())
    })?;
    let own = clients.as_ref().and_then(|list| list.last()?.client());
    let told = own.ok_or(EINVAL).and_then(|own| {
        let mut registered = devices.registered();
        registered.try_for_each(|device| add(device, own))
    });
    drop(clients);
    drop(devices);
    if let (Err(_), Some(client)) = (told, owned) {
        unregister(client);
    }
    told
}

pub(super) fn unregister_client(client: GivenClient) {
    if let Some(client) = client.0 {
        unregister(client);
    }
}

fn set_client_data(device: &Device, client: &Client, data: Data) {
    let data = if warn_on!(is_err(data)) {
        Data::NULL
    } else {
        data
    };
    warn_on!(device.set_client_data(client, data).is_err());
}

/// Returns whether a pointer is an `ERR_PTR`.
fn is_err(data: Data) -> bool {
    // CAST: the value of the pointer; error pointers are the last 4095 addresses.
    (-4095..0).contains(&(data.as_ptr() as isize))
}

fn get_net_dev_by_params(
    device: &Device,
    port: u32,
    pkey: u16,
    gid: In<'_, RawGid>,
    addr: In<'_, SockAddr>,
) -> Option<ARef<NetDevice>> {
    if !device.port_speaks(port, Protocol::Ib) {
        return None;
    }
    let slots = device.state().clients.read();
    let found = slots
        .clients()
        .find_map(|client| client.get_net_dev_by_params(device, port, pkey, gid, addr));
    found
}

rdma::export! { in rdma::bindings;
    /// Registers a client and notifies it of all present and future devices. May sleep. Errors:
    /// `ENOMEM`.
    fn ib_register_client(client: NewClient<'_>) -> Result = register;
    /// Unregisters a client after notifying it of the removal of each device. Once this returns, no
    /// method of the client is running or will be called. The caller must not hold locks that its
    /// methods take. May sleep.
    fn ib_unregister_client(client: GivenClient) = unregister_client;
    /// Sets a client's data for a device, which `ib_get_client_data` returns. May be called from
    /// the start of the client's `add` until its `remove` returns. May sleep.
    fn ib_set_client_data(device: &Device, client: &Client, data: Data) = set_client_data;
    /// Returns the network device of a client that receives packets for this address, with a
    /// reference for the caller; null if there is none. May sleep.
    fn ib_get_net_dev_by_params(
        device: &Device, port: u32, pkey: u16, gid: In<'_, RawGid>, addr: In<'_, SockAddr>,
    ) -> Option<ARef<NetDevice>> = get_net_dev_by_params;
}
