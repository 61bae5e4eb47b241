// SPDX-License-Identifier: GPL-2.0

//! Devices that a driver makes under another (`rdma dev add`): a plane of a link, say.
//! Each holds a count of the one above it.

use kernel::prelude::*;
use rdma::bindings;

use super::Device;
use super::Registered;
use crate::edge::device::SubDevice;
use crate::errno::eopnotsupp;

/// The devices under a device; in `State::subdevices`. None of them is freed while it is in
/// the list.
pub(super) struct List {
    devices: KVec<SubDevice>,
    /// Whether there may be more: not once the device above is leaving, which would wait
    /// for them.
    open: bool,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            devices: KVec::new(),
            open: false,
        }
    }
}

/// Has the driver make a device under this one. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if it has no way to, `EINVAL` if the device is going, `ENOMEM` if it goes
/// meanwhile, too, and the driver's.
pub(crate) fn add(parent: &Device, kind: bindings::rdma_nl_dev_type, name: &CStr) -> Result {
    let ops = parent.ops();
    if ops.add_sub_dev.is_none() || ops.del_sub_dev.is_none() {
        return Err(eopnotsupp());
    }
    let held = parent.live().ok_or(EINVAL)?;
    let mut sub = parent.driver().add_sub_dev(kind, name)?;
    sub.adopt(kind, parent);
    {
        let mut list = parent.state().subdevices.lock();
        if list.open && list.devices.reserve(1, GFP_KERNEL).is_ok() {
            list.devices.push_within_capacity(sub).map_err(|_| ENOMEM)?;
            // The list's, until `delete`.
            held.keep();
            return Ok(());
        }
    }
    sub.delete(parent);
    Err(ENOMEM)
}

/// Has the driver delete a device that it made under another. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if it is none of these, `ENODEV` if another deletes it.
pub(crate) fn remove(sub: Registered) -> Result {
    // While it is in its parent's list, that has a use count of the parent; and its own deletion,
    // which is after it is taken out, waits for the count that we hold.
    let parent = sub.fields().parent().ok_or_else(eopnotsupp)?.hold();
    let taken = take(&parent, &sub).ok_or(ENODEV)?;
    drop(sub);
    delete(&parent, taken);
    Ok(())
}

/// Lets devices be made under this one, which is being registered.
pub(crate) fn open(parent: &Device) {
    parent.state().subdevices.lock().open = true;
}

/// Whether there is a device under this one.
pub(crate) fn any(parent: &Device) -> bool {
    !parent.state().subdevices.lock().devices.is_empty()
}

/// Has the driver delete all devices under this one, the last first; there will be none
/// until it is registered again. May sleep.
pub(crate) fn close(parent: &Device) {
    parent.state().subdevices.lock().open = false;
    loop {
        let last = parent.state().subdevices.lock().devices.pop();
        match last {
            Some(sub) => delete(parent, sub),
            None => break,
        }
    }
}

/// Takes a device out of the list, if it is in it.
fn take(parent: &Device, sub: &Device) -> Option<SubDevice> {
    let mut list = parent.state().subdevices.lock();
    let at = list.devices.iter().position(|other| other.is(sub))?;
    list.devices.remove(at).ok()
}

/// Deletes a device that was taken out of the list.
fn delete(parent: &Device, sub: SubDevice) {
    sub.delete(parent);
    // The list's.
    parent.uses().put();
}
