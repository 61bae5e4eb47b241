// SPDX-License-Identifier: GPL-2.0

//! Unregistration of a device: operations that only the unregistering thread may do.

use super::class::Allocation;
use super::device::Visible;
use crate::device::Device;
use crate::device::RegistrationLock;
use kernel::sync::atomic::Acquire;

/// The exclusive right to unregister a device.
///
/// # Invariants
///
/// `one` is the registration lock of `device`, which was registered when the lock was taken. No
/// other `Ending` exists for that registration.
pub(crate) struct Ending<'a> {
    device: &'a Device,
    one: RegistrationLock<'a>,
}

impl<'a> Ending<'a> {
    /// Takes the registration lock of a device; `None` if the device is not registered. May sleep.
    pub(crate) fn of(device: &'a Device) -> Option<Self> {
        let one = device.lock_registration();
        // INVARIANT: The use count of a device is nonzero while it is registered, and zero
        // afterwards.
        (!device.uses().none()).then_some(Self { device, one })
    }

    /// Returns the right to delete the device, once it has no uses left; `None` if it is still in
    /// use.
    pub(crate) fn unused(self) -> Option<(Visible<'a>, Ended<'a>)> {
        if !self.device.uses().none() {
            return None;
        }
        // SAFETY: The device was registered, so `register` added it and called `keep`. The use
        // count dropped to zero under the lock (type invariant), which happens once per
        // registration.
        let visible = unsafe { Visible::kept(self.device.model()) };
        // INVARIANT: The device has no uses left.
        Some((visible, Ended(self)))
    }
}

/// A device that has been unregistered.
///
/// # Invariants
///
/// Nobody uses the device except through driver model references.
pub(crate) struct Ended<'a>(Ending<'a>);

impl<'a> Ended<'a> {
    /// Returns the device for deallocation, with the registration lock; `None` if the core must not
    /// deallocate it.
    pub(crate) fn memory(self) -> Option<(Allocation, RegistrationLock<'a>)> {
        let Ending { device, one } = self.0;
        if device.ops().dealloc_driver.is_none() || device.keep_memory().load(Acquire) {
            return None;
        }
        // SAFETY: The device is not registered and has no users (type invariant). As checked above,
        // its driver leaves deallocation to the core.
        Some((unsafe { Allocation::of(device) }, one))
    }
}
