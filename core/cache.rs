// SPDX-License-Identifier: GPL-2.0

//! What is remembered of a port: P_Keys, LMC, state, subnet prefix.

use crate::device::Device;
use kernel::prelude::*;

/// Fills the caches and GID tables of a device that is about to be registered. May sleep.
pub(crate) fn set_up(_device: &Device) -> Result {
    Ok(())
}

/// Empties the GID tables and waits for updates under way: the device is unregistered.
pub(crate) fn clean_up(_device: &Device) {}

/// Frees what is left: the device's memory is about to go.
pub(crate) fn release(_device: &Device) {}
