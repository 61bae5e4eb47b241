// SPDX-License-Identifier: GPL-2.0

//! Who is there: all devices that have a name, and which of them are registered.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Relaxed;
use rdma::net::Net;
use rdma::sync::ReadGuard;
use rdma::sync::StaticRwSem;
use rdma::sync::WriteGuard;

use super::edge::Entry;
use super::errno;
use super::hooks::Notice;
use super::netns;
use super::Device;
use super::Registered;
use crate::edge::device::Unregistered;
use crate::proto::names;

/// The lock `Registry::devices`: to hold it is to know that no device comes or goes, and
/// that no name changes.
static DEVICES: StaticRwSem<Devices> = StaticRwSem::new(Devices::new());

/// Indices are below this.
const INDEX_END: u32 = 1 << 31;

/// The named devices.
pub(crate) struct Devices {
    /// By index.
    list: KVec<Entry>,
    /// Where the search for a free index begins: after the last that was given.
    next: u32,
}

impl Devices {
    const fn new() -> Self {
        Self {
            list: KVec::new(),
            next: 0,
        }
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.list.iter().map(|entry| entry.name())
    }

    fn at(&self, index: u32) -> Result<usize, usize> {
        self.list.binary_search_by_key(&index, |entry| entry.index)
    }

    /// The next free index, and its place in the list.
    fn free_index(&self) -> Result<(u32, usize)> {
        for start in [self.next, 0] {
            let mut index = start;
            let first = self.list.partition_point(|entry| entry.index < start);
            let mut place = first;
            for entry in self.list.iter().skip(first) {
                if entry.index != index {
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

    /// The registered devices, which nobody unregisters while the list is held.
    pub(super) fn registered(&self) -> impl Iterator<Item = &Device> {
        self.list
            .iter()
            .filter(|entry| entry.registered)
            .map(|entry| &*entry.device)
    }

    /// Says that a device in the list is registered now, or no longer.
    fn mark(&mut self, index: u32, registered: bool) {
        if let Some(entry) = self.at(index).ok().and_then(|at| self.list.get_mut(at)) {
            entry.registered = registered;
        }
    }
}

/// Holds the list still; none before there is one. May sleep.
pub(crate) fn hold() -> Option<ReadGuard<'static, Devices>> {
    DEVICES.read()
}

/// Keeps registrations away while something is done, and then, for as long as the guard
/// lives, unregistrations too. May sleep.
pub(super) fn hold_after(act: impl FnOnce() -> Result) -> Result<ReadGuard<'static, Devices>> {
    let devices = DEVICES.write().ok_or(ENODEV)?;
    act()?;
    Ok(devices.downgrade())
}

/// Marks a device as registered, and holds the list. It has two counts then: the registry's,
/// and the caller's, so that unregistration waits for him. May sleep.
pub(crate) fn enable(device: &Device) -> (Option<ReadGuard<'static, Devices>>, Registered) {
    let mut devices = DEVICES.write();
    // Under the lock: who has a count may unregister the device, and must not be first.
    device.uses().open(1);
    // The caller's. The registry's is given back by the thread that unregisters the device.
    let held = Registered::another(device);
    if let Some(devices) = &mut devices {
        devices.mark(device.index(), true);
    }
    (devices.map(WriteGuard::downgrade), held)
}

/// Marks a device as not registered. May sleep.
pub(crate) fn disable(device: &Device) {
    if let Some(mut devices) = DEVICES.write() {
        devices.mark(device.index(), false);
    }
}

/// Gives a device the name that its driver wants, or the first free one of a pattern, and
/// an index. May sleep. Undone by [`forget`].
///
/// # Errors
///
/// `EINVAL` for a name that is not legal, and for a device that has one; `ENFILE` for one
/// that is taken; `ENOSPC`, `EBUSY` if there is no number left; `ENOMEM`.
pub(crate) fn assign_name(device: &Device, fields: &mut Unregistered<'_>, wanted: &[u8]) -> Result {
    let mut devices = DEVICES.write().ok_or(ENODEV)?;
    if device.state().named.load(Relaxed) {
        return Err(EINVAL);
    }
    let name = names::assign(wanted, devices.names())
        .map_err(|refused| errno(refused.errno(names::Occasion::Register)))?;
    devices.list.reserve(1, GFP_KERNEL)?;
    let (index, place) = devices.free_index()?;
    device.model().set_name(&name)?;
    device.write_name(&name);
    fields.set_index(index);
    devices
        .list
        .insert_within_capacity(
            place,
            Entry {
                index,
                device: device.hold(),
                registered: false,
            },
        )
        .map_err(|_| ENOMEM)?;
    devices.next = index.saturating_add(1);
    device.state().named.store(true, Relaxed);
    Ok(())
}

/// Takes a device out of the list, if it is in it. May sleep.
pub(super) fn forget(device: &Device) {
    let Some(mut devices) = DEVICES.write() else {
        return;
    };
    if device.state().named.load(Relaxed) {
        rdma::kvec::retain(&mut devices.list, |entry| {
            !core::ptr::eq(&*entry.device, device)
        });
        device.state().named.store(false, Relaxed);
    }
}

/// Gives a device another name, in the namespaces too where it has copies, and tells its
/// clients. May sleep.
///
/// # Errors
///
/// `EINVAL` for a name that is not legal, `EEXIST` for one that is taken, those of
/// `device_rename`.
pub(crate) fn rename(device: &Device, wanted: &[u8]) -> Result {
    let devices = DEVICES.write().ok_or(ENODEV)?;
    let present = names::Name::new(device.name().as_bytes())
        .map_err(|refused| errno(refused.errno(names::Occasion::Rename)))?;
    let name = names::rename(&present, wanted, devices.names())
        .map_err(|refused| errno(refused.errno(names::Occasion::Rename)))?;
    let Some(name) = name else {
        return Ok(());
    };
    device.model().rename(&name)?;
    device.write_name(&name);
    netns::rename_copies(device, &name);
    let _still = devices.downgrade();
    super::client::renamed(device);
    device.notify(Notice::Rename);
    Ok(())
}

/// The registered device of this index, if somebody in `net` may use it. May sleep.
pub(crate) fn by_index(net: &Net, index: u32) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let entry = devices.list.get(devices.at(index).ok()?)?;
    if netns::visible(&entry.device, net) {
        entry.device.live()
    } else {
        None
    }
}

/// The first registered device whose index is this or above. May sleep.
pub(crate) fn next_from(index: u32) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let first = devices.list.partition_point(|entry| entry.index < index);
    devices
        .list
        .iter()
        .skip(first)
        .filter(|entry| entry.registered)
        .find_map(|entry| entry.device.live())
}

/// As [`next_from`], also devices whose clients are being added or removed now.
pub(crate) fn next_used_from(index: u32) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let first = devices.list.partition_point(|entry| entry.index < index);
    devices
        .list
        .iter()
        .skip(first)
        .find_map(|entry| entry.device.live())
}

/// The first device, registered or not, whose index is this or above. May sleep.
pub(crate) fn next_named_from(index: u32) -> Option<ARef<Device>> {
    let devices = DEVICES.read()?;
    let first = devices.list.partition_point(|entry| entry.index < index);
    Some(devices.list.get(first)?.device.hold())
}

/// The registered device of this name. May sleep.
#[allow(
    dead_code,
    reason = "for the address resolution and user MADs that come later"
)]
pub(crate) fn by_name(name: &CStr) -> Option<Registered> {
    let devices = DEVICES.read()?;
    let place = devices.names().position(|other| other == name.to_bytes())?;
    devices.list.get(place)?.device.live()
}

/// The registry while the module is there.
pub(super) struct Subsystem(());

impl Subsystem {
    /// Before anything that uses devices or clients.
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
            // A static is not dropped.
            *devices = Devices::new();
        }
        super::client::fini();
    }
}
