// SPDX-License-Identifier: GPL-2.0

//! Checks of a user's permissions.

pub(super) use super::edge::Token;

use super::edge::endport_manage_subnet;
use super::edge::pkey_access;
use crate::device::DeviceName;
use crate::proto::security::Partition;
use kernel::prelude::*;

impl Token {
    /// Checks whether the user may use a partition. Any context.
    ///
    /// # Errors
    ///
    /// `EACCES`, and others of the security module.
    pub(super) fn may_use(&self, partition: Partition) -> Result {
        pkey_access(self, partition.subnet_prefix, partition.pkey)
    }

    /// Checks whether the user may send and receive subnet management packets on a port. Any
    /// context.
    ///
    /// # Errors
    ///
    /// Those of [`may_use`](Self::may_use).
    pub(super) fn may_manage(&self, device: &DeviceName, port: u8) -> Result {
        let name = CStr::from_bytes_until_nul(device.with_end()).map_err(|_| EINVAL)?;
        endport_manage_subnet(self, name, port)
    }
}
