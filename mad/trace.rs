// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of `trace/events/ib_mad.h`. `trace.c` has them; the names of sends and
//! agents that the header uses are in `trace.h`.

use super::agent::Agent;
use super::port::Port;
use super::receive::RecvMad;
use super::send::Send;
use crate::private;
use crate::proto::mad::smi::Form;
use crate::proto::mad::smi::Smp;
use rdma::bindings;

/// An agent was made.
pub(super) const CREATED: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_CREATED;
/// An agent is being unregistered.
pub(super) const UNREGISTERED: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_UNREGISTERED;
/// An agent gets a MAD.
pub(super) const RECEIVES: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_RECEIVES;
/// The device is done with a send of an agent.
const SENT_OF: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_SENT;

/// A send is given to the device.
pub(super) const SEND: u32 = private::rdma_mad_send_event_RDMA_MAD_SEND;
/// The same, when there is room.
pub(super) const RESEND: u32 = private::rdma_mad_send_event_RDMA_MAD_RESEND;
/// The same, after the queue pair was in error.
pub(super) const REPEAT: u32 = private::rdma_mad_send_event_RDMA_MAD_REPEAT;
/// The device is done with a send.
const SENT: u32 = private::rdma_mad_send_event_RDMA_MAD_SENT;

/// Something happens to an agent. Any context.
pub(super) fn agent(agent: &Agent, event: u32) {
    // SAFETY: The agent is there, and registered or about to be.
    unsafe { private::rdma_mad_trace_agent(event, agent.traced()) };
}

/// A send is with the device, or about to be. Any context.
pub(super) fn send(send: &Send, event: u32) {
    of_send(send, event, core::ptr::null_mut());
}

/// The device is done with a send.
pub(super) fn send_done(send: &Send, wc: *mut bindings::ib_wc) {
    agent(send.agent(), SENT_OF);
    of_send(send, SENT, wc);
}

fn of_send(send: &Send, event: u32, wc: *mut bindings::ib_wc) {
    // SAFETY: It has no requirement.
    if !unsafe { private::rdma_mad_traces_send(event) } {
        return;
    }
    let agent = send.agent();
    let (patience, retries) = send.times();
    // SAFETY: It is being posted, or was completed, so that nobody else changes it.
    let mut wr = unsafe {
        private::rdma_mad_send_info {
            mad_agent_priv: agent.traced(),
            send_buf: *send.buf(),
            send_wr: core::ptr::read(send.wr().cast()),
            tid: 0,
            timeout: patience as usize,
            max_retries: retries.1 as i32,
            retries_left: retries.0 as i32,
            retry: 0,
        }
    };
    // SAFETY: The MAD has a header.
    unsafe { wr.tid = (*wr.send_buf.mad.cast::<bindings::ib_mad_hdr>()).tid };
    // SAFETY: All of it is there, and is read only.
    unsafe { private::rdma_mad_trace_send(event, &mut wr, agent.traced_qp(), wc) };
}

/// A MAD came.
pub(super) fn received(
    port: &Port,
    qp: *mut bindings::ib_qp,
    wc: &bindings::ib_wc,
    mad: &mut RecvMad,
) {
    let mut of_port = private::rdma_mad_port_info {
        device: port.device(),
        port_num: port.number() as i32,
    };
    let mut info = private::rdma_mad_qp_info {
        port_priv: &mut of_port,
        qp,
    };
    let wc = core::ptr::from_ref(wc).cast_mut();
    // SAFETY: All of it is there, and is read only; the MAD has a header.
    unsafe { private::rdma_mad_trace_received(&mut info, wc, mad.mad_ptr().cast()) };
}

/// A packet on a directed route is to be sent.
pub(super) fn outgoing(mad: &mut [u8], form: Form) {
    smi(mad, form, true);
}

/// A packet on a directed route came.
pub(super) fn incoming(mad: &mut [u8], form: Form) {
    smi(mad, form, false);
}

fn smi(mad: &mut [u8], form: Form, outgoing: bool) {
    if Smp::new(mad, form).is_none() {
        return;
    }
    // SAFETY: It has the headers of its form, which are all that is read.
    unsafe { private::rdma_mad_trace_smi(mad.as_mut_ptr().cast(), form == Form::Opa, outgoing) };
}
