// SPDX-License-Identifier: GPL-2.0

//! Received MADs: passed to the driver first, then to the agent that receives them.
//!
//! All of this runs in the work of the completion queue, one MAD at a time per port.

use super::edge::agent::AgentPass;
use super::edge::port::Live;
use super::edge::port::PortOf;
use super::edge::receive::Came;
use super::edge::receive::Received;
use super::edge::receive::RecvMad;
use super::edge::receive::GRH;
use super::edge::trace;
use super::edge::Wc;
use super::reply;
use super::transact;
use super::transfer;
use crate::proto::mad::rmpp;
use crate::proto::mad::smi;
use crate::proto::mad::smi::Form;
use crate::proto::mad::smi::Next;
use crate::proto::mad::smi::Smp;
use crate::proto::mad::smi::Verdict;
use crate::proto::mad::wire;
use crate::proto::mad::wire::class;
use crate::proto::mad::wire::Special;
use kernel::prelude::*;
use rdma::bindings;

// `enum ib_mad_result`: the driver accepted the MAD, consumed it, or has a reply.
const SUCCESS: u32 = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
const CONSUMED: u32 = bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED;
const REPLY: u32 = bindings::ib_mad_result_IB_MAD_RESULT_REPLY;

/// Status of a response to a MAD that nothing here handles.
const UNKNOWN: u16 = 0x000c;

/// Handles a completed receive. Called by the completion queue's work.
pub(super) fn received(port: PortOf<'_>, came: Came<'_>) {
    // Errors occur when the queue pair is destroyed; its buffers are freed after that.
    if came.wc.status() != bindings::ib_wc_status_IB_WC_SUCCESS {
        return;
    }
    let Some(entered) = port.enter() else { return };
    let port = entered.live();
    let (slot, which) = came.slot(port);
    let special = port.special(which);
    let Some(mut buffer) = special.received(slot, &came) else {
        return;
    };
    buffer.set_wc(came.wc);
    // Replaces this buffer in the receive queue; before that it takes the driver's reply.
    let Ok(mut spare) = RecvMad::new(port.mad_size(), GFP_KERNEL) else {
        special.refill(slot, buffer);
        return;
    };
    match port.handing(|| process(port, which, came.wc, buffer, &mut spare)) {
        Some(unused) => special.refill(slot, unused),
        None => special.refill(slot, spare),
    }
}

/// Handles a MAD. Returns the buffer, unless it was delivered.
fn process(
    port: Live<'_>,
    which: Special,
    wc: &Wc,
    mut buffer: KBox<RecvMad>,
    spare: &mut KBox<RecvMad>,
) -> Option<KBox<RecvMad>> {
    let opa = port.is_opa();
    let Some(header) = buffer.header() else {
        return Some(buffer);
    };
    if !header.is_admissible(which, opa) {
        return Some(buffer);
    }
    trace::received(port, which, wc, &buffer);
    let is_opa_mad = opa && header.base_version == wire::OPA_VERSION;
    let in_port = if port.node().is_switch {
        wc.port_num()
    } else {
        port.number()
    };
    let back = reply::Back {
        port,
        qp: which,
        by: in_port,
    };
    if header.class == class::SMI_DIRECTED {
        let form = if is_opa_mad && header.class_version == wire::OPA_VERSION {
            Form::Opa
        } else {
            Form::Ib
        };
        trace::incoming(buffer.mad(), form);
        match route(port, form, in_port, buffer.mad()) {
            Some(Way::Here) => {}
            Some(Way::By(out)) => {
                let len = if form == Form::Opa {
                    (wc.byte_len() as usize).saturating_sub(GRH)
                } else {
                    buffer.mad_size()
                };
                let back = reply::Back { by: out, ..back };
                let (grh, mad) = buffer.parts();
                back.send(wc, grh, mad, len);
                return Some(buffer);
            }
            None => return Some(buffer),
        }
    }

    // The driver may consume or refuse the MAD first.
    let mut len = buffer.mad_size();
    let mut result = SUCCESS;
    let (grh, mad) = buffer.parts();
    let Ok(processed) = port.process_mad(port.number(), wc, Some(grh), mad, spare) else {
        return Some(buffer);
    };
    if let Some(processed) = processed {
        result = processed.result;
        len = processed.len;
        if opa {
            wc.set_pkey_index(processed.pkey_index);
        }
        if result & SUCCESS != 0 {
            if result & CONSUMED != 0 {
                return Some(buffer);
            }
            if result & REPLY != 0 {
                back.send(wc, buffer.parts().0, spare.mad(), len);
                return Some(buffer);
            }
        }
    }

    match port.find_agent(buffer.parts().1) {
        Some(agent) => {
            trace::agent(&agent, trace::RECEIVES);
            let (mad_len, segment) = if is_opa_mad {
                let len = (wc.byte_len() as usize).saturating_sub(GRH);
                (len.min(buffer.mad_size()), wire::OPA_MAD_SIZE)
            } else {
                (wire::MAD_SIZE, wire::MAD_SIZE)
            };
            deliver(&agent, buffer.into_message(mad_len, segment, true));
            None
        }
        None if result & SUCCESS != 0 && header.wants_refusal() => {
            let directed = header.class == class::SMI_DIRECTED;
            for (to, from) in spare.mad().iter_mut().zip(buffer.parts().1) {
                *to = *from;
            }
            let status = UNKNOWN | if directed { 0x8000 } else { 0 };
            if let Some([_, _, _, method, high, low, ..]) = spare.mad().first_chunk_mut::<8>() {
                *method = wire::method::GET_RESP;
                [*high, *low] = status.to_be_bytes();
            }
            if is_opa_mad {
                len = if wire::is_smi(header.class) {
                    smi::opa_headers(directed)
                } else {
                    wire::HEADER
                };
            }
            back.send(wc, buffer.parts().0, spare.mad(), len);
            Some(buffer)
        }
        None => Some(buffer),
    }
}

/// Destination of a packet on a directed route.
enum Way {
    /// This node.
    Here,
    /// Another node, through this port.
    By(u32),
}

/// Advances a packet on its route; `None` if it is to be discarded.
fn route(port: Live<'_>, form: Form, in_port: u32, mad: &mut [u8]) -> Option<Way> {
    let node = port.node();
    let mut smp = Smp::new(mad, form)?;
    if smp.receive(node, in_port) == Verdict::Discard {
        return None;
    }
    match smp.next() {
        Next::Local => Some(Way::Here),
        Next::Send => {
            let sent = smp.send(node, in_port) == Verdict::Handle;
            (sent && smp.is_for_agent() && port.driver_handles()).then_some(Way::Here)
        }
        Next::Forward if node.is_switch => Some(Way::By(u32::from(smp.forward_port()))),
        Next::Forward => Some(Way::Here),
    }
}

/// Delivers a message to an agent, once it is complete.
fn deliver(agent: &AgentPass, message: Received) {
    // The sender gets no response, as if there were no agent.
    if agent.rights().check(message.wc().pkey_index()).is_err() {
        return;
    }
    let Some(header) = wire::Header::parse(message.mad()) else {
        return;
    };
    let message = if agent.does_rmpp() {
        let is_data = wire::has_rmpp(header.class)
            && rmpp::Header::parse(message.mad()).is_some_and(|rmpp| rmpp.is_data());
        // Segments of a response that is not awaited are discarded.
        if is_data && header.is_response() {
            let expected = transact::arrived(agent, &message)
                .and_then(|arrived| agent.inner().lock().answered_by(&arrived));
            if expected.is_none() {
                return;
            }
        }
        match transfer::process(agent.owner(), message) {
            Some(message) => message,
            None => return,
        }
    } else {
        message
    };
    if header.is_response() {
        transact::answer(agent, message);
    } else {
        agent.hand(None, message);
    }
}
