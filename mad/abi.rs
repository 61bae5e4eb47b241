// SPDX-License-Identifier: GPL-2.0

//! Exported functions. C header: `include/rdma/ib_mad.h`.

use super::agent::Agent;
use super::agent::Wish;
use super::edge::agent::AgentRef;
use super::edge::agent::Handlers;
use super::edge::agent::Registered;
use super::edge::consumer::BadSend;
use super::edge::consumer::Created;
use super::edge::consumer::Freed;
use super::edge::consumer::Lent;
use super::edge::consumer::Posts;
use super::edge::receive::Received;
use super::edge::send::For;
use super::edge::MadHdr;
use super::edge::RegReq;
use super::memory::Memory;
use super::send;
use super::send::Plan;
use super::transact;
use crate::device::Device;
use crate::proto::mad::registry::Request;
use crate::proto::mad::registry::Rule;
use crate::proto::mad::rmpp;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use core::ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::mad::MadAgent;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::errno::eprotonosupport;

/// Returns whether a MAD is a response. Any context.
fn is_response(header: In<'_, MadHdr>) -> c_int {
    c_int::from(wire::Header::parse(&header.bytes()).is_some_and(|header| header.is_response()))
}

/// See [`wire::has_rmpp`]. Any context.
fn has_rmpp(class: u8) -> c_int {
    c_int::from(wire::has_rmpp(class))
}

/// See [`wire::data_offset`]. Any context.
fn data_offset(class: u8) -> c_int {
    // CAST: at most 64.
    wire::data_offset(class) as c_int
}

/// Returns whether the core segments and reassembles an agent's transfers. Any context.
fn does_rmpp(agent: In<'_, MadAgent>) -> c_int {
    let by_user = agent.flags() & bindings::IB_MAD_USER_RMPP != 0;
    c_int::from(agent.rmpp_version() != 0 && !by_user)
}

/// Registers an agent. May sleep.
///
/// # Errors
///
/// `EPROTONOSUPPORT` if the port has no such queue pair; `ENODEV` if it has no MADs; `EINVAL` for
/// an invalid request, or one that conflicts with another agent; `ENOMEM`.
#[allow(clippy::too_many_arguments, reason = "as the C function has them")]
fn register_agent(
    device: &Device,
    port: u32,
    qp_type: u32,
    request: Option<&RegReq>,
    rmpp_version: u8,
    send: bindings::ib_mad_send_handler,
    recv: bindings::ib_mad_recv_handler,
    context: Passed<c_void>,
    flags: u32,
) -> Result<Registered> {
    let wish = Wish {
        qp: special(device, port, qp_type)?,
        rule: None,
        rmpp_version,
        flags,
        // INVARIANT: The handlers of a C consumer, as `ib_register_mad_agent` passes them.
        handlers: Handlers { send, recv },
        context,
    };
    register(device, port, request.map(RegReq::request), wish).map(Registered)
}

/// The special queue pair of a QP type, if the port has it.
pub(super) fn special(device: &Device, port: u32, qp_type: u32) -> Result<Special> {
    let (qp, cap) = match qp_type {
        bindings::ib_qp_type_IB_QPT_SMI => (Special::Smi, bindings::RDMA_CORE_CAP_IB_SMI),
        bindings::ib_qp_type_IB_QPT_GSI => (Special::Gsi, bindings::RDMA_CORE_CAP_IB_CM),
        _ => return Err(EINVAL),
    };
    let caps = device
        .immutable(port)
        .map_or(0, |immutable| immutable.core_cap_flags);
    if caps & cap == 0 {
        return Err(eprotonosupport());
    }
    Ok(qp)
}

pub(super) fn register(
    device: &Device,
    port: u32,
    request: Option<Request>,
    wish: Wish,
) -> Result<Arc<Agent>> {
    if wish.rmpp_version != 0 && wish.rmpp_version != rmpp::VERSION {
        return Err(EINVAL);
    }
    let rule = match request {
        Some(request) => {
            if wish.handlers.recv.is_none() {
                return Err(EINVAL);
            }
            Some(Rule::new(request, wish.qp, wish.rmpp_version != 0).map_err(|_| EINVAL)?)
        }
        None if wish.handlers.send.is_none() || wish.flags & bindings::IB_MAD_USER_RMPP != 0 => {
            return Err(EINVAL)
        }
        None => None,
    };
    let port = super::find(device, port).ok_or(ENODEV)?;
    Agent::register(port, Wish { rule, ..wish })
}

/// Unregisters an agent: ends its sends, and waits for those that are not freed yet. No handler is
/// called after this returns. May sleep; not from a handler.
fn unregister_agent(agent: Registered) {
    // True: `agent` is the consumer's only reference.
    let _: bool = Agent::unregister(&agent.0);
}

/// Allocates a send. The context depends on `gfp`.
///
/// # Errors
///
/// `EINVAL` if the message does not fit or cannot be segmented; `ENOMEM`; `ENODEV` if the agent is
/// being unregistered.
#[allow(clippy::too_many_arguments, reason = "as the C function has them")]
fn create_send(
    agent: AgentRef<'_>,
    remote_qpn: u32,
    pkey_index: u16,
    rmpp_active: c_int,
    hdr_len: c_int,
    data_len: c_int,
    gfp: bindings::gfp_t,
    base_version: u8,
) -> Result<Created> {
    let plan = Plan {
        remote_qpn,
        pkey_index,
        rmpp: rmpp_active != 0,
        header: usize::try_from(hdr_len).map_err(|_| EINVAL)?,
        data: usize::try_from(data_len).map_err(|_| EINVAL)?,
        base_version,
    };
    send::new(&agent.shared(), &plan, For::Consumer, Memory::of(gfp)).map(Created)
}

/// Frees a send that is not posted. Any context.
fn free_send(send: Freed) {
    drop(send);
}

/// Returns the data of a segment, numbered from 1. Any context.
fn segment(send: Lent<'_>, number: c_int) -> *mut c_void {
    let segment = send.send().and_then(|send| {
        let number = u32::try_from(number).unwrap_or(0);
        send.segment(number)
    });
    segment.map_or(ptr::null_mut(), |segment| segment.as_ptr().cast())
}

/// Posts a list of sends. Any context.
///
/// # Errors
///
/// `EINVAL` if the agent cannot send one; errors of the driver. That send and those after it belong
/// to the caller again; `bad` is set to that send.
fn post_sends(mut sends: Posts<'_>, bad: BadSend<'_>) -> Result {
    if sends.is_empty() {
        return Err(EINVAL);
    }
    while let Some(send) = sends.pop() {
        transact::post(&send).inspect_err(|_| bad.set(&send))?;
    }
    Ok(())
}

/// Changes the response timeout of a send; 0 cancels it. Any context.
///
/// # Errors
///
/// `EINVAL` if it is not posted, or has ended.
fn modify(send: Lent<'_>, timeout_ms: u32) -> Result {
    transact::modify(&send.send().ok_or(EINVAL)?, timeout_ms)
}

/// Frees a received message that was passed to a handler. Any context.
fn free_received(message: Received) {
    drop(message);
}

rdma::export! {
    in rdma::bindings;

    /// See [`is_response`].
    fn ib_response_mad(header: In<'_, MadHdr>) -> c_int = is_response;
    /// See [`has_rmpp`].
    fn ib_is_mad_class_rmpp(class: u8) -> c_int = has_rmpp;
    /// See [`data_offset`].
    fn ib_get_mad_data_offset(class: u8) -> c_int = data_offset;
    /// See [`does_rmpp`].
    fn ib_mad_kernel_rmpp_agent(agent: In<'_, MadAgent>) -> c_int = does_rmpp;
    /// See [`register_agent`].
    fn ib_register_mad_agent(
        device: &Device, port: u32, qp_type: u32, request: Option<&RegReq>, rmpp_version: u8,
        send: bindings::ib_mad_send_handler, recv: bindings::ib_mad_recv_handler,
        context: Passed<c_void>, flags: u32,
    ) -> Result<Registered> = register_agent;
    /// See [`unregister_agent`].
    fn ib_unregister_mad_agent(agent: Registered) = unregister_agent;
    /// See [`create_send`].
    fn ib_create_send_mad(
        agent: AgentRef<'_>, remote_qpn: u32, pkey_index: u16, rmpp_active: c_int,
        hdr_len: c_int, data_len: c_int, gfp: bindings::gfp_t, base_version: u8,
    ) -> Result<Created> = create_send;
    /// See [`free_send`].
    fn ib_free_send_mad(send: Freed) = free_send;
    /// See [`segment`].
    fn ib_get_rmpp_segment(send: Lent<'_>, number: c_int) -> *mut c_void = segment;
    /// See [`post_sends`].
    fn ib_post_send_mad(sends: Posts<'_>, bad: BadSend<'_>) -> Result = post_sends;
    /// See [`modify`].
    fn ib_modify_mad(send: Lent<'_>, timeout_ms: u32) -> Result = modify;
    /// See [`free_received`].
    fn ib_free_recv_mad(message: Received) = free_received;
}
