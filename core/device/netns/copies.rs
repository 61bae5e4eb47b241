// SPDX-License-Identifier: GPL-2.0

//! Copies of devices in the sysfs of other namespaces, in shared mode.

use kernel::prelude::*;
use kernel::warn_on;
use rdma::net::Net;

use super::home_of;
use super::known;
use super::mode;
use super::NETS;
use crate::device::registry::Devices;
use crate::device::Core;
use crate::device::Device;
use crate::device::Hooks;
use crate::edge::class::AddedCopy;
use crate::edge::class::DeviceCopy;
use crate::proto::names;
use crate::proto::netns;

/// Copies of a device; in `State::namesakes`.
pub(in crate::device) struct Copies(KVec<Placed>);

/// A copy in a namespace, added to sysfs with its ports.
struct Placed {
    net: netns::Net,
    copy: AddedCopy,
}

impl Copies {
    pub(in crate::device) const fn new() -> Self {
        Self(KVec::new())
    }
}

/// Creates the device's copy in a namespace, if the mode requires one and there is none. The caller
/// must hold the list of namespaces. May sleep.
pub(super) fn add_copy(device: &Device, place: &Net) -> Result {
    let net = known(place);
    if !mode().has_copy(home_of(device), net) {
        return Ok(());
    }
    let mut copies = device.state().namesakes.lock();
    // Adding a device and adding a namespace can both reach here; the other one was first.
    if copies.0.iter().any(|placed| placed.net == net) {
        return Ok(());
    }
    copies.0.reserve(1, GFP_KERNEL)?;
    let name = names::Name::new(device.name().as_bytes()).map_err(|_| EINVAL)?;
    let mut copy = DeviceCopy::new(device, place)?;
    copy.set_name(&name)?;
    let copy = AddedCopy::new(copy)?;
    copy.with(Core::show_ports)?;
    copies
        .0
        .push_within_capacity(Placed { net, copy })
        .map_err(|_| ENOMEM)
}

/// Creates the device's copies in all namespaces. The caller must hold the list of devices. May
/// sleep.
pub(crate) fn add_copies(device: &Device) -> Result {
    let nets = NETS.read().ok_or(ENODEV)?;
    nets.iter().try_for_each(|net| add_copy(device, net.net()))
}

/// Removes the copy that `select` takes out of the list, and returns whether there was one. Waits for
/// readers of its files, so this is not done under the list's lock. `State::parting` is held
/// instead: the uevent of the removal uses the copy's namespace, which must not be freed before. May
/// sleep.
fn remove(device: &Device, select: impl FnOnce(&mut KVec<Placed>) -> Option<Placed>) -> bool {
    let _one = device.state().parting.lock();
    let placed = select(&mut device.state().namesakes.lock().0);
    let found = placed.is_some();
    if let Some(placed) = placed {
        placed.copy.with(Core::hide_ports);
    }
    found
}

/// Removes all copies of the device. No copies must be added meanwhile. May sleep.
pub(crate) fn remove_copies(device: &Device) {
    while remove(device, KVec::pop) {}
}

/// Removes the device's copy in a namespace that is being removed. May sleep.
pub(super) fn remove_copy(device: &Device, net: &Net) {
    let net = known(net);
    let _: bool = remove(device, |copies| {
        let at = copies.iter().position(|placed| placed.net == net)?;
        copies.remove(at).ok()
    });
}

/// Renames the device's copies. May sleep.
pub(in crate::device) fn rename_copies(list: &mut Devices, device: &Device, name: &names::Name) {
    let copies = device.state().namesakes.lock();
    for placed in &copies.0 {
        if placed.copy.model().rename(list, name).is_err() {
            pr_warn!("{}: a copy keeps the old name\n", device.name());
        }
    }
}

/// Warns if a device that is about to be freed has copies.
pub(in crate::device) fn warn_of_copies(device: &Device) {
    warn_on!(!device.state().namesakes.lock().0.is_empty());
}
