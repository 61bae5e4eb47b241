// SPDX-License-Identifier: GPL-2.0

//! Devices that a driver makes under another (`rdma dev add`): a plane of a link, say.
//! Each holds a count of the one above it.

use core::ffi::CStr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use rdma::bindings;

use super::Device;
use super::Registered;
use crate::errno::eopnotsupp;

/// The devices under a device; in `State::subdevices`. None of them is freed while it is in
/// the list.
pub(super) struct List {
    devices: KVec<NonNull<bindings::ib_device>>,
    /// Whether there may be more: not once the device above is leaving, which would wait
    /// for them.
    open: bool,
}

// SAFETY: Devices are used from any thread.
unsafe impl Send for List {}

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
    let (Some(make), Some(unmake)) = (ops.add_sub_dev, ops.del_sub_dev) else {
        return Err(eopnotsupp());
    };
    let held = parent.live().ok_or(EINVAL)?;
    // SAFETY: The driver's own method and device; the name is a string.
    let sub = from_err_ptr(unsafe { make(parent.as_raw(), kind, name.as_char_ptr()) })?;
    let sub = NonNull::new(sub).ok_or(EINVAL)?;
    // SAFETY: The driver has just made it; who wants to delete it looks for it in the list. Its
    // driver looks at the parent when it is to delete it.
    unsafe {
        (*sub.as_ptr()).type_ = kind;
        (*sub.as_ptr()).parent = parent.as_raw();
    }
    {
        let mut list = parent.state().subdevices.lock();
        if list.open && list.devices.reserve(1, GFP_KERNEL).is_ok() {
            list.devices.push_within_capacity(sub).map_err(|_| ENOMEM)?;
            // The list's.
            let _: *mut bindings::ib_device = held.into_raw();
            return Ok(());
        }
    }
    // SAFETY: It was made by the driver, and is in no list.
    unsafe { unmake(sub.as_ptr()) };
    Err(ENOMEM)
}

/// Has the driver delete a device that it made under another. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` if it is none of these, `ENODEV` if another deletes it.
pub(crate) fn remove(sub: Registered) -> Result {
    // SAFETY: Written before the device could be found.
    let parent = unsafe { (*sub.as_raw()).parent };
    if parent.is_null() {
        return Err(eopnotsupp());
    }
    // SAFETY: While it is in its parent's list there is a count of the parent; and its own
    // deletion, which is after it is taken out, waits for the count that we hold.
    let parent = unsafe { Device::from_raw(parent) };
    let raw = NonNull::new(sub.as_raw()).ok_or(EINVAL)?;
    if !take(parent, raw) {
        return Err(ENODEV);
    }
    drop(sub);
    delete(parent, raw);
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

/// Takes a device out of the list; says whether it was in it.
fn take(parent: &Device, sub: NonNull<bindings::ib_device>) -> bool {
    let mut list = parent.state().subdevices.lock();
    let before = list.devices.len();
    list.devices.retain(|other| *other != sub);
    list.devices.len() < before
}

/// Deletes a device that the caller has taken out of the list.
fn delete(parent: &Device, sub: NonNull<bindings::ib_device>) {
    if let Some(method) = parent.ops().del_sub_dev {
        // SAFETY: The driver made it, and it is deleted once, by who took it out.
        unsafe { method(sub.as_ptr()) };
    }
    // The list's.
    parent.uses().put();
}
