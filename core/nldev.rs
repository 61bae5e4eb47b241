// SPDX-License-Identifier: GPL-2.0

//! What `rdma` asks: devices, links, resources, statistics, system.

use crate::device::Device;
use kernel::prelude::*;

/// The handlers of `RDMA_NL_NLDEV`, registered.
pub(crate) struct Subsystem;

impl Subsystem {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self)
    }
}

/// Events that `rdma monitor` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Register,
    Unregister,
    Rename,
    NetdevAttach { port: u32 },
    NetdevDetach { port: u32 },
    NetdevRename { port: u32 },
}

/// Tells listeners of an event. May sleep.
pub(crate) fn notify(_device: &Device, _notice: Notice) {}
