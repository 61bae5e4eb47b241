// SPDX-License-Identifier: GPL-2.0

//! Waiting for pages of memory on demand.
//!
//! A half that needs absent pages stops: it keeps the present packet
//! ([`proto::Disposition::Parked`](crate::proto::Disposition)) and those behind it, or leaves its
//! next packet unsent. The end of the turn hands the fault to a work item, which brings the pages
//! in and kicks the half. If something else kicks the half before, it tries again, which does no
//! harm. So order is kept, and nothing sleeps in a softirq.
//!
//! ```text
//!   turn: Absent ---> wanted ---> work item: fault_in --- ok ------> kick, try again
//!                                                    \--- error ---> refused, kick,
//!                                                                    the request fails
//! ```
//!
//! Context: the work item runs in process context and may sleep for long; everything else is
//! called by the runner of the half.

use super::work;
use super::Qp;
use crate::mem::Fault;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::workqueue::WorkItem;
use rdma::sync::SpinLockIrq;

/// One half's wait for memory.
#[pin_data]
pub(super) struct Parking {
    #[pin]
    wait: SpinLockIrq<Wait>,
}

struct Wait {
    /// What the half waits for.
    wanted: Option<Fault>,
    /// What is being brought in.
    served: Option<Fault>,
    /// What it waited for and will not come.
    refused: Option<Fault>,
}

impl Parking {
    /// Nobody waits.
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

    /// Whether it makes sense to wait for these pages. If they were waited for in vain,
    /// it does not, once: who wants them again may try again.
    pub(super) fn is_hopeful(&self, fault: Option<Fault>) -> bool {
        let mut wait = self.wait.lock();
        if fault.is_some() && wait.refused == fault {
            wait.refused = None;
            return false;
        }
        fault.is_some()
    }

    /// Whether somebody has to be asked for these pages: not if their coming, or that
    /// they do not come, is about to be told.
    fn want(&self, fault: Fault) -> bool {
        let mut wait = self.wait.lock();
        if [wait.served, wait.refused].contains(&Some(fault)) {
            return false;
        }
        wait.wanted = Some(fault);
        true
    }

    /// Brings in what is wanted. May sleep.
    fn serve(&self, memory: &crate::mem::Memory) {
        let wanted = {
            let mut wait = self.wait.lock();
            wait.served = wait.wanted.take();
            wait.served
        };
        if let Some(fault) = wanted {
            let refused = match memory.fault_in(&fault, true) {
                Ok(()) => None,
                // Whoever wants them will want them again, and be here again.
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
        // A requester on this device may be who waits.
        this.recv_wanted.store(1, Relaxed);
        Qp::kick_recv(this.as_arc_borrow(), work::PACKETS | work::POLL);
    }
}

impl Qp {
    /// Has the send half run as a task of its own, which takes turns with others. Any context.
    pub(super) fn serve_later(this: ArcBorrow<'_, Self>) {
        // If it is queued it will run. There may be no memory to bring in.
        let _ = rdma::workqueue::system_dfl().enqueue::<Arc<Qp>, 2>(this.into());
    }

    /// Has the pages brought in that the send half waits for.
    pub(super) fn await_send(this: ArcBorrow<'_, Self>, fault: Fault) {
        if this.send_parking.want(fault) {
            // If it is queued it finds the fault; if it runs, it will run again.
            let _ = rdma::workqueue::system_dfl().enqueue::<Arc<Qp>, 2>(this.into());
        }
    }

    /// Has the pages brought in that the receive half waits for.
    pub(super) fn await_recv(this: ArcBorrow<'_, Self>, fault: Fault) {
        if this.recv_parking.want(fault) {
            let _ = rdma::workqueue::system_dfl().enqueue::<Arc<Qp>, 3>(this.into());
        }
    }
}
