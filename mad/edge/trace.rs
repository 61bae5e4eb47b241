// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of `trace/events/ib_mad.h`. `trace.c` has them; the names of sends and
//! agents that the header uses are in `trace.h`.

use super::port::Live;
use super::receive::RecvMad;
use super::send::Mapped;
use super::Wc;
use crate::mad::agent::Agent;
use crate::private;
use crate::proto::mad::smi::Form;
use crate::proto::mad::smi::Smp;
use crate::proto::mad::wire::Special;
use core::ptr;
use rdma::bindings;
use rdma::edge::IntoC;
use rdma::edge::View;

/// An agent was made.
pub(crate) const CREATED: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_CREATED;
/// An agent is being unregistered.
pub(crate) const UNREGISTERED: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_UNREGISTERED;
/// An agent gets a MAD.
pub(crate) const RECEIVES: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_RECEIVES;
/// The device is done with a send of an agent.
const SENT_OF: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_SENT;

/// A send is given to the device.
pub(crate) const SEND: u32 = private::rdma_mad_send_event_RDMA_MAD_SEND;
/// The same, when there is room.
pub(crate) const RESEND: u32 = private::rdma_mad_send_event_RDMA_MAD_RESEND;
/// The same, after the queue pair was in error.
pub(crate) const REPEAT: u32 = private::rdma_mad_send_event_RDMA_MAD_REPEAT;
/// The device is done with a send.
const SENT: u32 = private::rdma_mad_send_event_RDMA_MAD_SENT;

/// Something happens to an agent. Any context.
pub(crate) fn agent(agent: &Agent, event: u32) {
    // SAFETY: What `CAgent` leads to exists as long as the agent.
    unsafe { private::rdma_mad_trace_agent(event, agent.c().traced()) };
}

/// A send is about to be given to the device. Any context.
pub(crate) fn send(send: &Mapped, event: u32) {
    of_send(send, event, None);
}

/// The device is done with a send.
pub(crate) fn send_done(send: &Mapped, wc: &Wc) {
    agent(send.agent(), SENT_OF);
    of_send(send, SENT, Some(wc));
}

fn of_send(send: &Mapped, event: u32, wc: Option<&Wc>) {
    // SAFETY: The function has no requirement.
    if !unsafe { private::rdma_mad_traces_send(event) } {
        return;
    }
    let agent = send.agent();
    let Some((timeout, retries)) = send.times() else {
        return;
    };
    let (ah, remote_qpn, remote_qkey) = send.traced();
    let tid = send.mad().get(8..16).and_then(<[u8]>::first_chunk);
    // What the header reads.
    let mut info = private::rdma_mad_send_info {
        mad_agent_priv: agent.c().traced(),
        send_buf: bindings::ib_mad_send_buf {
            mad: send.buf().mad().into_c(),
            hdr_len: send.buf().hdr_len(),
            data_len: send.buf().data_len(),
            ..Default::default()
        },
        send_wr: bindings::ib_ud_wr {
            ah,
            remote_qpn,
            remote_qkey,
            ..Default::default()
        },
        tid: tid.map_or(0, |tid| u64::from_ne_bytes(*tid)),
        // CAST: 64-bit kernels only.
        timeout: timeout as usize,
        max_retries: retries.1 as i32,
        retries_left: retries.0 as i32,
        retry: 0,
    };
    // SAFETY: All of it is borrowed for the call, and only read. The MAD has a header, which is
    // the least that `Layout` gives; its address handle exists while it is posted.
    unsafe { private::rdma_mad_trace_send(event, &mut info, agent.c().traced_qp(), wc.into_c()) };
}

/// A MAD came by a queue pair.
pub(crate) fn received(live: Live<'_>, which: Special, wc: &Wc, mad: &RecvMad) {
    let Some(qp) = live.qp(which) else { return };
    let mut of_port = private::rdma_mad_port_info {
        device: live.device().raw(),
        port_num: live.number() as i32,
    };
    let mut info = private::rdma_mad_qp_info {
        port_priv: &mut of_port,
        qp: qp.raw(),
    };
    let mad = ptr::from_ref(mad.parts().1).cast_mut();
    // SAFETY: All of it is borrowed for the call, and only read; a buffer has room for a MAD.
    unsafe { private::rdma_mad_trace_received(&mut info, wc.raw(), mad.cast()) };
}

/// A packet on a directed route is to be sent.
pub(crate) fn outgoing(mad: &mut [u8], form: Form) {
    smi(mad, form, true);
}

/// A packet on a directed route came.
pub(crate) fn incoming(mad: &mut [u8], form: Form) {
    smi(mad, form, false);
}

fn smi(mad: &mut [u8], form: Form, outgoing: bool) {
    if Smp::new(mad, form).is_none() {
        return;
    }
    // SAFETY: It has the headers of its form (`Smp::new`), which are all that is read.
    unsafe { private::rdma_mad_trace_smi(mad.as_mut_ptr().cast(), form == Form::Opa, outgoing) };
}
