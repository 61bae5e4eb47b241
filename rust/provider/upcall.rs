// SPDX-License-Identifier: GPL-2.0

//! Upcalls: calls from a driver's data path to the consumer of a queue.
//!
//! A data path runs on packets, timers and work items, which may outlive the verbs object. An
//! upcall is a counted handle of the object: the data path keeps it, and may call through it in any
//! context. Destroying the object waits for running upcalls and then disables all its handles;
//! calls through a disabled handle do nothing.
//!
//! Do not hold locks that the consumer's handler may need: a completion handler may poll, arm and
//! post. For the same reason, do not make upcalls from within a verb of a kernel consumer, such as
//! `post_send`, but from a work item or on packet reception.
//!
//! These are rules of the kernel, `Documentation/infiniband/core_locking.rst`. It also permits only
//! one running completion handler per queue, which [`CqUpcall::completed`] ensures.

use crate::accounted;
use crate::bindings;
use crate::gate::Gate;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Full;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;

/// A verbs object that may be destroyed.
///
/// # Invariants
///
/// While a pass of `gate` exists, `object` points to a live object of the core.
#[pin_data]
struct Inner<C> {
    object: NonNull<C>,
    /// [`IDLE`], [`RUNNING`] or [`AGAIN`]; only for completion queues.
    handler: Atomic<i32>,
    #[pin]
    gate: Gate,
}

/// The completion handler is not running.
const IDLE: i32 = 0;
/// It is running, and has not missed a completion.
const RUNNING: i32 = 1;
/// It is running, or about to run, and must run once more.
const AGAIN: i32 = 2;

// SAFETY: The object is accessed only under the core's synchronisation, as the methods below
// explain, and the other fields are `Send` and `Sync`.
unsafe impl<C> Send for Inner<C> {}
// SAFETY: As for `Send`.
unsafe impl<C> Sync for Inner<C> {}

/// A counted handle of a verbs object that may be destroyed.
pub(crate) struct Upcall<C>(Arc<Inner<C>>);

impl<C> Clone for Upcall<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> Upcall<C> {
    /// Creates a handle of an object. May sleep.
    ///
    /// # Safety
    ///
    /// `object` must be a live object of the core until [`Self::close`] has returned.
    pub(crate) unsafe fn new(object: NonNull<C>) -> Result<Self> {
        // INVARIANT: Contract of this function; closing the gate waits for all passes.
        let inner = Arc::pin_init(
            pin_init!(Inner {
                object,
                handler: Atomic::new(IDLE),
                gate <- Gate::new(),
            }),
            accounted::GFP,
        )?;
        Ok(Self(inner))
    }

    /// Disables the handle, after waiting for its users. May sleep.
    pub(crate) fn close(&self) {
        self.0.gate.close_and_wait();
    }

    /// Calls `f` with the object, unless it was destroyed.
    pub(crate) fn with<R>(&self, f: impl FnOnce(NonNull<C>) -> R) -> Option<R> {
        let _pass = self.0.gate.try_enter()?;
        Some(f(self.0.object))
    }
}

/// Upcalls of a completion queue.
#[derive(Clone)]
pub struct CqUpcall(pub(crate) Upcall<bindings::ib_cq>);

impl CqUpcall {
    /// Notifies the consumer of completions for which it armed the queue. Any context, but without
    /// locks.
    ///
    /// If the handler is running already, on another CPU or further up the call stack, it runs once
    /// more when it returns, and this call does not wait.
    pub fn completed(&self) {
        let state = &self.0 .0.handler;
        if state.xchg(AGAIN, Full) != IDLE {
            return;
        }
        loop {
            // The call below covers all completions up to here.
            let _ = state.xchg(RUNNING, Full);
            self.0.with(|cq| {
                let cq = cq.as_ptr();
                // SAFETY: The queue is live. These fields do not change once the queue can be
                // armed, which precedes its first completion.
                unsafe {
                    if let Some(handler) = (*cq).comp_handler {
                        handler(cq, (*cq).cq_context);
                    }
                }
            });
            if state.cmpxchg(RUNNING, IDLE, Full).is_ok() {
                return;
            }
        }
    }

    /// Notifies the consumer that the queue has overrun and is unusable (IBTA 11.6.3.4). Any
    /// context.
    pub fn error(&self) {
        self.0.with(|cq| {
            let cq = cq.as_ptr();
            // SAFETY: The queue is live; the event is valid for the call, as handlers require.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*cq).device,
                    element: bindings::ib_event__bindgen_ty_1 {
                        cq: ManuallyDrop::new(cq),
                    },
                    event: bindings::ib_event_type_IB_EVENT_CQ_ERR,
                };
                if let Some(handler) = (*cq).event_handler {
                    handler(&mut event, (*cq).cq_context);
                }
            }
        });
    }
}

/// Events of a queue pair (IBTA 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpEvent {
    /// The queue pair cannot continue, due to an error of the device.
    Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
    /// A peer sent an invalid request.
    RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// A peer requested a forbidden access.
    AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet was received before the queue pair was ready to send.
    CommunicationEstablished = bindings::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has drained.
    SendQueueDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// A queue pair in the error state took its last request from the shared receive queue.
    LastWqeReached = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

/// Upcalls of a queue pair.
#[derive(Clone)]
pub struct QpUpcall(pub(crate) Upcall<bindings::ib_qp>);

impl QpUpcall {
    /// Notifies the consumer of an event. Any context, but without locks.
    pub fn event(&self, kind: QpEvent) {
        self.0.with(|qp| {
            let qp = qp.as_ptr();
            // SAFETY: The queue pair is live, and these fields do not change; the event is valid
            // for the call, as handlers require.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*qp).device,
                    element: bindings::ib_event__bindgen_ty_1 {
                        qp: ManuallyDrop::new(qp),
                    },
                    // CAST: The enum is `repr(u32)` with the C numbers.
                    event: kind as u32,
                };
                if let Some(handler) = (*qp).event_handler {
                    handler(&mut event, (*qp).qp_context);
                }
            }
        });
    }

    /// Returns whether the queue pair was destroyed.
    pub fn is_dead(&self) -> bool {
        self.0.with(|_| ()).is_none()
    }
}

/// Events of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SrqEvent {
    /// The queue is unusable.
    Error = bindings::ib_event_type_IB_EVENT_SRQ_ERR,
    /// Fewer requests than the limit are left.
    LimitReached = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
}

/// Upcalls of a shared receive queue.
#[derive(Clone)]
pub struct SrqUpcall(pub(crate) Upcall<bindings::ib_srq>);

impl SrqUpcall {
    /// Notifies the consumer of an event. Any context, but without locks.
    pub fn event(&self, kind: SrqEvent) {
        self.0.with(|srq| {
            let srq = srq.as_ptr();
            // SAFETY: The queue is live, and these fields do not change; the event is valid for the
            // call, as handlers require.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*srq).device,
                    element: bindings::ib_event__bindgen_ty_1 {
                        srq: ManuallyDrop::new(srq),
                    },
                    // CAST: The enum is `repr(u32)` with the C numbers.
                    event: kind as u32,
                };
                if let Some(handler) = (*srq).event_handler {
                    handler(&mut event, (*srq).srq_context);
                }
            }
        });
    }
}
