// SPDX-License-Identifier: GPL-2.0

//! Calls from a driver's data path up to the consumer of a queue.
//!
//! A data path lives on packets, timers and work items, which may outlast the verbs object they
//! serve. An upcall is a counted handle of such an object: the data path keeps it, and may call
//! through it in any context. Destroying the object first waits for upcalls that are running and
//! then turns all handles of it dead; calls through a dead handle do nothing.
//!
//! Call them without holding locks that the consumer's reaction may need: a completion handler may
//! poll, arm and post at once. For the same reason never call them from within a verb of a kernel
//! consumer, `post_send` for instance, but from a work item or wherever packets come in.
//!
//! These rules are the kernel's, `Documentation/infiniband/core_locking.rst`. It also lets only one completion handler of a queue run at
//! a time; [`CqUpcall::completed`] sees to it.

use crate::accounted;
use crate::bindings;
use crate::gate::Gate;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Full;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;

/// A verbs object which may be gone.
///
/// # Invariants
///
/// While a pass of `gate` exists, `object` points to a live object of the core.
#[pin_data]
struct Inner<C> {
    object: NonNull<C>,
    /// [`IDLE`], [`RUNNING`] or [`AGAIN`]; of completion queues only.
    handler: Atomic<i32>,
    #[pin]
    gate: Gate,
}

/// No completion handler runs.
const IDLE: i32 = 0;
/// One runs and has not missed anything.
const RUNNING: i32 = 1;
/// One runs, or is about to, and has to run once more.
const AGAIN: i32 = 2;

// SAFETY: The object is only touched through the core's own synchronisation, as the methods below
// explain, and the other fields are `Send` and `Sync`.
unsafe impl<C> Send for Inner<C> {}
// SAFETY: See `Send`.
unsafe impl<C> Sync for Inner<C> {}

/// A counted handle of a verbs object which may be gone.
pub(crate) struct Upcall<C>(Arc<Inner<C>>);

impl<C> Clone for Upcall<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> Upcall<C> {
    /// Makes the handle of an object. May sleep.
    ///
    /// # Safety
    ///
    /// `object` stays a live object of the core until [`Self::close`] has returned.
    pub(crate) unsafe fn new(object: NonNull<C>) -> Result<Self> {
        // INVARIANT: The contract of this function; closing the gate waits for all passes.
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

    /// Turns the handle dead, after waiting for those who are using it. May sleep.
    pub(crate) fn close(&self) {
        self.0.gate.close_and_wait();
    }

    /// Runs `f` on the object unless it is gone.
    pub(crate) fn with<R>(&self, f: impl FnOnce(NonNull<C>) -> R) -> Option<R> {
        let _pass = self.0.gate.try_enter()?;
        Some(f(self.0.object))
    }
}

/// Upcalls of a completion queue.
#[derive(Clone)]
pub struct CqUpcall(pub(crate) Upcall<bindings::ib_cq>);

impl CqUpcall {
    /// Tells the consumer that completions it armed the queue for have come. Any context, but
    /// without locks.
    ///
    /// If the handler is running already, on another CPU or below us on this one, it runs once
    /// more when it returns, and this call does not wait.
    pub fn completed(&self) {
        let state = &self.0 .0.handler;
        if state.xchg(AGAIN, Full) != IDLE {
            return;
        }
        loop {
            // Everything up to here is covered by the call that follows.
            let _ = state.xchg(RUNNING, Full);
            self.0.with(|cq| {
                let cq = cq.as_ptr();
                // SAFETY: The queue is live. These fields do not change any more when it can
                // be armed, which precedes its first completion.
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

    /// Tells the consumer that the queue has overrun and is dead (IBA 11.6.3.4). Any context.
    pub fn error(&self) {
        self.0.with(|cq| {
            let cq = cq.as_ptr();
            // SAFETY: The queue is live; the event lives during the call, as handlers expect.
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

/// Events of a queue pair (IBA 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpEvent {
    /// The queue pair cannot go on, for a reason that lies with the device.
    Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
    /// A peer sent a request that makes no sense.
    RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// A peer asked for what it may not do.
    AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet came in before the queue pair was ready to send.
    CommunicationEstablished = bindings::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue has drained.
    SendQueueDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// A queue pair in error took its last request from the shared receive queue.
    LastWqeReached = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

/// Upcalls of a queue pair.
#[derive(Clone)]
pub struct QpUpcall(pub(crate) Upcall<bindings::ib_qp>);

impl QpUpcall {
    /// Tells the consumer of an event. Any context, but without locks.
    pub fn event(&self, kind: QpEvent) {
        self.0.with(|qp| {
            let qp = qp.as_ptr();
            // SAFETY: The queue pair is live and these fields do not change; the event lives
            // during the call, as handlers expect.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*qp).device,
                    element: bindings::ib_event__bindgen_ty_1 {
                        qp: ManuallyDrop::new(qp),
                    },
                    // CAST: the enum is `repr(u32)` with the C numbers.
                    event: kind as u32,
                };
                if let Some(handler) = (*qp).event_handler {
                    handler(&mut event, (*qp).qp_context);
                }
            }
        });
    }

    /// Whether the queue pair has been destroyed.
    pub fn is_dead(&self) -> bool {
        self.0.with(|_| ()).is_none()
    }
}

/// Events of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SrqEvent {
    /// The queue is dead.
    Error = bindings::ib_event_type_IB_EVENT_SRQ_ERR,
    /// Fewer requests than the limit are left.
    LimitReached = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
}

/// Upcalls of a shared receive queue.
#[derive(Clone)]
pub struct SrqUpcall(pub(crate) Upcall<bindings::ib_srq>);

impl SrqUpcall {
    /// Tells the consumer of an event. Any context, but without locks.
    pub fn event(&self, kind: SrqEvent) {
        self.0.with(|srq| {
            let srq = srq.as_ptr();
            // SAFETY: The queue is live and these fields do not change; the event lives during
            // the call, as handlers expect.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*srq).device,
                    element: bindings::ib_event__bindgen_ty_1 {
                        srq: ManuallyDrop::new(srq),
                    },
                    // CAST: the enum is `repr(u32)` with the C numbers.
                    event: kind as u32,
                };
                if let Some(handler) = (*srq).event_handler {
                    handler(&mut event, (*srq).srq_context);
                }
            }
        });
    }
}
