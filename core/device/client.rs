// SPDX-License-Identifier: GPL-2.0

//! Clients: who is told of devices that come and go.
//!
//! A client has a *slot* on each device that it was told of. A slot holds a count of both,
//! so that the device's unregistration and the client's wait for what goes on with it.
//! Clients are added in the order of their registration, which their ids tell, and
//! removed in the opposite one. C header: `struct ib_client` in `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel::warn_on;
use rdma::sync::StaticRwSem;

use super::registry;
use super::Device;
use super::Uses;
use crate::edge::client::Client;
use crate::edge::client::Known;

mod abi;
mod edge;
mod nl;

pub(crate) use self::edge::Own;
pub(crate) use self::edge::Part;
pub(crate) use self::nl::nl_info;

/// The lock `Registry::clients`: to hold it is to know that no client comes or goes.
static CLIENTS: StaticRwSem<KVec<Listed>> = StaticRwSem::new(KVec::new());

/// Before anything that uses clients.
pub(super) fn init() {
    CLIENTS.init(c"Registry::clients", kernel::static_lock_class!());
}

/// The end of the module.
pub(super) fn fini() {
    if let Some(mut clients) = CLIENTS.write() {
        warn_on!(!clients.is_empty());
        // A static is not dropped.
        *clients = KVec::new();
    }
}

fn uses(client: &Client) -> Uses<'_> {
    Uses::new(client.uses(), client.uses_zero())
}

/// A client in the list; by id.
struct Listed {
    client: Known,
    /// Whether devices are added to it.
    registered: bool,
}

/// How far it is with a client on a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its `add` runs.
    Adding,
    /// It knows the device.
    Added,
    /// Its `remove` runs.
    Removing,
}

/// A client on a device. Holds a count of each.
struct Slot {
    client: Known,
    /// Changed under the write side, or, from `Adding`, by who adds under the read side:
    /// that is why it is atomic.
    stage: kernel::sync::atomic::Atomic<u32>,
}

impl Slot {
    fn stage(&self) -> Stage {
        match self.stage.load(kernel::sync::atomic::Acquire) {
            0 => Stage::Adding,
            1 => Stage::Added,
            _ => Stage::Removing,
        }
    }

    fn set(&self, stage: Stage) {
        let raw = match stage {
            Stage::Adding => 0,
            Stage::Added => 1,
            Stage::Removing => 2_u32,
        };
        self.stage.store(raw, kernel::sync::atomic::Release);
    }
}

/// The clients on a device, by id; in `State::clients`.
pub(super) struct Slots(KVec<Slot>);

impl Slots {
    pub(super) const fn new() -> Self {
        Self(KVec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn added(&self) -> impl Iterator<Item = Known> + '_ {
        self.0
            .iter()
            .filter(|slot| slot.stage() == Stage::Added)
            .map(|slot| slot.client)
    }

    fn find(&self, client: Known, stage: Stage) -> Option<&Slot> {
        self.0
            .iter()
            .find(|slot| slot.client == client && slot.stage() == stage)
    }
}

/// Tells a client of a device, unless it knows it. Device and client are held registered.
/// May sleep.
fn add(device: &Device, client: Known) -> Result {
    if !device.is_kverbs_provider() && !client.no_kverbs_req() {
        return Ok(());
    }
    let mut slots = device.state().clients.write();
    // Who added it before us has finished: it held the lock.
    if slots.find(client, Stage::Added).is_some() || !uses(&client).try_get() {
        return Ok(());
    }
    device.uses().get();
    let release = || {
        device.uses().put();
        uses(&client).put();
    };
    let place = slots
        .0
        .partition_point(|slot| slot.client.id() < client.id());
    let slot = Slot {
        client,
        stage: kernel::sync::atomic::Atomic::new(0_u32),
    };
    let room = slots
        .0
        .reserve(1, GFP_KERNEL)
        .map_err(Error::from)
        .and_then(|()| device.reserve_client_data(&client));
    if let Err(error) = room.and_then(|()| {
        slots
            .0
            .insert_within_capacity(place, slot)
            .map_err(|_| ENOMEM)
    }) {
        drop(slots);
        release();
        return Err(error);
    }
    let slots = slots.downgrade();
    if client.add(device) {
        // Readers see the client from now on.
        if let Some(slot) = slots.find(client, Stage::Adding) {
            slot.set(Stage::Added);
        }
        return Ok(());
    }
    // Why it does not want the device is its own business; it hears no more of it.
    drop(slots);
    rdma::kvec::retain(&mut device.state().clients.write().0, |slot| {
        !(slot.client == client && slot.stage() == Stage::Adding)
    });
    device.erase_client_data(&client);
    release();
    Ok(())
}

/// Tells a client that a device goes, if it knows it and nobody else does so. No lock is
/// held. May sleep.
fn remove(device: &Device, client: Known) {
    {
        let slots = device.state().clients.write();
        let Some(slot) = slots.find(client, Stage::Added) else {
            return;
        };
        slot.set(Stage::Removing);
    }
    client.remove(device);
    device.erase_client_data(&client);
    rdma::kvec::retain(&mut device.state().clients.write().0, |slot| {
        !(slot.client == client && slot.stage() == Stage::Removing)
    });
    device.uses().put();
    // The client's module may go from now on.
    uses(&client).put();
}

/// Tells all clients of a device. The list of devices is held. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add_all(device: &Device) -> Result {
    let clients = CLIENTS.read().ok_or(ENODEV)?;
    clients
        .iter()
        .filter(|listed| listed.registered)
        .try_for_each(|listed| add(device, listed.client))
}

/// Tells all clients that a device goes, from the last to the first. The device is marked,
/// so that no client is added. No lock is held but that of its unregistration. May sleep.
pub(crate) fn remove_all(device: &Device) {
    loop {
        let last = device.state().clients.read().added().last();
        match last {
            Some(client) => remove(device, client),
            // Those that others remove are waited for with the device's count.
            None => break,
        }
    }
}

/// Tells clients of a device's new name. The list of devices is held. May sleep.
pub(super) fn renamed(device: &Device) {
    let slots = device.state().clients.read();
    for client in slots.added() {
        client.rename(device);
    }
}

/// Tells a client that all devices go, and waits for others who do so. May sleep.
fn unregister(client: Known) {
    if let Some(mut clients) = CLIENTS.write() {
        if let Some(listed) = clients.iter_mut().find(|listed| listed.client == client) {
            listed.registered = false;
        }
        uses(&client).put();
    }
    let mut index = 0;
    while let Some(device) = registry::next_used_from(index) {
        index = device.index().saturating_add(1);
        remove(&device, client);
    }
    // Others may be removing it, too.
    uses(&client).wait();
    // Its id is free again when all above it have gone: the next is one above the last.
    if let Some(mut clients) = CLIENTS.write() {
        rdma::kvec::retain(&mut clients, |listed| listed.client != client);
    }
}
