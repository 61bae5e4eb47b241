// SPDX-License-Identifier: GPL-2.0

//! Waiting for absent pages of on-demand memory.
//!
//! A half that needs absent pages stops: it keeps the current packet
//! ([`proto::Disposition::Parked`](crate::proto::Disposition)) and those behind it, or leaves its
//! next packet unsent. At the end of the turn the fault is passed to a work item, which faults the
//! pages in and kicks the half. If something else kicks the half earlier, it retries, which is
//! harmless. Thus order is preserved, and softirqs never sleep.
//!
//! ```text
//!   turn: Absent ---> wanted ---> work item: fault_in --- ok ------> kick, try again
//!                                                    \--- error ---> refused, kick,
//!                                                                    the request fails
//! ```
//!
//! Context: the work item runs in process context and may sleep for long; the runner of the half
//! calls everything else.

use super::work;
use super::Qp;
use crate::mem::Fault;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::workqueue::WorkItem;
use rdma::sync::SpinLockIrq;

/// State of one half's wait for memory.
#[pin_data]
pub(super) struct Parking {
    #[pin]
    wait: SpinLockIrq<Wait>,
}

struct Wait {
    /// The fault that the half waits for.
    wanted: Option<Fault>,
    /// The fault that the work item is resolving.
    served: Option<Fault>,
    /// A fault that could not be resolved.
    refused: Option<Fault>,
}

impl Parking {
    /// Creates a state without a wait.
    pub(super) fn new() -> impl PinInit<Self> {
        let none = Wait {
            wanted: None,
            served: None,
            refused: None,
        };
        pin_init!(Self {
            wait <- rdma::new_spinlock_irq!(none, "rxe::qp::Parking::wait"),
        })
    }

    /// Returns whether to wait for these pages. Returns `false` once for a fault that could not be
    /// resolved; a later request may try again.
    pub(super) fn is_hopeful(&self, fault: Option<Fault>) -> bool {
        let mut wait = self.wait.lock();
        if fault.is_some() && wait.refused == fault {
            wait.refused = None;
            return false;
        }
        fault.is_some()
    }

    /// Returns whether the work item must be queued for these pages. Not needed if it is resolving
    /// this very fault or has reported its failure.
    fn want(&self, fault: Fault) -> bool {
        let mut wait = self.wait.lock();
        if [wait.served, wait.refused].contains(&Some(fault)) {
            return false;
        }
        wait.wanted = Some(fault);
        true
    }

    /// Resolves the wanted fault. May sleep.
    fn serve(&self, memory: &crate::mem::Memory) {
        let wanted = {
            let mut wait = self.wait.lock();
            wait.served = wait.wanted.take();
            wait.served
        };
        if let Some(fault) = wanted {
            let refused = match memory.fault_in(&fault, true) {
                Ok(()) => None,
                // Transient: the half retries and faults again.
                Err(error) if error == EBUSY || error == EAGAIN => None,
                Err(_) => Some(fault),
            };
            let mut wait = self.wait.lock();
            wait.served = None;
            wait.refused = refused;
        }
    }
}

impl WorkItem<2> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        this.send_parking.serve(&this.dev.memory);
        Qp::kick_send(this.as_arc_borrow(), work::PACKETS | work::POLL);
    }
}

impl WorkItem<3> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        this.recv_parking.serve(&this.dev.memory);
        // The waiter may be a requester on this device.
        this.recv_wanted.store(1, Relaxed);
        Qp::kick_recv(this.as_arc_borrow(), work::PACKETS | work::POLL);
    }
}

impl Qp {
    /// Schedules the send half in process context, where it competes with other tasks for the CPU.
    /// Any context.
    pub(super) fn serve_later(this: ArcBorrow<'_, Self>) {
        // If the work item is queued already, it will run. It need not have a fault to resolve.
        let _ = rdma::workqueue::system_dfl().enqueue::<Arc<Qp>, 2>(this.into());
    }

    /// Schedules the resolution of the fault that the send half waits for.
    pub(super) fn await_send(this: ArcBorrow<'_, Self>, fault: Fault) {
        if this.send_parking.want(fault) {
            // A queued work item finds this fault; a running one will run again.
            let _ = rdma::workqueue::system_dfl().enqueue::<Arc<Qp>, 2>(this.into());
        }
    }

    /// Schedules the resolution of the fault that the receive half waits for.
    pub(super) fn await_recv(this: ArcBorrow<'_, Self>, fault: Fault) {
        if this.recv_parking.want(fault) {
            let _ = rdma::workqueue::system_dfl().enqueue::<Arc<Qp>, 3>(this.into());
        }
    }
}
