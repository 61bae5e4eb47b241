// SPDX-License-Identifier: GPL-2.0

//! Directed-route SMPs that do not leave this node: its subnet management agent, which is in the
//! driver, answers them.

use super::edge::agent::AgentPass;
use super::edge::receive::Received;
use super::edge::receive::RecvMad;
use super::edge::receive::GRH;
use super::edge::send::Claim;
use super::edge::send::SendRequest;
use super::edge::trace;
use super::transact;
use crate::proto::mad::send::End;
use crate::proto::mad::smi::Form;
use crate::proto::mad::smi::Smp;
use crate::proto::mad::smi::Verdict;
use crate::proto::mad::wire;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

/// A packet that was processed locally, and its result.
#[pin_data]
pub(super) struct Local {
    #[pin]
    links: ListLinks,
    send: Arc<SendRequest>,
    /// The response and its recipient; taken at delivery.
    answer: Option<(Received, AgentPass)>,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Local { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Local { using ListLinks { self.links }; }
}

impl Local {
    /// Delivers the response, and completes the send. Called without locks.
    pub(super) fn hand_over(self: ListArc<Self>) {
        let send = self.send.clone();
        // No other reference exists: it was in the list.
        let own = self.into_arc();
        let answer = {
            let mut unique = Arc::into_unique_or_drop(own);
            unique
                .as_mut()
                .and_then(|own| own.as_mut().project().answer.take())
        };
        if let Some((message, agent)) = answer {
            // First the response, then the completion of the request.
            agent.hand(Some(&send), message);
        }
        transact::finish(&send, End::Success, None);
    }
}

/// Advances an outgoing directed-route SMP on its route, and passes it to the driver if it is for
/// this node. Any context. Returns a packet that was processed here, which must not be sent: the
/// caller queues it.
///
/// # Errors
///
/// `EINVAL` if its route does not lead from here, or the driver refuses it; `ENOMEM`.
pub(super) fn outgoing(claim: &mut Claim) -> Result<Option<ListArc<Local>>> {
    let send = Arc::clone(claim);
    let agent = send.agent();
    let port = agent.live();
    let header = wire::Header::parse(claim.mad()).ok_or(EINVAL)?;
    let (pkey_index, wr_port) = claim.pkey_and_port();
    let port_number = if port.node().is_switch {
        wr_port
    } else {
        port.number()
    };
    let opa = port.is_opa();
    let form = if opa && header.class_version == wire::OPA_VERSION {
        Form::Opa
    } else {
        Form::Ib
    };
    trace::outgoing(claim.mad_mut(), form);
    let mut smp = Smp::new(claim.mad_mut(), form).ok_or(EINVAL)?;
    // An initial LID-routed part of the path does not change the packet.
    if smp.starts_on_route() && smp.send(port.node(), port_number) == Verdict::Discard {
        pr_err!("a packet to be sent is on no directed route from here\n");
        return Err(EINVAL);
    }
    let lid = smp.source_lid().ok_or(EINVAL)?;
    if !port.driver_handles() || !(smp.is_for_agent() || smp.is_for_manager()) {
        return Ok(None);
    }

    // CAST: a small constant.
    const LEN: u32 = (wire::MAD_SIZE + GRH) as u32;
    let mut answer = RecvMad::new(port.mad_size(), GFP_ATOMIC)?;
    let len = if opa && header.base_version == wire::OPA_VERSION {
        u32::try_from(send.byte_len()).map_err(|_| EINVAL)?
    } else {
        LEN
    };
    let qp = port.qp(agent.which()).ok_or(EINVAL)?;
    let wc = claim.looped(qp, lid, len);
    let Some(done) = port.process_mad(port_number, &wc, None, claim.mad(), &mut answer)? else {
        return Ok(None);
    };
    const SUCCESS: u32 = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
    const REPLY: u32 = SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_REPLY;
    const CONSUMED: u32 = SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED;
    let taker = match done.result {
        REPLY => {
            let is_response = answer.header().is_some_and(|header| header.is_response());
            if is_response && agent.receives() {
                AgentPass::enter(agent.clone())
            } else {
                None
            }
        }
        CONSUMED => None,
        SUCCESS => {
            // As if it had been received.
            for (to, from) in answer.mad().iter_mut().zip(claim.mad()) {
                *to = *from;
            }
            port.find_agent(answer.mad())
        }
        _ => return Err(EINVAL),
    };
    let pkey_index = if opa { done.pkey_index } else { pkey_index };
    if opa {
        claim.set_pkey_index(done.pkey_index);
    }
    let answer = taker.map(|taker| {
        let base_version = answer.header().map_or(0, |header| header.base_version);
        let port = taker.live();
        let mut wc = claim.looped(port.qp(taker.which()).unwrap_or(qp), u16::MAX, LEN);
        wc.set_pkey_and_port(pkey_index, port.number());
        answer.set_wc(&wc);
        let (len, segment) = if opa && base_version == wire::OPA_VERSION {
            (done.len.min(answer.mad_size()), wire::OPA_MAD_SIZE)
        } else {
            (wire::MAD_SIZE, wire::MAD_SIZE)
        };
        (answer.into_message(len, segment, false), taker)
    });
    let local = ListArc::pin_init::<Error>(
        try_pin_init!(Local {
            links <- ListLinks::new(),
            send: send.clone(),
            answer,
        }),
        GFP_ATOMIC,
    )?;
    Ok(Some(local))
}
