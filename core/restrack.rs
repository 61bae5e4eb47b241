// SPDX-License-Identifier: GPL-2.0

//! The objects that exist on a device, each with its owner.

use kernel::prelude::*;

/// The tables of a device, one for each kind of object.
#[pin_data]
pub(crate) struct Tables {}

impl Tables {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {})
    }
}
