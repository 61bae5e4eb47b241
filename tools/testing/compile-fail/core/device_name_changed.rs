// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0624 set_name

//! The name of a device that others see, replaced: readers of the old one use freed memory.

use crate::device::Device;
use crate::edge::device::Unregistered;
use crate::proto::names::Name;
use kernel::prelude::*;

pub(crate) fn name(_device: &Device, fields: &mut Unregistered<'_>, name: &Name) -> Result {
    #[cfg(wrong)]
    _device.model().set_name(name)?;
    fields.set_name(name)
}
