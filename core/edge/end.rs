// SPDX-License-Identifier: GPL-2.0

//! The end of a device's registration: what the thread that ends it may do, and no other.

use super::class::Allocation;
use super::device::Visible;
use crate::device::Device;
use kernel::sync::atomic::Acquire;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;

/// The right to end the registration of a device.
///
/// # Invariants
///
/// `one` is the registration lock of `device`, which was registered when it was taken. There is no
/// other right to end that registration.
pub(crate) struct Ending<'a> {
    device: &'a Device,
    one: Guard<'a, (), MutexBackend>,
}

impl<'a> Ending<'a> {
    /// That of a device; none if it is not registered. May sleep.
    pub(crate) fn of(device: &'a Device) -> Option<Self> {
        let one = device.lock_registration();
        // INVARIANT: A device has uses while it is registered, and not after.
        (!device.uses().none()).then_some(Self { device, one })
    }

    /// The device is not used any more, so that it may be deleted; none if it is used.
    pub(crate) fn unused(self) -> Option<(Visible<'a>, Ended<'a>)> {
        if !self.device.uses().none() {
            return None;
        }
        // SAFETY: It was registered, so `register` has added it and kept that. The uses have gone
        // under the lock (type invariant), and do so once for each registration.
        let visible = unsafe { Visible::kept(self.device.model()) };
        // INVARIANT: Nobody uses it.
        Some((visible, Ended(self)))
    }
}

/// A device whose registration has ended.
///
/// # Invariants
///
/// Nobody uses the device but by references of the driver model.
pub(crate) struct Ended<'a>(Ending<'a>);

impl<'a> Ended<'a> {
    /// Its memory, if the driver leaves that to the core, and the registration lock.
    pub(crate) fn memory(self) -> Option<(Allocation, Guard<'a, (), MutexBackend>)> {
        let Ending { device, one } = self.0;
        if device.ops().dealloc_driver.is_none() || device.keep_memory().load(Acquire) {
            return None;
        }
        // SAFETY: The device is not registered, and nobody uses it (type invariant); its driver
        // leaves its end to the core.
        Some((unsafe { Allocation::of(device) }, one))
    }
}
