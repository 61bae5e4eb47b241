// SPDX-License-Identifier: GPL-2.0

//! The agent of a port, which sends datagrams to the administrator.

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

/// An agent. It keeps its port open.
pub(super) struct Agent(Registered);

impl Agent {
    /// Registers an agent, which answers nothing but gets answers. May sleep.
    ///
    /// # Errors
    ///
    /// Those of registration.
    pub(super) fn register(device: &Device, port: u32) -> Result<Self> {
        Registered::new(device, port).map(Self)
    }

    /// Ends it: what is under way is completed, and all buffers are waited for. No buffer is made
    /// after that. May sleep.
    pub(super) fn unregister(&self) {
        client::unregister(self.0.agent());
    }

    /// Makes an address handle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(super) fn address_handle(&self, attr: &AhAttr) -> Result<AgentAh> {
        AgentAh::new(&self.0, attr)
    }

    /// The upper half of its transactions' numbers.
    pub(super) fn transactions(&self) -> u32 {
        client::transactions(self.0.agent())
    }

    /// A datagram to the administrator, all zeros. Sleeps as `gfp` says.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, whatever is lacking.
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
