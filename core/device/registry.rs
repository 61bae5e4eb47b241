// SPDX-License-Identifier: GPL-2.0

//! Registry of devices: all that have a name, and which of them are registered.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Relaxed;
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::sync::ReadGuard;
use rdma::sync::StaticRwSem;

use super::edge::Entry;
use super::errno;
use super::hooks::Notice;
use super::netns;
use super::netns::Place;
use super::Device;
use super::Registered;
use super::RegistrationLock;
use crate::edge::device::Unregistered;
use crate::proto::names;
use crate::proto::names::Naming;

/// List of devices. Its lock `Registry::devices` keeps devices from being added, removed or
/// renamed.
static DEVICES: StaticRwSem<Devices> = StaticRwSem::new(Devices::new());

/// Upper bound of indices, exclusive.
const INDEX_END: u32 = 1 << 31;

/// Devices that have a name.
pub(crate) struct Devices {
    /// Sorted by index.
    list: KVec<Entry>,
    /// Start of the search for a free index: one above the last index assigned.
    next: u32,
}

impl Devices {
    const fn new() -> Self {
        Self {
            list: KVec::new(),
            next: 0,
        }
    }

    /// Returns the names that `device` cannot have in a namespace: those of the others there.
    fn names_beside<'a>(
        &'a self,
        device: &'a Device,
        at: Place,
    ) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.list
            .iter()
            .filter(move |entry| !core::ptr::eq(&**entry.device(), device))
            .filter(move |entry| netns::is_named_in(entry.device(), at))
            .map(|entry| entry.name())
    }

    /// Returns the name of a device in the namespace that it is moved to.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid name, `EEXIST` if it is in use.
    fn name_moved(&self, device: &Device, to: &Net, naming: Naming<'_>) -> Result<names::Name> {
        let others = self.names_beside(device, Place::of(to));
        names::Name::new(device.name().as_bytes())
            .and_then(|name| names::moved(&name, device.index(), naming, others))
            .map_err(|refused| errno(refused.errno(names::Occasion::Set)))
    }

    fn at(&self, index: u32) -> Result<usize, usize> {
        self.list
            .binary_search_by_key(&index, |entry| entry.index())
    }

    /// Returns the next free index, and its position in the list.
    fn free_index(&self) -> Result<(u32, usize)> {
        for start in [self.next, 0] {
            let mut index = start;
            let first = self.list.partition_point(|entry| entry.index() < start);
            let mut place = first;
            for entry in self.list.iter().skip(first) {
                if entry.index() != index {
                    break;
                }
                index = index.saturating_add(1);
                place = place.saturating_add(1);
            }
            if index < INDEX_END {
                return Ok((index, place));
            }
        }
        Err(EBUSY)
    }

    /// Returns the registered devices; none is unregistered while the list is held.
    pub(super) fn registered(&self) -> impl Iterator<Item = &Device> {
        self.list
            .iter()
            .filter(|entry| entry.is_registered())
            .map(|entry| &**entry.device())
    }

    /// Returns the entry of a device.
    fn entry(&mut self, device: &Device) -> Option<&mut Entry> {
        let at = self.at(device.index()).ok()?;
        let entry = self.list.get_mut(at)?;
        core::ptr::eq(&**entry.device(), device).then_some(entry)
    }
}

/// Locks the list for reading; `None` before it is initialised. May sleep.
pub(crate) fn hold() -> Option<ReadGuard<'static, Devices>> {
    DEVICES.read()
}

/// Runs `act` with the list locked for writing, then downgrades the lock: the returned guard still
/// blocks registration and unregistration. May sleep.
pub(super) fn hold_after(act: impl FnOnce() -> Result) -> Result<ReadGuard<'static, Devices>> {
    let devices = DEVICES.write().ok_or(ENODEV)?;
    act()?;
    Ok(devices.downgrade())
}

/// Marks a device as registered and locks the list. The device then has two use counts: the
/// registry's, which [`disable`] returns, and the caller's. Unregistration waits for both. May
/// sleep.
///
/// # Errors
///
/// `ENODEV` if the device has no name; `EINVAL` if it is registered.
pub(crate) fn enable(device: &Device) -> Result<(ReadGuard<'static, Devices>, Registered)> {
    let mut devices = DEVICES.write().ok_or(ENODEV)?;
    // Under the lock: holders of a use count may unregister the device, which must not happen
    // before it is marked.
    let held = devices.entry(device).ok_or(ENODEV)?.enable();
    Ok((devices.downgrade(), held.ok_or(EINVAL)?))
}

/// Marks a device as not registered. Returns the use count of the registry. May sleep.
pub(crate) fn disable(device: &Device) -> Option<Registered> {
    DEVICES.write()?.entry(device)?.disable()
}

/// Assigns an index, and the name that the driver wants or the first free name of its pattern in the
/// device's namespace. [`forget`] undoes this. May sleep.
///
/// # Errors
///
/// `EINVAL` for an invalid name and for a device that has one already; `ENFILE` if the name is in
/// use there; `ENOSPC`, `EBUSY` if there is no free number or index; `ENOMEM`.
pub(crate) fn assign_name(fields: &mut Unregistered<'_>, wanted: &[u8]) -> Result {
    let device = fields.device();
    let mut devices = DEVICES.write().ok_or(ENODEV)?;
    if device.state().named.load(Relaxed) {
        return Err(EINVAL);
    }
    let name = names::assign(wanted, devices.names_beside(device, Place::home_of(device)))
        .map_err(|refused| errno(refused.errno(names::Occasion::Register)))?;
    devices.list.reserve(1, GFP_KERNEL)?;
    let (index, place) = devices.free_index()?;
    fields.set_name(&name)?;
    device.write_name(&mut devices, &name);
    fields.set_index(index);
    devices
        .list
        .insert_within_capacity(place, Entry::new(index, device.hold()))
        .map_err(|_| ENOMEM)?;
    devices.next = index.saturating_add(1);
    device.state().named.store(true, Relaxed);
    Ok(())
}

/// Removes a device from the list, if it is in it. May sleep.
pub(super) fn forget(device: &Device) {
    let Some(mut devices) = DEVICES.write() else {
        return;
    };
    if device.state().named.load(Relaxed) {
        rdma::kvec::retain(&mut devices.list, |entry| {
            !core::ptr::eq(&**entry.device(), device)
        });
        device.state().named.store(false, Relaxed);
    }
}

/// Renames a device and its copies in namespaces, and notifies its clients. May sleep.
///
/// # Errors
///
/// `EINVAL` for an invalid name, `EEXIST` if it is in use in the device's namespace; errors of
/// `device_rename`.
pub(crate) fn rename(device: &Device, wanted: &[u8]) -> Result {
    let mut devices = DEVICES.write().ok_or(ENODEV)?;
    let present = names::Name::new(device.name().as_bytes())
        .map_err(|refused| errno(refused.errno(names::Occasion::Set)))?;
    let others = devices.names_beside(device, Place::home_of(device));
    let name = names::rename(&present, wanted, others)
        .map_err(|refused| errno(refused.errno(names::Occasion::Set)))?;
    let Some(name) = name else {
        return Ok(());
    };
    device.model().rename(&mut devices, &name)?;
    device.write_name(&mut devices, &name);
    netns::rename_copies(&mut devices, device, &name);
    let _still = devices.downgrade();
    super::client::renamed(device);
    device.notify(Notice::Rename);
    Ok(())
}

/// Checks that a device may have its name in the namespace that it is to be moved to. Another device
/// may still take that name before [`relocate`]. May sleep.
///
/// # Errors
///
/// `EINVAL` for an invalid name, `EEXIST` if it is in use there.
pub(crate) fn check_move(device: &Device, to: &Net, naming: Naming<'_>) -> Result {
    let devices = DEVICES.read().ok_or(ENODEV)?;
    devices.name_moved(device, to, naming).map(|_| ())
}

/// Changes the namespace of a disabled device, and its name if it gets another one there. May sleep.
///
/// # Errors
///
/// `EINVAL` for an invalid name, `EEXIST` if it is in use in `to`; errors of `device_rename`. The
/// device then stays in `from`, unless that ends.
pub(crate) fn relocate(
    one: &RegistrationLock<'_>,
    from: &Net,
    to: &CountedNet,
    naming: Naming<'_>,
) -> Result {
    // From the choice of the name until the device has it, no other device takes it.
    let mut devices = DEVICES.write().ok_or(ENODEV)?;
    let device = one.device();
    let name = devices.name_moved(device, to, naming)?;
    one.set_net(to);
    // Also with the same name: this makes the driver model notice the new namespace.
    let mut renamed = device.model().rename(&mut devices, &name);
    // Where `from` ends, sysfs must not refer to it any longer.
    while renamed == Err(ENOMEM) && from.try_hold().is_none() {
        fsleep(Delta::from_millis(10));
        renamed = match device.model().rename(&mut devices, &name) {
            // The link of the class was moved before; the directory is left.
            Err(ENOENT) => device.model().rename_directory(&mut devices, &name),
            done => done,
        };
    }
    if let Err(error) = renamed {
        pr_warn!("{}: cannot be moved\n", device.name());
        // Not if `from` is being removed, as it moves its devices out only once.
        if let Some(from) = from.try_hold() {
            one.set_net(&from);
        }
        return Err(error);
    }
    device.write_name(&mut devices, &name);
    Ok(())
}

/// Returns the registered device with this index, if it is visible in `net`. May sleep.
pub(crate) fn by_index(net: &Net, index: u32) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let entry = devices.list.get(devices.at(index).ok()?)?;
    if netns::visible(entry.device(), net) {
        entry.device().live()
    } else {
        None
    }
}

/// Returns the first registered device with this index or a higher one. May sleep.
pub(crate) fn next_from(index: u32) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let first = devices.list.partition_point(|entry| entry.index() < index);
    devices
        .list
        .iter()
        .skip(first)
        .filter(|entry| entry.is_registered())
        .find_map(|entry| entry.device().live())
}

/// Same as [`next_from`], but includes devices whose clients are being added or removed. May sleep.
pub(crate) fn next_used_from(index: u32) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let first = devices.list.partition_point(|entry| entry.index() < index);
    devices
        .list
        .iter()
        .skip(first)
        .find_map(|entry| entry.device().live())
}

/// Returns the first device, registered or not, with this index or a higher one. May sleep.
pub(crate) fn next_named_from(index: u32) -> Option<ARef<Device>> {
    let devices = DEVICES.read()?;
    let first = devices.list.partition_point(|entry| entry.index() < index);
    Some(devices.list.get(first)?.device().hold())
}

/// Module-wide state of the registry.
pub(super) struct Subsystem(());

impl Subsystem {
    /// Initialises the lists. Must be called before devices or clients are used.
    pub(super) fn new() -> Self {
        DEVICES.init(c"Registry::devices", kernel::static_lock_class!());
        super::client::init();
        Self(())
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        if let Some(mut devices) = DEVICES.write() {
            kernel::warn_on!(!devices.list.is_empty());
            // Statics are not dropped, so free the memory here.
            *devices = Devices::new();
        }
        super::client::fini();
    }
}
