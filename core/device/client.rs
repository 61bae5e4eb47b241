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
use crate::edge::client::OwnedClient;

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
    id: u32,
    /// The use of the list, while the client is notified of new devices. Without it the entry only
    /// reserves the ID, until the client is unregistered.
    own: Option<ClientUse>,
}

impl Listed {
    /// Returns the client, if it is notified of new devices.
    fn client(&self) -> Option<&ClientUse> {
        self.own.as_ref()
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
    /// Creates a slot; `None` if the device is not registered.
    fn new(device: &Device, client: &ClientUse) -> Option<Self> {
        Some(Self {
            _device: device.live()?,
            client: client.clone(),
            stage: kernel::sync::atomic::Atomic::new(0_u32),
        })
    }

    fn is(&self, client: &ClientUse, stage: Stage) -> bool {
        self.client == *client && self.stage() == stage
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

    fn added(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.0.iter().filter(|slot| slot.stage() == Stage::Added)
    }

    /// Clients that have accepted the device.
    fn clients(&self) -> impl Iterator<Item = &ClientUse> {
        self.added().map(|slot| &slot.client)
    }

    fn find(&self, client: &ClientUse, stage: Stage) -> Option<&Slot> {
        self.0.iter().find(|slot| slot.is(client, stage))
    }
}

/// Takes a client off a device, if it is there in this stage. Dropping the result drops the use
/// counts. May sleep.
fn take(device: &Device, client: &ClientUse, stage: Stage) -> Option<Slot> {
    rdma::kvec::take(&mut device.state().clients.write().0, |slot| {
        slot.is(client, stage)
    })
}

/// Notifies a client of a device, unless it was before. The caller must keep the device registered.
/// May sleep.
fn add(device: &Device, client: &ClientUse) -> Result {
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
        .and_then(|()| device.reserve_client_data(client));
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
    device.erase_client_data(client);
    drop(refused);
    Ok(())
}

/// Notifies a client of the removal of a device: the one that `which` selects among those that have
/// accepted the device, and that no other thread is removing. Returns whether there is one. The caller
/// must not hold locks. May sleep.
fn remove(device: &Device, which: impl FnOnce(&Slots) -> Option<&Slot>) -> bool {
    let client = {
        let slots = device.state().clients.write();
        let Some(slot) = which(&slots) else {
            return false;
        };
        slot.set(Stage::Removing);
        slot.client.clone()
    };
    client.remove(device);
    device.erase_client_data(&client);
    drop(take(device, &client, Stage::Removing));
    true
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
        .filter_map(Listed::client)
        .try_for_each(|client| add(device, client))
}

/// Notifies all clients of the removal of a device, in reverse order. The device must be marked as
/// unregistered, so that no client is added. The caller must hold only its registration lock. May
/// sleep.
pub(crate) fn remove_all(device: &Device) {
    // The wait for the device's use count covers removals by other threads.
    while remove(device, |slots| slots.added().next_back()) {}
}

/// Notifies clients of a device's new name. The caller must hold the list of devices. May sleep.
pub(super) fn renamed(device: &Device) {
    let slots = device.state().clients.read();
    for client in slots.clients() {
        client.rename(device);
    }
}

/// Notifies a client of the removal of all devices and waits for other threads that do so. May
/// sleep.
fn unregister(client: OwnedClient) {
    let listed = CLIENTS.write().and_then(|mut clients| {
        let own = |listed: &Listed| listed.client().is_some_and(|own| client.is(own));
        let listed = clients.iter_mut().find(|listed| own(listed))?;
        Some((listed.id, listed.own.take()?))
    });
    let Some((id, own)) = listed else {
        // Its owner has never registered it, or unregisters it twice.
        warn_on!(true);
        return;
    };
    let mut index = 0;
    while let Some(device) = registry::next_used_from(index) {
        index = device.index().saturating_add(1);
        remove(&device, |slots| slots.find(&own, Stage::Added));
    }
    // Other threads may be removing devices from the client, too.
    client.wait(own);
    // The ID is reusable once all higher ones are gone: a new ID is one above the last.
    if let Some(mut clients) = CLIENTS.write() {
        rdma::kvec::retain(&mut clients, |listed| listed.id != id);
    }
}
