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
use crate::errno::eopnotsupp;
use crate::private;

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

/// The clients on a device, by id; in `State::slots`.
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
    let mut slots = device.state().slots.write();
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
        .slots
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
        let slots = device.state().slots.write();
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
        .slots
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
pub(super) fn add_all(device: &Device) -> Result {
    let clients = CLIENTS.read();
    clients
        .iter()
        .filter(|listed| listed.registered)
        .try_for_each(|listed| add(device, listed.client))
}

/// Tells all clients that a device goes, from the last to the first. The device is marked,
/// so that no client is added. No lock is held but that of its unregistration. May sleep.
pub(super) fn remove_all(device: &Device) {
    loop {
        let last = device.state().slots.read().added().last();
        match last {
            Some(client) => remove(device, client),
            // Those that others remove are waited for with the device's count.
            None => break,
        }
    }
}

/// Tells clients of a device's new name. The list of devices is held. May sleep.
pub(super) fn renamed(device: &Device) {
    let slots = device.state().slots.read();
    for client in slots.added() {
        if let Some(method) = client.raw().rename {
            // SAFETY: The slot holds device and client; its data is its own.
            unsafe { method(device.as_raw(), data(device, client)) };
        }
    }
}

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
            bindings::__request_module(true, c"rdma-client-%s".as_ptr().cast(), name.as_char_ptr())
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
    let slots = device.state().slots.read();
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
    // SAFETY: It looks at the pointer's value only.
    let data = if warn_on!(unsafe { bindings::IS_ERR(data) }) {
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
    if !device.port_speaks(port, super::port::Protocol::Ib) {
        return ptr::null_mut();
    }
    let slots = device.state().slots.read();
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
