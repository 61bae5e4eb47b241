// SPDX-License-Identifier: GPL-2.0

//! Responses that the core sends itself: those of the driver, refusals, and, on a switch, forwarded
//! packets.

use super::agent::Agent;
use super::agent::Wish;
use super::edge::agent::AgentPass;
use super::edge::agent::Handle;
use super::edge::agent::Handlers;
use super::edge::port::Live;
use super::edge::receive::GRH;
use super::edge::send::Claim;
use super::edge::send::For;
use super::edge::Wc;
use super::memory::Memory;
use super::port::Port;
use super::send;
use super::send::Plan;
use super::transact;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::edge::Passed;

/// Registers the agent that sends responses and receives nothing; `None` if the port has no such
/// queue pair.
///
/// # Errors
///
/// Those of [`Agent::register`].
pub(super) fn agent(port: &Arc<Port>, qp: Special) -> Result<Option<Arc<Agent>>> {
    let wish = Wish {
        qp,
        rule: None,
        rmpp_version: 0,
        flags: 0,
        handlers: Handlers::NONE,
        context: Passed::NULL,
    };
    match Agent::register(port.clone(), wish) {
        Ok(agent) => Ok(Some(agent)),
        Err(error) if error == rdma::errno::eprotonosupport() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Return path of a received MAD.
pub(super) struct Back<'a> {
    pub(super) port: Live<'a>,
    pub(super) qp: Special,
    /// Outgoing port, on a switch.
    pub(super) by: u32,
}

impl Back<'_> {
    /// Sends a response of `len` bytes. May sleep. It is lost if there is no memory: the requester
    /// will retry.
    pub(super) fn send(&self, wc: &Wc, grh: &[u8; GRH], mad: &[u8], len: usize) {
        if let Err(error) = self.try_send(wc, grh, mad, len) {
            pr_err!("a response to a management datagram was not sent: {error:?}\n");
        }
    }

    fn try_send(&self, wc: &Wc, grh: &[u8; GRH], mad: &[u8], len: usize) -> Result {
        let agent = self.port.replier(self.qp).ok_or(ENODEV)?;
        let agent = AgentPass::enter(agent).ok_or(ENODEV)?;
        let handle = Handle::back(agent.owner(), wc, grh, self.by)?;
        let base_version = mad.first().copied().unwrap_or(wire::VERSION);
        let len = if self.port.is_opa() && base_version != wire::OPA_VERSION {
            wire::MAD_SIZE
        } else {
            len.min(mad.len())
        };
        let plan = Plan {
            remote_qpn: wc.src_qp(),
            pkey_index: wc.pkey_index(),
            rmpp: false,
            header: wire::HEADER,
            data: len.checked_sub(wire::HEADER).ok_or(EINVAL)?,
            base_version,
        };
        let send = send::new(agent.owner(), &plan, For::Nobody(handle), Memory::Kernel)?;
        let mut claim = Claim::new(&send).ok_or(EINVAL)?;
        for (to, from) in claim.mad_mut().iter_mut().zip(mad.iter().take(len)) {
            *to = *from;
        }
        if self.port.node().is_switch {
            claim.set_port(self.by);
        }
        drop(claim);
        transact::post(&send)
    }
}
