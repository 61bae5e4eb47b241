// SPDX-License-Identifier: GPL-2.0

//! The XRC domains of a device that programs share by a file.

use kernel::prelude::*;
use kernel::sync::Mutex;

/// Domains by their inodes.
pub(crate) struct Table {}

impl Table {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Mutex<Self>> {
        kernel::new_mutex!(Self {}, "xrcd::Table")
    }
}
