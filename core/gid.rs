// SPDX-License-Identifier: GPL-2.0

//! The GIDs of a device's ports, and how they follow the network devices.

use kernel::prelude::*;

/// The GID tables of a device, one for each port.
#[pin_data]
pub(crate) struct Tables {}

impl Tables {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {})
    }
}

/// Notifiers and worker that keep RoCE GIDs up to date.
pub(crate) struct Subsystem;

impl Subsystem {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }
}
