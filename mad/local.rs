// SPDX-License-Identifier: GPL-2.0

//! Subnet management packets on a directed route that do not leave this node: its own
//! agent, which is the driver, answers them.

use super::agent::Agent;
use super::agent::OwnedPass;
use super::receive::Received;
use super::receive::RecvMad;
use super::send::Send;
use super::transact;
use crate::proto::mad::send::End;
use crate::proto::mad::smi::Form;
use crate::proto::mad::smi::Smp;
use crate::proto::mad::smi::Verdict;
use crate::proto::mad::wire;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::ListArc;
use kernel::list::ListLinks;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

/// What became of a packet that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is to be sent.
    Send,
    /// It is dealt with; its agent will hear that it was sent.
    Consumed,
}

/// A packet that was dealt with here, and what comes of it.
#[pin_data]
pub(super) struct Local {
    #[pin]
    links: ListLinks,
    send: Arc<Send>,
    /// What is handed over, and to whom; taken when it is.
    answer: Option<(Received, OwnedPass)>,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Local { untracked; }
}
impl_list_item! {
    impl ListItem<0> for Local { using ListLinks { self.links }; }
}

impl Local {
    /// Hands over the answer, and says that the packet was sent. No lock is held.
    pub(super) fn hand_over(self: ListArc<Self>) {
        let send = self.send.clone();
        // Nobody else has it: it was in the list.
        let own = self.into_arc();
        let answer = {
            let mut unique = Arc::into_unique_or_drop(own);
            unique
                .as_mut()
                .and_then(|own| own.as_mut().project().answer.take())
        };
        if let Some((message, agent)) = answer {
            // First the answer, then that the request was sent.
            agent.hand(Some(&send), message);
        }
        transact::finish(&send, End::Success, None);
    }
}

/// The completion that a packet from this node itself would have.
fn completion(qp: *mut bindings::ib_qp, send: &Send, lid: u16, len: usize) -> bindings::ib_wc {
    // SAFETY: Zeros are one.
    let mut wc: bindings::ib_wc = unsafe { core::mem::zeroed() };
    // SAFETY: It is being posted by the caller.
    let (pkey_index, port) = unsafe { send.pkey_and_port() };
    wc.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(send.cqe());
    wc.status = bindings::ib_wc_status_IB_WC_SUCCESS;
    wc.opcode = bindings::ib_wc_opcode_IB_WC_RECV;
    wc.pkey_index = pkey_index;
    wc.byte_len = len as u32;
    wc.qp = qp;
    wc.slid = u32::from(lid);
    wc.port_num = port;
    wc
}

/// A packet on a directed route is to be sent: moves it along its route, and asks the driver
/// if it is for this node. Any context.
///
/// # Errors
///
/// `EINVAL` if it is on no way that leads from here, or the driver refuses it; `ENOMEM`.
pub(super) fn outgoing(send: &Arc<Send>) -> Result<Outcome> {
    let agent = send.agent();
    let port = agent.port();
    // SAFETY: The consumer has posted it, and the device does not have it.
    let mad = unsafe { send.mad_mut() };
    let header = wire::Header::parse(mad).ok_or(EINVAL)?;
    // SAFETY: As above.
    let (pkey_index, wr_port) = unsafe { send.pkey_and_port() };
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
    super::trace::outgoing(mad, form);
    let mut smp = Smp::new(mad, form).ok_or(EINVAL)?;
    // The part of the way by LIDs that comes first moves nothing.
    if smp.starts_on_route() && smp.send(port.node(), port_number) == Verdict::Discard {
        pr_err!("a packet to be sent is on no directed route from here\n");
        return Err(EINVAL);
    }
    let lid = smp.source_lid().ok_or(EINVAL)?;
    let process = port.ops().process_mad;
    let Some(process) = process.filter(|_| smp.is_for_agent() || smp.is_for_manager()) else {
        return Ok(Outcome::Send);
    };

    let mut answer = RecvMad::new(port.mad_size(), GFP_ATOMIC)?;
    let len = if opa && header.base_version == wire::OPA_VERSION {
        send.byte_len()
    } else {
        wire::MAD_SIZE + super::receive::GRH
    };
    let qp = agent.special().qp().ok_or(EINVAL)?;
    let wc = completion(qp, send, lid, len);
    let (mut answer_len, mut answer_pkey) = (port.mad_size(), 0_u16);
    // SAFETY: The device is registered; both MADs have the size that the port says, or that
    // of the packet, which its own header says.
    let result = unsafe {
        process(
            port.device(),
            0,
            port_number,
            &wc,
            ptr::null(),
            send.mad().as_ptr().cast(),
            answer.mad_ptr().cast(),
            &mut answer_len,
            &mut answer_pkey,
        )
    } as u32;
    const SUCCESS: u32 = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS;
    const REPLY: u32 = SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_REPLY;
    const CONSUMED: u32 = SUCCESS | bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED;
    let taker = match result {
        REPLY => {
            let is_response = answer.header().is_some_and(|header| header.is_response());
            if is_response && agent.receives() {
                OwnedPass::try_enter(agent.clone(), |agent: &Agent| agent.gate())
            } else {
                None
            }
        }
        CONSUMED => None,
        SUCCESS => {
            // As if it had come.
            // SAFETY: It is with nobody else.
            let packet = unsafe { send.mad() };
            for (to, from) in answer.mad().iter_mut().zip(packet) {
                *to = *from;
            }
            port.find_agent(answer.mad())
        }
        _ => return Err(EINVAL),
    };
    let pkey_index = if opa { answer_pkey } else { pkey_index };
    if opa {
        // SAFETY: It is being posted here.
        unsafe { send.set_pkey_index(answer_pkey) };
    }
    let answer = taker.map(|taker| {
        let base_version = answer.header().map_or(0, |header| header.base_version);
        let mut wc = completion(
            taker.special().qp().unwrap_or(qp),
            send,
            u16::MAX,
            wire::MAD_SIZE + super::receive::GRH,
        );
        wc.pkey_index = pkey_index;
        wc.port_num = taker.port().number();
        answer.set_wc(&wc);
        let (len, segment) = if opa && base_version == wire::OPA_VERSION {
            (answer_len.min(answer.mad_size()), wire::OPA_MAD_SIZE)
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
    agent.inner().lock().locals.push_back(local);
    agent.queue_local();
    Ok(Outcome::Consumed)
}
