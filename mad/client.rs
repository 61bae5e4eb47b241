// SPDX-License-Identifier: GPL-2.0

//! Agents of other parts of the core: the functions of `include/rdma/ib_mad.h` for Rust.
//!
//! An agent is reference counted, and keeps its port open until it is dropped. Nothing is sent
//! after [`unregister`].

use super::abi;
use super::agent::Wish;
use super::edge::send::For;
use super::memory::Memory;
use super::send;
use super::send::Plan;
use super::transact;
use crate::device::Device;
use crate::object::Pd;
use crate::proto::mad::rmpp;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::Passed;

pub(crate) use super::agent::Agent;
pub(crate) use super::edge::agent::Handlers;
pub(crate) use super::edge::receive::Received;
pub(crate) use super::edge::send::Claim;
pub(crate) use super::edge::send::SendBuf;
pub(crate) use super::edge::send::SendRequest;

/// Registers an agent of the GSI that receives only responses to its own MADs. RMPP transfers are
/// reassembled for it. May sleep.
///
/// # Errors
///
/// Those of `ib_register_mad_agent`.
pub(crate) fn register(device: &Device, port: u32, handlers: Handlers) -> Result<Arc<Agent>> {
    let wish = Wish {
        qp: abi::special(device, port, bindings::ib_qp_type_IB_QPT_GSI)?,
        rule: None,
        rmpp_version: rmpp::VERSION,
        flags: 0,
        handlers,
        context: Passed::NULL,
    };
    abi::register(device, port, None, wish)
}

/// Unregisters an agent: ends its sends, and waits until all of them are freed. No handler is
/// called after this returns. A second call does nothing, and does not wait for the first. May
/// sleep; not from a handler.
pub(crate) fn unregister(agent: &Arc<Agent>) {
    kernel::warn_on!(!Agent::unregister(agent));
}

/// The upper half of an agent's transaction IDs.
pub(crate) fn transactions(agent: &Agent) -> u32 {
    agent.tid()
}

/// Protection domain of an agent's queue pair.
pub(crate) fn pd(agent: &Agent) -> Option<&Pd> {
    agent.live().pd()
}

/// Allocates a MAD for the GSI of another port, with `header` and `data` bytes. The context depends
/// on `gfp`.
///
/// # Errors
///
/// Those of `ib_create_send_mad`.
pub(crate) fn allocate(
    agent: &Arc<Agent>,
    pkey_index: u16,
    (header, data): (usize, usize),
    base_version: u8,
    gfp: bindings::gfp_t,
) -> Result<Arc<SendRequest>> {
    let plan = Plan {
        remote_qpn: 1,
        pkey_index,
        rmpp: false,
        header,
        data,
        base_version,
    };
    send::new(agent, &plan, For::Consumer, Memory::of(gfp))
}

/// Writes the bytes of a MAD that is not posted. Returns the result of `write`.
///
/// # Errors
///
/// `EINVAL` if the MAD is posted.
pub(crate) fn write<R>(send: &Arc<SendRequest>, write: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
    Ok(write(Claim::new(send).ok_or(EINVAL)?.mad_mut()))
}

/// Posts a send. Any context.
///
/// # Errors
///
/// Those of `ib_post_send_mad`; the send handler is not called then.
pub(crate) fn post(send: &Arc<SendRequest>) -> Result {
    transact::post(send)
}

/// Cancels a send, if it is posted. Any context.
pub(crate) fn cancel(send: &Arc<SendRequest>) {
    // Ignored: the send may have ended.
    let _: Result = transact::modify(send, 0);
}
