// SPDX-License-Identifier: GPL-2.0

//! Answers that the core sends itself: the driver's, refusals, and, on a switch, packets
//! that are passed on.

use super::agent::Agent;
use super::agent::OwnedPass;
use super::agent::Wish;
use super::port::Port;
use super::receive::GRH;
use super::send::For;
use super::send::Plan;
use super::send::Send;
use super::transact;
use super::transfer::destroy_ah;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

/// The agent that answers are sent by; it receives nothing.
///
/// # Errors
///
/// Those of [`Agent::register`].
pub(super) fn agent(port: &Arc<Port>, qp: Special) -> Result<Arc<Agent>> {
    Agent::register(
        port,
        Wish {
            qp,
            rule: None,
            rmpp_version: 0,
            flags: 0,
            send: None,
            recv: None,
            context: ptr::null_mut(),
        },
    )
}

/// The way back of a MAD that came.
pub(super) struct Back<'a> {
    pub(super) port: &'a Port,
    pub(super) qp: Special,
    /// The port that it leaves by; of a switch.
    pub(super) by: u32,
}

impl Back<'_> {
    /// Sends an answer of so many bytes. May sleep. It is lost if there is no memory: who
    /// asked will ask again.
    pub(super) fn send(&self, wc: &bindings::ib_wc, grh: &[u8; GRH], mad: &[u8], len: usize) {
        if let Err(error) = self.try_send(wc, grh, mad, len) {
            pr_err!("a response to a management datagram was not sent: {error:?}\n");
        }
    }

    fn try_send(&self, wc: &bindings::ib_wc, grh: &[u8; GRH], mad: &[u8], len: usize) -> Result {
        let agent = self.port.replier(self.qp).ok_or(ENODEV)?;
        let agent = OwnedPass::try_enter(agent, |agent: &Agent| agent.gate()).ok_or(ENODEV)?;
        // SAFETY: All are valid, and the domain stays while there are agents.
        let ah = from_err_ptr(unsafe {
            bindings::ib_create_ah_from_wc(
                agent.pd(),
                ptr::from_ref(wc).cast_mut(),
                grh.as_ptr().cast_mut().cast(),
                self.by,
            )
        })?;
        let ah = NonNull::new(ah).ok_or(ENOMEM)?;
        self.with_handle(&agent, wc, mad, len, ah)
    }

    fn with_handle(
        &self,
        agent: &OwnedPass,
        wc: &bindings::ib_wc,
        mad: &[u8],
        len: usize,
        ah: NonNull<bindings::ib_ah>,
    ) -> Result {
        let base_version = mad.first().copied().unwrap_or(wire::VERSION);
        let len = if self.port.is_opa() && base_version != wire::OPA_VERSION {
            wire::MAD_SIZE
        } else {
            len.min(mad.len())
        };
        let data = len.checked_sub(wire::HEADER).ok_or(EINVAL);
        let send = data.and_then(|data| {
            let plan = Plan {
                remote_qpn: wc.src_qp,
                pkey_index: wc.pkey_index,
                rmpp: false,
                header: wire::HEADER,
                data,
                base_version,
            };
            Send::new(agent.owner(), &plan, For::Nobody(ah), GFP_KERNEL)
        });
        let send = match send {
            Ok(send) => send,
            Err(error) => {
                // SAFETY: Nobody has it.
                unsafe { destroy_ah(ah) };
                return Err(error);
            }
        };
        // SAFETY: Nobody else has the send yet.
        unsafe {
            for (to, from) in send.mad_mut().iter_mut().zip(mad.iter().take(len)) {
                *to = *from;
            }
            (*send.buf()).ah = ah.as_ptr();
            if self.port.node().is_switch {
                send.set_port(self.by);
            }
        }
        transact::post(&send).inspect_err(|_| Send::free_own(&send))
    }
}
