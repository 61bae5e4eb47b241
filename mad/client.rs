// SPDX-License-Identifier: GPL-2.0

//! Agents of other parts of the core: the functions of `include/rdma/ib_mad.h`, for Rust.
//!
//! An agent is shared, and keeps its port open until it is dropped. After [`unregister`] nothing
//! is sent by it.

use super::abi;
use super::agent::Wish;
use super::edge::send::Claim;
use super::edge::send::For;
use super::send;
use super::send::Plan;
use super::transact;
use crate::device::Device;
use crate::proto::mad::rmpp;
use crate::verbs::object::Pd;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::Passed;

pub(crate) use super::agent::Agent;
pub(crate) use super::edge::agent::Handlers;
pub(crate) use super::edge::receive::Received;
pub(crate) use super::edge::send::Send;
pub(crate) use super::edge::send::SendBuf;

/// Registers an agent of queue pair 1, which receives nothing but the answers to its own
/// datagrams. Transfers are put together for it. May sleep.
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

/// Unregisters an agent: its sends end, and nothing is handed to it from when this returns.
/// Waits for sends that are not freed yet. May sleep; not from a handler.
pub(crate) fn unregister(agent: &Arc<Agent>) {
    Agent::unregister(agent);
}

/// The upper half of the numbers of an agent's transactions.
pub(crate) fn transactions(agent: &Agent) -> u32 {
    agent.tid()
}

/// The protection domain of an agent's queue pair.
pub(crate) fn pd(agent: &Agent) -> Option<&Pd> {
    agent.live().pd()
}

/// Allocates a datagram of so many bytes of headers and data, to queue pair 1 of the other end,
/// by the P_Key at an index. The context is that of `gfp`.
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
) -> Result<Arc<Send>> {
    let plan = Plan {
        remote_qpn: 1,
        pkey_index,
        rmpp: false,
        header,
        data,
        base_version,
    };
    send::new(agent, &plan, For::Consumer, abi::flags(gfp))
}

/// Writes the bytes of a datagram, which is not posted. Returns what `write` returns.
///
/// # Errors
///
/// `EINVAL` if it is posted.
pub(crate) fn write<R>(send: &Arc<Send>, write: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
    Ok(write(Claim::new(send).ok_or(EINVAL)?.mad_mut()))
}

/// Sends a datagram. Any context.
///
/// # Errors
///
/// Those of `ib_post_send_mad`; it is not told that the datagram has ended then.
pub(crate) fn post(send: &Arc<Send>) -> Result {
    transact::post(send)
}

/// Cancels a datagram, if it is posted. Any context.
pub(crate) fn cancel(send: &Arc<Send>) {
    // It may have ended.
    let _: Result = transact::modify(send, 0);
}
