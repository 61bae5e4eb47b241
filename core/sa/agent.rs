// SPDX-License-Identifier: GPL-2.0

//! The MAD agent of a port, which sends queries to the SA.

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::verbs::AhAttr;

use super::edge::datagram::AgentAh;
use super::edge::datagram::Buffer;
use super::edge::datagram::Registered;
use super::sm_ah::Manager;
use crate::device::Device;
use crate::mad::client;
use crate::proto::sa::datagram::Fabric;
use crate::proto::sa::datagram::DATAGRAM;
use crate::proto::sa::DATA;

/// A MAD agent. Keeps its port open.
pub(super) struct Agent(Registered);

impl Agent {
    /// Registers a send-only agent, which receives responses but no requests. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the registration.
    pub(super) fn register(device: &Device, port: u32) -> Result<Self> {
        Registered::new(device, port).map(Self)
    }

    /// Unregisters the agent: completes outstanding sends and waits until all buffers are freed. No
    /// buffer can be allocated afterwards. May sleep.
    pub(super) fn unregister(&self) {
        client::unregister(self.0.agent());
    }

    /// Creates an address handle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(super) fn address_handle(&self, attr: &AhAttr) -> Result<AgentAh> {
        AgentAh::new(&self.0, attr)
    }

    /// Upper half of the agent's transaction IDs.
    pub(super) fn transactions(&self) -> u32 {
        client::transactions(self.0.agent())
    }

    /// Allocates a zeroed MAD to the SA. May sleep as `gfp` permits.
    ///
    /// # Errors
    ///
    /// `ENOMEM` for every failure.
    pub(super) fn buffer(
        &self,
        manager: Arc<Manager>,
        fabric: Fabric,
        gfp: bindings::gfp_t,
    ) -> Result<Buffer> {
        const LENGTHS: (usize, usize) = (DATAGRAM - DATA, DATA);
        let version = fabric.base_version();
        Buffer::new(&self.0, manager, LENGTHS, version, gfp).map_err(|_| ENOMEM)
    }
}
