// SPDX-License-Identifier: GPL-2.0

//! MADs that came: the driver is asked first, then the agent is found that gets it.
//!
//! All of this runs on the completion queue's work, one at a time for each port.

use super::agent::OwnedPass;
use super::port::Port;
use super::queue::SpecialQp;
use super::receive::Received;
use super::receive::RecvMad;
use super::receive::GRH;
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
use kernel::container_of;
use kernel::prelude::*;
use rdma::bindings;

/// The status of a response to what nobody here knows.
const UNKNOWN: u16 = 0x000c;

/// A receive was completed.
///
/// # Safety
///
/// For completion queues only, of work requests that [`SpecialQp`] posted; the queue's
/// context is the [`Port`].
pub(super) unsafe extern "C" fn recv_done(cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: By this function's duty; the port stays until its queue pairs are gone.
    let (port, wc, slot, kind) = unsafe {
        let port = &*(*cq).cq_context.cast::<Port>();
        let buffer = container_of!(*(*wc).__bindgen_anon_1.wr_cqe, RecvMad, cqe);
        (port, &mut *wc, (*buffer).slot, (*buffer).kind)
    };
    // Errors come when the queue pair goes; its buffers are freed after it.
    if port.is_closing() || wc.status != bindings::ib_wc_status_IB_WC_SUCCESS {
        return;
    }
    let special = port.special(kind);
    let Some(mut buffer) = special.received(slot) else {
        return;
    };
    buffer.set_wc(wc);
    // What takes the place of this buffer; the driver writes its answer there first.
    let Ok(mut spare) = RecvMad::new(port.mad_size(), GFP_KERNEL) else {
        special.refill(slot, buffer);
        return;
    };
    match process(port, special, wc, buffer, &mut spare) {
        Some(unused) => special.refill(slot, unused),
        None => special.refill(slot, spare),
    }
}

/// Deals with a MAD. Answers the buffer, unless it was handed over.
fn process(
    port: &Port,
    special: &SpecialQp,
    wc: &mut bindings::ib_wc,
    mut buffer: KBox<RecvMad>,
    spare: &mut KBox<RecvMad>,
) -> Option<KBox<RecvMad>> {
    let opa = port.is_opa();
    let Some(header) = buffer.header() else {
        return Some(buffer);
    };
    if !header.is_admissible(special.kind(), opa) {
        return Some(buffer);
    }
    super::trace::received(port, special.qp().unwrap_or(wc.qp), wc, &mut buffer);
    let is_opa_mad = opa && header.base_version == wire::OPA_VERSION;
    let in_port = if port.node().is_switch {
        wc.port_num
    } else {
        port.number()
    };
    let back = reply::Back {
        port,
        qp: special.kind(),
        by: in_port,
    };
    if header.class == class::SMI_DIRECTED {
        let form = if is_opa_mad && header.class_version == wire::OPA_VERSION {
            Form::Opa
        } else {
            Form::Ib
        };
        super::trace::incoming(buffer.mad(), form);
        match route(port, form, in_port, buffer.mad()) {
            Some(Way::Here) => {}
            Some(Way::By(out)) => {
                let len = if form == Form::Opa {
                    (wc.byte_len as usize).saturating_sub(GRH)
                } else {
                    buffer.mad_size()
                };
                let back = reply::Back { by: out, ..back };
                back.send(wc, &buffer_grh(&mut buffer), buffer.mad(), len);
                return Some(buffer);
            }
            None => return Some(buffer),
        }
    }

    // The driver may refuse it first.
    let mut len = buffer.mad_size();
    let mut result = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
    if let Some(process) = port.ops().process_mad {
        let mut pkey = 0_u16;
        // SAFETY: The device is registered; both MADs have the size that the port says.
        result = unsafe {
            process(
                port.device(),
                0,
                port.number(),
                wc,
                buffer.grh_ptr(),
                buffer.mad_ptr().cast(),
                spare.mad_ptr().cast(),
                &mut len,
                &mut pkey,
            )
        } as u32;
        if opa {
            wc.pkey_index = pkey;
        }
        if result & bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS != 0 {
            if result & bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED != 0 {
                return Some(buffer);
            }
            if result & bindings::ib_mad_result_IB_MAD_RESULT_REPLY != 0 {
                back.send(wc, &buffer_grh(&mut buffer), spare.mad(), len);
                return Some(buffer);
            }
        }
    }

    match port.find_agent(buffer.mad()) {
        Some(agent) => {
            super::trace::agent(&agent, super::trace::RECEIVES);
            let (mad_len, segment) = if is_opa_mad {
                let len = (wc.byte_len as usize).saturating_sub(GRH);
                (len.min(buffer.mad_size()), wire::OPA_MAD_SIZE)
            } else {
                (wire::MAD_SIZE, wire::MAD_SIZE)
            };
            deliver(&agent, buffer.into_message(mad_len, segment, true));
            None
        }
        None if result & bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS != 0
            && header.wants_refusal() =>
        {
            let directed = header.class == class::SMI_DIRECTED;
            for (to, from) in spare.mad().iter_mut().zip(buffer.mad().iter()) {
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
            back.send(wc, &buffer_grh(&mut buffer), spare.mad(), len);
            Some(buffer)
        }
        None => Some(buffer),
    }
}

/// The room of the global route header.
fn buffer_grh(buffer: &mut RecvMad) -> [u8; GRH] {
    buffer.all().first_chunk().copied().unwrap_or([0; GRH])
}

/// Where a packet on a directed route goes.
enum Way {
    /// It is for this node.
    Here,
    /// Out by this port.
    By(u32),
}

/// Moves a packet along its route; none, if it is to be forgotten.
fn route(port: &Port, form: Form, in_port: u32, mad: &mut [u8]) -> Option<Way> {
    let node = port.node();
    let mut smp = Smp::new(mad, form)?;
    if smp.receive(node, in_port) == Verdict::Discard {
        return None;
    }
    match smp.next() {
        Next::Local => Some(Way::Here),
        Next::Send => {
            let sent = smp.send(node, in_port) == Verdict::Handle;
            (sent && smp.is_for_agent() && port.ops().process_mad.is_some()).then_some(Way::Here)
        }
        Next::Forward if node.is_switch => Some(Way::By(u32::from(smp.forward_port()))),
        Next::Forward => Some(Way::Here),
    }
}

/// Hands a message to an agent, when it is whole.
fn deliver(agent: &OwnedPass, message: Received) {
    let agent = agent.owner();
    // The sender hears nothing, as if nobody were here.
    if agent.rights().check(message.wc().pkey_index).is_err() {
        return;
    }
    let Some(header) = wire::Header::parse(message.mad()) else {
        return;
    };
    let message = if agent.does_rmpp() {
        let is_data = wire::has_rmpp(header.class)
            && rmpp::Header::parse(message.mad()).is_some_and(|rmpp| rmpp.is_data());
        // Nobody sends us segments of an answer that we do not wait for.
        if is_data && header.is_response() {
            let expected = transact::arrived(agent, &message)
                .and_then(|arrived| agent.inner().lock().answered_by(&arrived));
            if expected.is_none() {
                return;
            }
        }
        match transfer::process(agent, message) {
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
