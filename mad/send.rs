// SPDX-License-Identifier: GPL-2.0

//! Layout of a send: one MAD, or the segments of a transfer. The send itself is in
//! [`super::edge::send`].

use super::agent::Agent;
use super::edge::agent::AgentPass;
use super::edge::receive::GRH;
use super::edge::send::For;
use super::edge::send::Make;
use super::edge::send::SendRequest;
use super::memory::Memory;
use crate::proto::mad::rmpp;
use crate::proto::mad::send::Ticks;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Layout;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Parameters of a send.
pub(super) struct Plan {
    /// QP number of the destination.
    pub(super) remote_qpn: u32,
    /// P_Key index.
    pub(super) pkey_index: u16,
    /// Whether it has RMPP headers.
    pub(super) rmpp: bool,
    /// Size of the headers in bytes.
    pub(super) header: usize,
    /// Size of the data in bytes.
    pub(super) data: usize,
    /// `IB_MGMT_BASE_VERSION` or `OPA_MGMT_BASE_VERSION`.
    pub(super) base_version: u8,
}

/// Allocates a send. The context depends on `memory`.
///
/// # Errors
///
/// `EINVAL` if the message does not fit, or the agent does not support RMPP; `ENOMEM`; `ENODEV` if
/// the agent is being unregistered.
pub(super) fn new(
    agent: &Arc<Agent>,
    plan: &Plan,
    whom: For,
    memory: Memory,
) -> Result<Arc<SendRequest>> {
    let opa = agent.live().is_opa() && plan.base_version == wire::OPA_VERSION;
    let mad_size = if opa {
        wire::OPA_MAD_SIZE
    } else {
        wire::MAD_SIZE
    };
    if plan.rmpp && !agent.does_rmpp() {
        return Err(EINVAL);
    }
    let layout = Layout::new(mad_size, plan.header, plan.data, plan.rmpp).ok_or(EINVAL)?;
    let pass = AgentPass::enter(agent.clone()).ok_or(ENODEV)?;
    let transfer = match whom {
        For::Consumer if plan.rmpp => Some(rmpp::Sender::new(&layout).ok_or(EINVAL)?),
        // An acknowledgement of a transfer is not a transfer itself.
        For::Consumer | For::Nobody(_) | For::Transfer(_) => None,
    };
    let rmpp = plan.rmpp.then(|| rmpp::Header {
        version: agent.rmpp_version(),
        kind: rmpp::Kind::Data as u8,
        flags: rmpp::flag::ACTIVE,
        status: rmpp::status::SUCCESS,
        segment: 0,
        length_or_window: 0,
    });
    // Omni-Path MADs may be shorter than the maximum.
    let room = layout.segment();
    let payload = if opa { room.min(plan.data) } else { room };
    let make = Make {
        remote_qpn: plan.remote_qpn,
        pkey_index: plan.pkey_index,
        rmpp,
        mad_size,
        payload: u32::try_from(payload).map_err(|_| EINVAL)?,
        data: plan.data,
        layout,
        transfer,
    };
    SendRequest::make(pass, make, whom, memory)
}

impl SendRequest {
    /// For tracepoints: response timeout; retries left and maximum number of retries. `None` as
    /// `Inner::step`.
    pub(super) fn times(&self) -> Option<(Ticks, (u32, u32))> {
        let inner = self.agent().inner().lock();
        let life = self.life.access(&inner.key)?;
        Some((life.patience(), life.retries()))
    }

    /// Byte count of its completion, including space for the global route header.
    pub(super) fn byte_len(&self) -> usize {
        let layout = self.layout();
        layout
            .header
            .saturating_add(layout.data)
            .saturating_add(GRH)
    }
}
