// SPDX-License-Identifier: GPL-2.0

//! Clients: who is told of devices that come and go.
//!
//! A client has a *slot* on each device that it was told of. A slot holds a count of both,
//! so that the device's unregistration and the client's wait for what goes on with it.
//! Clients are added in the order of their registration, which their ids tell, and
//! removed in the opposite one. C header: `struct ib_client` in `include/rdma/ib_verbs.h`.

use core::ffi::CStr;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::warn_on;
use rdma::bindings;
use rdma::sync::RwSem;

use super::registry;
use super::Device;
use super::Uses;

mod abi;
mod nl;
mod own;

pub(crate) use self::nl::nl_info;
pub(crate) use self::own::Own;
pub(crate) use self::own::Part;

/// The lock `Registry::clients`: to hold it is to know that no client comes or goes.
// SAFETY: `init` makes it usable before there is a client.
static CLIENTS: RwSem<KVec<Listed>> = unsafe { RwSem::uninit(KVec::new()) };

/// # Safety
///
/// Called once, before anything that uses clients.
pub(super) unsafe fn init() {
    // SAFETY: By this function's duty.
    unsafe { CLIENTS.init(c"Registry::clients", kernel::static_lock_class!()) };
}

/// The end of the module.
pub(super) fn fini() {
    let mut clients = CLIENTS.write();
    warn_on!(!clients.is_empty());
    // A static is not dropped.
    *clients = KVec::new();
}

/// A client.
///
/// # Invariants
///
/// It points to a client that is listed, or of which there is a count.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Client(NonNull<bindings::ib_client>);

// SAFETY: The methods of a client are called from any thread.
unsafe impl Send for Client {}
// SAFETY: As above.
unsafe impl Sync for Client {}

impl Client {
    fn raw(&self) -> &bindings::ib_client {
        // SAFETY: By the type invariant. Its fields are written before it is listed, but
        // for the count and its completion, which are reached by pointers of their own.
        unsafe { self.0.as_ref() }
    }

    fn id(&self) -> u32 {
        self.raw().client_id
    }

    fn uses(&self) -> Uses<'_> {
        let client = self.0.as_ptr();
        // SAFETY: By the type invariant; registration has initialised both.
        unsafe { Uses::new(&raw mut (*client).uses, &raw mut (*client).uses_zero) }
    }

    fn is_named(&self, name: &CStr) -> bool {
        // SAFETY: A client has a name, or none.
        !self.raw().name.is_null() && unsafe { CStr::from_char_ptr(self.raw().name) } == name
    }
}

/// A client in the list; by id.
struct Listed {
    client: Client,
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
    client: Client,
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

    fn added(&self) -> impl Iterator<Item = Client> + '_ {
        self.0
            .iter()
            .filter(|slot| slot.stage() == Stage::Added)
            .map(|slot| slot.client)
    }

    fn find(&self, client: Client, stage: Stage) -> Option<&Slot> {
        self.0
            .iter()
            .find(|slot| slot.client == client && slot.stage() == stage)
    }
}

/// What a client keeps of a device: an array of the device, which inline functions read.
fn data_array(device: &Device) -> *mut bindings::xarray {
    // SAFETY: The place is in the structure.
    unsafe { &raw mut (*device.as_raw()).client_data }
}

fn data(device: &Device, client: Client) -> *mut kernel::ffi::c_void {
    // SAFETY: The array is initialised with the device.
    unsafe { bindings::xa_load(data_array(device), client.id() as usize) }
}

/// Reserves the place of what a client keeps, so that setting it later cannot fail.
fn reserve_data(device: &Device, client: Client) -> Result {
    // SAFETY: As in `data`.
    let old = unsafe {
        bindings::xa_store(
            data_array(device),
            client.id() as usize,
            ptr::null_mut(),
            bindings::GFP_KERNEL,
        )
    };
    to_result(xa_err(old))
}

fn erase_data(device: &Device, client: Client) {
    // SAFETY: As in `data`.
    unsafe { bindings::xa_erase(data_array(device), client.id() as usize) };
}

/// The error that an xarray's function answered instead of an entry, or 0.
fn xa_err(entry: *mut kernel::ffi::c_void) -> kernel::ffi::c_int {
    let raw = entry as isize;
    // Errors are "internal" entries: two low bits are 10, and the number is above them.
    if raw & 3 == 2 && (-4095..0).contains(&(raw >> 2)) {
        i32::try_from(raw >> 2).unwrap_or(-22)
    } else {
        0
    }
}

/// Tells a client of a device, unless it knows it. Device and client are held registered.
/// May sleep.
fn add(device: &Device, client: Client) -> Result {
    if !device.is_kverbs_provider() && client.raw().no_kverbs_req() == 0 {
        return Ok(());
    }
    let mut slots = device.state().clients.write();
    // Who added it before us has finished: it held the lock.
    if slots.find(client, Stage::Added).is_some() || !client.uses().try_get() {
        return Ok(());
    }
    device.uses().get();
    let release = || {
        device.uses().put();
        client.uses().put();
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
        .and_then(|()| reserve_data(device, client));
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
    let refused = match client.raw().add {
        // SAFETY: The device is registered and held. It is the client's own method.
        Some(method) => (unsafe { method(device.as_raw()) }) != 0,
        None => false,
    };
    if !refused {
        // Readers see the client from now on.
        if let Some(slot) = slots.find(client, Stage::Adding) {
            slot.set(Stage::Added);
        }
        return Ok(());
    }
    // Why it does not want the device is its own business; it hears no more of it.
    drop(slots);
    device
        .state()
        .clients
        .write()
        .0
        .retain(|slot| !(slot.client == client && slot.stage() == Stage::Adding));
    erase_data(device, client);
    release();
    Ok(())
}

/// Tells a client that a device goes, if it knows it and nobody else does so. No lock is
/// held. May sleep.
fn remove(device: &Device, client: Client) {
    {
        let slots = device.state().clients.write();
        let Some(slot) = slots.find(client, Stage::Added) else {
            return;
        };
        slot.set(Stage::Removing);
    }
    if let Some(method) = client.raw().remove {
        // SAFETY: The slot holds the device; it is the client's own method and data.
        unsafe { method(device.as_raw(), data(device, client)) };
    }
    erase_data(device, client);
    device
        .state()
        .clients
        .write()
        .0
        .retain(|slot| !(slot.client == client && slot.stage() == Stage::Removing));
    device.uses().put();
    // The client's module may go from now on.
    client.uses().put();
}

/// Tells all clients of a device. The list of devices is held. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add_all(device: &Device) -> Result {
    let clients = CLIENTS.read();
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
        if let Some(method) = client.raw().rename {
            // SAFETY: The slot holds device and client; its data is its own.
            unsafe { method(device.as_raw(), data(device, client)) };
        }
    }
}

/// Tells a client that all devices go, and waits for others who do so. May sleep.
fn unregister(client: Client) {
    {
        let mut clients = CLIENTS.write();
        if let Some(listed) = clients.iter_mut().find(|listed| listed.client == client) {
            listed.registered = false;
        }
        client.uses().put();
    }
    let mut index = 0;
    while let Some(device) = registry::next_used_from(index) {
        index = device.index().saturating_add(1);
        remove(&device, client);
    }
    // Others may be removing it, too.
    client.uses().wait();
    // Its id is free again when all above it have gone: the next is one above the last.
    CLIENTS.write().retain(|listed| listed.client != client);
}
