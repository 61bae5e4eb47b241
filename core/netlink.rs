// SPDX-License-Identifier: GPL-2.0

//! The netlink socket of the subsystem, one for each namespace, and its clients.

use kernel::prelude::*;

/// The table of clients.
pub(crate) struct Subsystem;

impl Subsystem {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }
}
