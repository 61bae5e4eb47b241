// SPDX-License-Identifier: GPL-2.0

//! Agents as C sees them (`struct ib_mad_agent`), the handlers of their consumers, and address
//! handles that the core creates for its own sends.

use super::port::Live;
use super::receive::Received;
use super::receive::GRH;
use super::send::SendRequest;
use super::Wc;
use crate::mad::agent::Agent;
use crate::object::tables::Ah;
use crate::object::Given;
use crate::object::Owned;
use crate::object::Qp;
use crate::private;
use crate::verbs;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::container_of;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::gate::OwnedPass;

/// Callbacks for completed sends and received MADs of an agent.
///
/// # Invariants
///
/// The handlers may be called as `include/rdma/ib_mad.h` says, as long as the agent is registered.
pub(crate) struct Handlers {
    pub(in crate::mad) send: bindings::ib_mad_send_handler,
    pub(in crate::mad) recv: bindings::ib_mad_recv_handler,
}

impl Handlers {
    /// No handlers.
    pub(crate) const NONE: Self = Self {
        send: None,
        recv: None,
    };

    /// Handlers of an agent of another part of the core.
    ///
    /// # Safety
    ///
    /// The handlers must satisfy the type invariant.
    pub(crate) const unsafe fn new(
        send: bindings::ib_mad_send_handler,
        recv: bindings::ib_mad_recv_handler,
    ) -> Self {
        // INVARIANT: By the safety contract of this function.
        Self { send, recv }
    }
}

/// The part of an agent that consumers and tracepoints read.
///
/// # Invariants
///
/// Written at creation and not changed. Its pointers refer to fields of the same object, to the
/// device of its port, and to its queue pair.
#[pin_data]
pub(crate) struct CAgent {
    info: Opaque<private::rdma_mad_agent_info>,
    request: Opaque<bindings::ib_mad_reg_req>,
    qp_info: Opaque<private::rdma_mad_qp_info>,
    port_info: Opaque<private::rdma_mad_port_info>,
}

// SAFETY: By the type invariant it is only read; consumers' contexts and handlers may be used from
// any thread.
unsafe impl core::marker::Send for CAgent {}
// SAFETY: As for `Send`.
unsafe impl Sync for CAgent {}

/// Parameters of a [`CAgent`].
pub(crate) struct Make<'a> {
    pub(crate) live: Live<'a>,
    pub(crate) qp: &'a Qp,
    pub(crate) port: u8,
    pub(crate) handlers: &'a Handlers,
    pub(crate) context: Passed<c_void>,
    pub(crate) tid: u32,
    pub(crate) flags: u32,
    pub(crate) rmpp_version: u8,
    /// Management class and class version that it receives.
    pub(crate) class: (u8, u8),
}

impl CAgent {
    /// Initializes it in place.
    pub(crate) fn new(make: &Make<'_>) -> impl PinInit<Self> {
        let device = make.live.device().raw();
        let agent = bindings::ib_mad_agent {
            device,
            qp: make.qp.raw(),
            recv_handler: make.handlers.recv,
            send_handler: make.handlers.send,
            context: make.context.into_c(),
            hi_tid: make.tid,
            flags: make.flags,
            port_num: make.port,
            rmpp_version: make.rmpp_version,
            ..Default::default()
        };
        let request = bindings::ib_mad_reg_req {
            mgmt_class: make.class.0,
            mgmt_class_version: make.class.1,
            ..Default::default()
        };
        let port = i32::from(make.port);
        let qp = make.qp.raw();
        // SAFETY: All fields are written, and it cannot fail. The pointers stay valid, as the
        // object is pinned.
        unsafe {
            pin_init::pin_init_from_closure(move |this: *mut Self| {
                let request_at = Opaque::cast_into(&raw const (*this).request);
                let port_at = Opaque::cast_into(&raw const (*this).port_info);
                let qp_at = Opaque::cast_into(&raw const (*this).qp_info);
                request_at.write(request);
                port_at.write(private::rdma_mad_port_info {
                    device,
                    port_num: port,
                });
                qp_at.write(private::rdma_mad_qp_info {
                    port_priv: port_at,
                    qp,
                });
                Opaque::cast_into(&raw const (*this).info).write(private::rdma_mad_agent_info {
                    agent,
                    reg_req: request_at,
                    qp_info: qp_at,
                });
                Ok::<(), core::convert::Infallible>(())
            })
        }
    }

    /// The C structure of the consumer.
    fn raw(&self) -> *mut bindings::ib_mad_agent {
        // SAFETY: Only the address is computed.
        unsafe { &raw mut (*self.info.get()).agent }
    }

    /// The C structure that tracepoints read.
    pub(super) fn traced(&self) -> *mut private::rdma_mad_agent_info {
        self.info.get()
    }

    /// The C structure of the queue pair that tracepoints read.
    pub(super) fn traced_qp(&self) -> *mut private::rdma_mad_qp_info {
        self.qp_info.get()
    }
}

/// The agent of a consumer's structure.
///
/// # Safety
///
/// `c` must come from a [`Registered`] that was given to a consumer and is not given back yet.
unsafe fn of_c(c: *mut bindings::ib_mad_agent) -> *const Agent {
    // SAFETY: By the contract of this function, `c` is embedded in a `CAgent` of an `Agent`; only
    // addresses are computed.
    unsafe {
        let info = container_of!(c, private::rdma_mad_agent_info, agent);
        let c_agent = container_of!(Opaque::cast_from(info), CAgent, info);
        container_of!(c_agent, Agent, c)
    }
}

/// An agent that the consumer receives on registration, and gives back to unregister it.
pub(crate) struct Registered(pub(crate) Arc<Agent>);

impl AnswerOk for Registered {
    type C = *mut bindings::ib_mad_agent;

    fn ok(self) -> Self::C {
        let raw = self.0.c().raw();
        // The consumer's reference.
        let _: *const Agent = Arc::into_raw(self.0);
        raw
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

// SAFETY: `from_c` is for an agent that a consumer received and does not use again
// (`ib_unregister_mad_agent` in `include/rdma/ib_mad.h`).
unsafe impl FromC for Registered {
    type C = *mut bindings::ib_mad_agent;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c` takes over the consumer's reference.
        Self(unsafe { Arc::from_raw(of_c(c)) })
    }
}
// SAFETY: It owns a reference to the agent.
unsafe impl Within<'_> for Registered {}

/// An agent that its consumer lends for a call.
pub(crate) struct AgentRef<'a>(ArcBorrow<'a, Agent>);

impl AgentRef<'_> {
    /// Takes a reference to the agent.
    pub(crate) fn shared(&self) -> Arc<Agent> {
        self.0.into()
    }
}

// SAFETY: `from_c` is for an agent that a consumer received and does not unregister during the
// call.
unsafe impl FromC for AgentRef<'_> {
    type C = *mut bindings::ib_mad_agent;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The consumer holds a reference during the call.
        Self(unsafe { ArcBorrow::from_raw(of_c(c)) })
    }
}
// SAFETY: The consumer holds a reference for the call.
unsafe impl<'a> Within<'a> for AgentRef<'a> {}

/// Use of an agent, which stays registered as long as this exists: the consumer's handlers may be
/// called.
///
/// # Invariants
///
/// It is a pass of the agent's own gate. `Agent::unregister` closes the gate and waits until it is
/// empty, before it returns to the consumer.
pub(crate) struct AgentPass(OwnedPass<Agent>);

impl AgentPass {
    /// Returns `None` if the agent is being unregistered. Any context.
    pub(crate) fn enter(agent: Arc<Agent>) -> Option<Self> {
        // INVARIANT: The agent's own gate.
        OwnedPass::try_enter(agent, Agent::gate).map(Self)
    }

    /// The agent.
    pub(crate) fn owner(&self) -> &Arc<Agent> {
        self.0.owner()
    }

    /// The C structure of the consumer.
    pub(super) fn raw(&self) -> *mut bindings::ib_mad_agent {
        self.c().raw()
    }

    /// Passes a message to the receive handler, with the send that it responds to, if any. Called
    /// without locks.
    pub(crate) fn hand(&self, to: Option<&SendRequest>, message: Received) {
        let Some(handler) = self.handlers().recv else {
            return;
        };
        let buf = to.map_or(ptr::null_mut(), |send| send.buf().raw());
        // SAFETY: The agent is registered (type invariant), so its consumer's handler may be
        // called. The handler takes ownership of the message; a send that is responded to has not
        // ended.
        unsafe { handler(self.raw(), buf, message.into_raw()) };
    }

    /// Reports the end of a send to the send handler; the send belongs to the consumer again.
    /// Called without locks.
    pub(crate) fn tell(&self, send: &SendRequest, status: bindings::ib_wc_status, vendor_err: u32) {
        let Some(handler) = self.handlers().send else {
            return;
        };
        let mut wc = bindings::ib_mad_send_wc {
            send_buf: send.buf().raw(),
            status,
            vendor_err,
        };
        // SAFETY: The agent is registered (type invariant), so its consumer's handler may be
        // called. The send exists while it is borrowed, and with it the consumer's message.
        unsafe { handler(self.raw(), &mut wc) };
    }
}

impl Deref for AgentPass {
    type Target = Agent;

    #[inline]
    fn deref(&self) -> &Agent {
        self.0.owner()
    }
}

/// An address handle that the core created for an agent. Dropping it destroys it, and may sleep.
///
/// # Invariants
///
/// `ah` is an address handle of the protection domain of the agent's port, and nothing else
/// destroys it. The port is open as long as the agent exists.
pub(crate) struct Handle {
    ah: NonNull<bindings::ib_ah>,
    _agent: Arc<Agent>,
}

// SAFETY: Address handles are not bound to a thread.
unsafe impl core::marker::Send for Handle {}
// SAFETY: Nothing is modified through a shared reference.
unsafe impl Sync for Handle {}

impl Handle {
    /// Creates an address handle for the sender of a message, through a port of the device. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of address resolution; errors of the driver.
    pub(crate) fn back(agent: &Arc<Agent>, wc: &Wc, grh: &[u8; GRH], port: u32) -> Result<Self> {
        let pd = agent.live().pd().ok_or(EINVAL)?;
        let ah = verbs::create_reply_ah(pd, wc, grh, port)?;
        // INVARIANT: The handle is new, and owned by this from here on.
        Ok(Self {
            ah: ah.into_raw(),
            _agent: agent.clone(),
        })
    }

    /// The C structure.
    pub(super) fn raw(&self) -> *mut bindings::ib_ah {
        self.ah.as_ptr()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let flags = bindings::rdma_destroy_ah_flags_RDMA_DESTROY_AH_SLEEPABLE;
        // SAFETY: By the type invariant this is the only owner; sends that use the handle have
        // ended, as they keep its owner.
        let ah: Owned<Ah> = unsafe { Owned::from_c(self.ah.as_ptr()) };
        let _: Result = verbs::destroy_ah(Given::of(ah), flags, None);
    }
}

/// Destination of an address handle.
pub(crate) struct AhPath {
    pub(crate) lid: u32,
    pub(crate) path_bits: u8,
    /// Index of the local GID, and the remote GID.
    pub(crate) grh: Option<(u8, [u8; 16])>,
}

impl AhPath {
    /// Queries the driver for the destination of an address handle.
    pub(crate) fn of(ah: &Ah) -> Option<Self> {
        let mut attr = bindings::rdma_ah_attr::default();
        // SAFETY: `attr` is valid, has no references, and is not shared.
        verbs::query_ah(ah, unsafe {
            crate::object::tables::AhAttr::view(&raw mut attr)
        })
        .ok()?;
        // SAFETY: `type_` says which member of the union the driver has written; both members, and
        // those of GIDs, are plain bytes.
        let (lid, path_bits, there) = unsafe {
            let (lid, path_bits) = match attr.type_ {
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => (
                    u32::from(attr.__bindgen_anon_1.ib.dlid),
                    attr.__bindgen_anon_1.ib.src_path_bits,
                ),
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => (
                    attr.__bindgen_anon_1.opa.dlid,
                    attr.__bindgen_anon_1.opa.src_path_bits,
                ),
                _ => (0, 0),
            };
            (lid, path_bits, *attr.grh.dgid.raw)
        };
        let has_grh = u32::from(attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH != 0;
        Some(Self {
            lid,
            path_bits,
            grh: has_grh.then_some((attr.grh.sgid_index, there)),
        })
    }
}
