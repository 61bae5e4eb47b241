// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of `trace/events/ib_mad.h`. They are defined in `trace.c`; `trace.h` has the
//! structures of sends and agents that the header reads.

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

/// An agent was created.
pub(crate) const CREATED: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_CREATED;
/// An agent is being unregistered.
pub(crate) const UNREGISTERED: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_UNREGISTERED;
/// An agent receives a MAD.
pub(crate) const RECEIVES: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_RECEIVES;
/// A send of an agent was completed.
const SENT_OF: u32 = private::rdma_mad_agent_event_RDMA_MAD_AGENT_SENT;

/// A send is posted.
pub(crate) const SEND: u32 = private::rdma_mad_send_event_RDMA_MAD_SEND;
/// A send that waited for queue space is posted.
pub(crate) const RESEND: u32 = private::rdma_mad_send_event_RDMA_MAD_RESEND;
/// A flushed send is posted again after the queue pair recovered.
pub(crate) const REPEAT: u32 = private::rdma_mad_send_event_RDMA_MAD_REPEAT;
/// A send was completed.
const SENT: u32 = private::rdma_mad_send_event_RDMA_MAD_SENT;

/// Traces an event of an agent. Any context.
pub(crate) fn agent(agent: &Agent, event: u32) {
    // SAFETY: The pointers in `CAgent` are valid as long as the agent exists (its invariant).
    unsafe { private::rdma_mad_trace_agent(event, agent.c().traced()) };
}

/// Traces a send that is about to be posted. Any context.
pub(crate) fn send(send: &Mapped, event: u32) {
    of_send(send, event, None);
}

/// Traces a completed send.
pub(crate) fn send_done(send: &Mapped, wc: &Wc) {
    agent(send.agent(), SENT_OF);
    of_send(send, SENT, Some(wc));
}

fn of_send(send: &Mapped, event: u32, wc: Option<&Wc>) {
    // SAFETY: The function has no requirements.
    if !unsafe { private::rdma_mad_traces_send(event) } {
        return;
    }
    let agent = send.agent();
    let Some((timeout, retries)) = send.times() else {
        return;
    };
    let (ah, remote_qpn, remote_qkey) = send.traced();
    let tid = send.mad().get(8..16).and_then(<[u8]>::first_chunk);
    // The fields that the header reads.
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
    // SAFETY: All arguments are borrowed for the call, and only read. The MAD has a header, the
    // minimum of `Layout`; its address handle exists while it is posted.
    unsafe { private::rdma_mad_trace_send(event, &mut info, agent.c().traced_qp(), wc.into_c()) };
}

/// Traces a MAD received on a queue pair.
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
    // SAFETY: All arguments are borrowed for the call, and only read; a buffer has the size of a
    // MAD.
    unsafe { private::rdma_mad_trace_received(&mut info, wc.raw(), mad.cast()) };
}

/// Traces an outgoing directed-route packet.
pub(crate) fn outgoing(mad: &mut [u8], form: Form) {
    smi(mad, form, true);
}

/// Traces a received directed-route packet.
pub(crate) fn incoming(mad: &mut [u8], form: Form) {
    smi(mad, form, false);
}

fn smi(mad: &mut [u8], form: Form, outgoing: bool) {
    if Smp::new(mad, form).is_none() {
        return;
    }
    // SAFETY: It has the headers of its form (`Smp::new`), and only those are read.
    unsafe { private::rdma_mad_trace_smi(mad.as_mut_ptr().cast(), form == Form::Opa, outgoing) };
}
