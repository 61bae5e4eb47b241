// SPDX-License-Identifier: GPL-2.0

//! Clients, which are notified of devices that are added and removed.
//!
//! A client has a *slot* on each device that it was notified of. A slot holds a use count of both,
//! so that unregistration of either waits for the client's work on the device. Clients are added in
//! order of registration, which is the order of their IDs, and removed in reverse order. C header:
//! `struct ib_client` in `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel::warn_on;
use rdma::sync::StaticRwSem;

use super::registry;
use super::Device;
use super::Registered;
use crate::edge::client::ClientUse;
use crate::edge::client::Known;

mod abi;
mod edge;
mod nl;

pub(crate) use self::edge::Own;
pub(crate) use self::edge::Part;
pub(crate) use self::nl::nl_info;

/// List of clients. Its lock `Registry::clients` keeps clients from being added or removed.
static CLIENTS: StaticRwSem<KVec<Listed>> = StaticRwSem::new(KVec::new());

/// Must be called before clients are used.
pub(super) fn init() {
    CLIENTS.init(c"Registry::clients", kernel::static_lock_class!());
}

/// Called on module exit.
pub(super) fn fini() {
    if let Some(mut clients) = CLIENTS.write() {
        // The module of a client that is still there may be gone, and its use count with it.
        if !warn_on!(!clients.is_empty()) {
            // Statics are not dropped, so free the memory here.
            *clients = KVec::new();
        }
    }
}

/// Entry of the list, which is sorted by client ID.
struct Listed {
    client: Known,
    /// The use of the list, while the client is notified of new devices.
    own: Option<ClientUse>,
}

impl Listed {
    /// Returns whether the client is notified of new devices.
    fn is_registered(&self) -> bool {
        self.own.is_some()
    }
}

/// State of a client on a device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The client's `add` is running.
    Adding,
    /// The client has accepted the device.
    Added,
    /// The client's `remove` is running.
    Removing,
}

/// A client on a device. The use counts are dropped in this order; the client's module may be
/// unloaded afterwards.
struct Slot {
    _device: Registered,
    client: ClientUse,
    /// Atomic, because it is changed under the write lock or, from `Adding`, by the adding thread
    /// under the read lock.
    stage: kernel::sync::atomic::Atomic<u32>,
}

impl Slot {
    /// Creates a slot; `None` if the client or the device is not registered.
    fn new(device: &Device, client: Known) -> Option<Self> {
        let client = client.enter()?;
        Some(Self {
            _device: device.live()?,
            client,
            stage: kernel::sync::atomic::Atomic::new(0_u32),
        })
    }

    fn is(&self, client: Known, stage: Stage) -> bool {
        self.client.client() == client && self.stage() == stage
    }

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

/// Clients on a device, sorted by ID; in `State::clients`.
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
            .map(|slot| slot.client.client())
    }

    fn find(&self, client: Known, stage: Stage) -> Option<&Slot> {
        self.0.iter().find(|slot| slot.is(client, stage))
    }
}

/// Takes a client off a device, if it is there in this stage. Dropping the result drops the use
/// counts. May sleep.
fn take(device: &Device, client: Known, stage: Stage) -> Option<Slot> {
    rdma::kvec::take(&mut device.state().clients.write().0, |slot| {
        slot.is(client, stage)
    })
}

/// Notifies a client of a device, unless it was before. The caller must keep device and client
/// registered. May sleep.
fn add(device: &Device, client: Known) -> Result {
    if !device.is_kverbs_provider() && !client.no_kverbs_req() {
        return Ok(());
    }
    let mut slots = device.state().clients.write();
    // An earlier `add` has finished: it held the lock.
    if slots.find(client, Stage::Added).is_some() {
        return Ok(());
    }
    let Some(slot) = Slot::new(device, client) else {
        return Ok(());
    };
    let place = slots
        .0
        .partition_point(|slot| slot.client.id() < client.id());
    let room = slots
        .0
        .reserve(1, GFP_KERNEL)
        .map_err(Error::from)
        .and_then(|()| device.reserve_client_data(&client));
    room?;
    slots
        .0
        .insert_within_capacity(place, slot)
        .map_err(|_| ENOMEM)?;
    let slots = slots.downgrade();
    if client.add(device) {
        // Readers see the client from here on.
        if let Some(slot) = slots.find(client, Stage::Adding) {
            slot.set(Stage::Added);
        }
        return Ok(());
    }
    // The client has refused the device and gets no further notifications of it. This is no error.
    drop(slots);
    let refused = take(device, client, Stage::Adding);
    device.erase_client_data(&client);
    drop(refused);
    Ok(())
}

/// Notifies a client of the removal of a device, if it knows the device and no other thread is
/// doing this. The caller must not hold locks. May sleep.
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
    drop(take(device, client, Stage::Removing));
}

/// Notifies all clients of a new device. The caller must hold the list of devices. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add_all(device: &Device) -> Result {
    let clients = CLIENTS.read().ok_or(ENODEV)?;
    clients
        .iter()
        .filter(|listed| listed.is_registered())
        .try_for_each(|listed| add(device, listed.client))
}

/// Notifies all clients of the removal of a device, in reverse order. The device must be marked as
/// unregistered, so that no client is added. The caller must hold only its registration lock. May
/// sleep.
pub(crate) fn remove_all(device: &Device) {
    loop {
        let last = device.state().clients.read().added().last();
        match last {
            Some(client) => remove(device, client),
            // The wait for the device's use count covers removals by other threads.
            None => break,
        }
    }
}

/// Notifies clients of a device's new name. The caller must hold the list of devices. May sleep.
pub(super) fn renamed(device: &Device) {
    let slots = device.state().clients.read();
    for client in slots.added() {
        client.rename(device);
    }
}

/// Notifies a client of the removal of all devices and waits for other threads that do so. May
/// sleep.
fn unregister(client: Known) {
    if let Some(mut clients) = CLIENTS.write() {
        if let Some(listed) = clients.iter_mut().find(|listed| listed.client == client) {
            listed.own = None;
        }
    }
    let mut index = 0;
    while let Some(device) = registry::next_used_from(index) {
        index = device.index().saturating_add(1);
        remove(&device, client);
    }
    // Other threads may be removing devices from the client, too.
    client.wait();
    // The ID is reusable once all higher ones are gone: a new ID is one above the last.
    if let Some(mut clients) = CLIENTS.write() {
        rdma::kvec::retain(&mut clients, |listed| listed.client != client);
    }
}
