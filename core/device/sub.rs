// SPDX-License-Identifier: GPL-2.0

//! Subdevices, which a driver creates under another device (`rdma dev add`), for example for a
//! plane of a link. Each holds a use count of its parent.

use kernel::prelude::*;
use rdma::bindings;

use super::Device;
use super::Registered;
use crate::edge::device::SubDevice;
use rdma::errno::eopnotsupp;

/// Subdevices of a device; in `State::subdevices`. A subdevice is not freed while it is in the
/// list.
pub(super) struct List {
    devices: KVec<Listed>,
    /// Number of [`Closed`] of this list, and one until the parent is registered. Subdevices may be
    /// added if it is zero.
    closed: u32,
}

/// A subdevice, with its use count of the parent.
struct Listed {
    sub: SubDevice,
    parent: Registered,
}

impl Listed {
    /// Has the driver delete the subdevice, and drops the use count. May sleep.
    fn delete(self) {
        self.sub.delete(&self.parent);
    }
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            devices: KVec::new(),
            closed: 1,
        }
    }
}

/// Has the driver create a subdevice. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if the driver does not support subdevices; `EINVAL` if the parent is being
/// unregistered; `ENOMEM`, also if that begins meanwhile; errors of the driver.
pub(crate) fn add(parent: &Device, kind: bindings::rdma_nl_dev_type, name: &CStr) -> Result {
    let ops = parent.ops();
    if ops.add_sub_dev.is_none() || ops.del_sub_dev.is_none() {
        return Err(eopnotsupp());
    }
    let held = parent.live().ok_or(EINVAL)?;
    let mut sub = parent.driver().add_sub_dev(kind, name)?;
    sub.adopt(kind, parent);
    let sub = Listed { sub, parent: held };
    {
        let mut list = parent.state().subdevices.lock();
        if list.closed == 0 && list.devices.reserve(1, GFP_KERNEL).is_ok() {
            list.devices.push_within_capacity(sub).map_err(|_| ENOMEM)?;
            return Ok(());
        }
    }
    sub.delete();
    Err(ENOMEM)
}

/// Has the driver delete a subdevice. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if it is not a subdevice; `ENODEV` if another thread deletes it.
pub(crate) fn remove(sub: Registered) -> Result {
    // While the subdevice is in the list, it has a use count of its parent. Its deletion happens
    // after its removal from the list, and waits for the use count held here.
    let parent = sub.fields().parent().ok_or_else(eopnotsupp)?.hold();
    let taken = take(&parent, &sub).ok_or(ENODEV)?;
    drop(sub);
    taken.delete();
    Ok(())
}

/// Allows subdevices of a device that is being registered, and that nobody else knows.
pub(crate) fn open(parent: &Device) {
    parent.state().subdevices.lock().closed = 0;
}

/// As long as this exists, the parent's list of subdevices is empty: an unregistration and a move
/// wait until the parent is unused, and a subdevice uses it, also one that was taken out of the list
/// and is being deleted.
///
/// They are counted, because a move and an unregistration can overlap, and the end of the move must
/// not reopen the list.
#[must_use = "subdevices may be added when this is dropped"]
pub(crate) struct Closed<'a>(&'a Device);

impl Closed<'_> {
    /// Allows no subdevices until the parent is registered again.
    pub(crate) fn for_ever(self) {
        core::mem::forget(self);
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut list = self.0.state().subdevices.lock();
        list.closed = list.closed.saturating_sub(1);
    }
}

/// Allows no more subdevices, if there are none now.
pub(crate) fn close_empty(parent: &Device) -> Option<Closed<'_>> {
    let mut list = parent.state().subdevices.lock();
    if !list.devices.is_empty() {
        return None;
    }
    list.closed = list.closed.saturating_add(1);
    Some(Closed(parent))
}

/// Allows no more subdevices, and has the driver delete those that there are, in reverse order. May
/// sleep.
pub(crate) fn close(parent: &Device) -> Closed<'_> {
    let closed = {
        let mut list = parent.state().subdevices.lock();
        list.closed = list.closed.saturating_add(1);
        Closed(parent)
    };
    loop {
        let last = parent.state().subdevices.lock().devices.pop();
        match last {
            Some(sub) => sub.delete(),
            None => return closed,
        }
    }
}

/// Removes a subdevice from the list, if it is in it.
fn take(parent: &Device, sub: &Device) -> Option<Listed> {
    let mut list = parent.state().subdevices.lock();
    let at = list.devices.iter().position(|other| other.sub.is(sub))?;
    list.devices.remove(at).ok()
}
