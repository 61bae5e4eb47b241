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
//! A fault may never end, so the queue pair does not wait for it when it is reset or destroyed: the
//! work item belongs to a [`Parking`] of its own, which has a reference to the queue pair only as long
//! as that may be kicked. A reset queue pair gets a new one. [`crate::faults`] decides when the work
//! item runs.
//!
//! Advice to fault memory in is such a work item, too, which kicks nobody.
//!
//! Context: the work item runs in process context and may sleep for long; the runner of the half
//! calls everything else.

use super::work;
use super::Qp;
use crate::device::Dev;
use crate::faults::Advice;
use crate::faults::Share;
use crate::mem::Fault;
use kernel::list::impl_list_arc_safe;
use kernel::list::impl_list_item;
use kernel::list::AtomicTracker;
use kernel::list::ListLinks;
use kernel::list::TryNewListArc;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::accounted;
use rdma::list::Tag;
use rdma::module::Resident;
use rdma::sync::SpinLockIrq;
use rdma::workqueue::enqueue_system;
use rdma::workqueue::KeepsModule;

/// A half of a queue pair.
#[derive(Clone, Copy)]
pub(super) enum Half {
    /// Requester.
    Send,
    /// Responder.
    Recv,
}

/// Who waits for the faults of a [`Parking`].
pub(super) enum Waiter {
    /// A half of a queue pair.
    Half(Half),
    /// Nobody: they are advice of the user.
    Advice { _count: Advice },
}

/// The wait of one half for memory. Only what runs the half uses and replaces it.
#[pin_data]
pub(super) struct Parked {
    /// `None` for queue pairs of the kernel, which have no such memory.
    #[pin]
    parking: SpinLockIrq<Option<Arc<Parking>>>,
}

/// State of the wait. It may outlive the queue pair.
#[pin_data]
pub(crate) struct Parking {
    #[pin]
    wait: SpinLockIrq<Wait>,
    #[pin]
    work: Work<Parking>,
    #[pin]
    links: ListLinks,
    #[pin]
    listed: AtomicTracker,
    tag: Tag,
    share: Arc<Share>,
    /// Keeps the table of regions.
    dev: Arc<Dev>,
    by: Waiter,
}

struct Wait {
    /// The fault that the half waits for.
    wanted: Option<Fault>,
    /// The fault that the work item is resolving.
    served: Option<Fault>,
    /// A fault that could not be resolved.
    refused: Option<Fault>,
    /// The queue pair, if the work item is to kick it.
    waiter: Option<Arc<Qp>>,
    /// The work item was submitted and has not ended.
    submitted: bool,
    /// The queue pair waits for nothing any more, or has another state.
    abandoned: bool,
}

kernel::impl_has_work! {
    impl HasWork<Parking> for Parking { self.work }
}
impl_list_arc_safe! {
    impl ListArcSafe<0> for Parking { tracked_by listed: AtomicTracker; }
}
impl_list_item! {
    impl ListItem<0> for Parking { using ListLinks { self.links }; }
}
rdma::impl_tagged!(impl Tagged<0> for Parking { self.tag });

impl Parked {
    /// Creates the state of a half with or without memory to wait for.
    pub(super) fn new(parking: Option<Arc<Parking>>) -> impl PinInit<Self> {
        pin_init!(Self {
            parking <- rdma::new_spinlock_irq!(parking, "rxe::qp::Parked::parking"),
        })
    }

    /// Returns the state, which is not replaced while the caller owns the half.
    fn current(&self) -> Option<Arc<Parking>> {
        self.parking.lock().clone()
    }

    /// Creates a state without a wait, to replace the present one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn another(&self) -> Result<Option<Arc<Parking>>> {
        let Some(parking) = self.current() else {
            return Ok(None);
        };
        match parking.by {
            Waiter::Half(half) => Parking::new(&parking.share, &parking.dev, half).map(Some),
            Waiter::Advice { .. } => Ok(None),
        }
    }

    /// Replaces the state: the half waits for nothing any more, not even for a fault that does not
    /// end. The caller owns the half, and drops the result in process context.
    pub(super) fn replace(&self, by: Option<Arc<Parking>>) -> Option<Arc<Parking>> {
        let before = core::mem::replace(&mut *self.parking.lock(), by);
        if let Some(before) = &before {
            before.abandon();
        }
        before
    }

    /// Returns whether to wait for these pages. Returns `false` once for a fault that could not be
    /// resolved; a later request may try again.
    pub(super) fn is_hopeful(&self, fault: Option<Fault>) -> bool {
        let Some(parking) = self.current() else {
            return false;
        };
        let mut wait = parking.wait.lock();
        if fault.is_some() && wait.refused == fault {
            wait.refused = None;
            return false;
        }
        fault.is_some()
    }

    /// Submits the fault that the half of `qp` waits for, unless the work item is resolving this
    /// very fault or has reported its failure.
    fn wait_for(&self, qp: ArcBorrow<'_, Qp>, fault: Fault) {
        let Some(parking) = self.current() else {
            return;
        };
        let submit = {
            let mut wait = parking.wait.lock();
            if wait.abandoned || [wait.served, wait.refused].contains(&Some(fault)) {
                return;
            }
            wait.wanted = Some(fault);
            if !wait.submitted {
                wait.waiter = Some(qp.into());
            }
            !core::mem::replace(&mut wait.submitted, true)
        };
        // A submitted work item finds this fault; a running one will be submitted again.
        if submit {
            Share::submit(parking.share.as_arc_borrow(), parking.clone());
        }
    }
}

impl Parking {
    /// Creates the state of a half without a wait. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(share: &Arc<Share>, dev: &Arc<Dev>, half: Half) -> Result<Arc<Self>> {
        Self::waited_for(Waiter::Half(half), share, dev)
    }

    /// Has memory faulted in that nobody waits for. Does not wait for it, either: if the user has too
    /// many faults, it is not faulted in at all. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn advise(share: &Arc<Share>, dev: &Arc<Dev>, fault: Fault) -> Result {
        let Some(count) = Share::advice(share) else {
            return Ok(());
        };
        let parking = Self::waited_for(Waiter::Advice { _count: count }, share, dev)?;
        {
            let mut wait = parking.wait.lock();
            wait.wanted = Some(fault);
            wait.submitted = true;
        }
        Share::submit(share.as_arc_borrow(), parking);
        Ok(())
    }

    fn waited_for(by: Waiter, share: &Arc<Share>, dev: &Arc<Dev>) -> Result<Arc<Self>> {
        let none = Wait {
            wanted: None,
            served: None,
            refused: None,
            waiter: None,
            submitted: false,
            abandoned: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                wait <- rdma::new_spinlock_irq!(none, "rxe::qp::Parking::wait"),
                work <- new_work!("rxe::qp::Parking::work"),
                links <- ListLinks::new(),
                listed <- AtomicTracker::new(),
                tag: Tag::new(),
                share: share.clone(),
                dev: dev.clone(),
                by,
            }),
            accounted::GFP,
        )
    }

    /// Gives up the wait, for good: the half is not kicked any more, except by a work item that
    /// ends now. Does not wait for a fault that runs. The half must not wait with it any more.
    fn abandon(&self) {
        let waiter = {
            let mut wait = self.wait.lock();
            wait.abandoned = true;
            wait.wanted = None;
            wait.waiter.take()
        };
        // The caller has another reference.
        drop(waiter);
        drop(self.share.withdraw(self));
    }

    /// Returns whether it is a fault of the context that has this share.
    pub(crate) fn is_of(&self, share: &Share) -> bool {
        core::ptr::eq(&*self.share, share)
    }
}

impl WorkItem for Parking {
    type Pointer = Arc<Parking>;

    fn run(this: Arc<Parking>) {
        let wanted = {
            let mut wait = this.wait.lock();
            wait.served = wait.wanted.take();
            wait.served
        };
        let refused = wanted.filter(|fault| match this.dev.memory.fault_in(fault, true) {
            Ok(()) => false,
            // Transient: the half retries and faults again.
            Err(error) => error != EBUSY && error != EAGAIN,
        });
        let (waiter, again) = {
            let mut wait = this.wait.lock();
            wait.served = None;
            wait.refused = refused;
            wait.submitted = wait.wanted.is_some();
            match wait.submitted {
                true => (wait.waiter.clone(), true),
                false => (wait.waiter.take(), false),
            }
        };
        Share::ended(this.share.as_arc_borrow());
        if again {
            Share::submit(this.share.as_arc_borrow(), this.clone());
        }
        let (Some(qp), &Waiter::Half(half)) = (waiter, &this.by) else {
            return;
        };
        match half {
            Half::Send => Qp::kick_send(qp.as_arc_borrow(), work::PACKETS | work::POLL),
            Half::Recv => {
                // The waiter may be a requester on this device.
                qp.recv_wanted.store(1, Relaxed);
                Qp::kick_recv(qp.as_arc_borrow(), work::PACKETS | work::POLL);
            }
        }
    }
}

impl WorkItem<2> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        Qp::kick_send(this.as_arc_borrow(), work::PACKETS | work::POLL);
    }
}

impl KeepsModule<2> for Qp {
    fn resident(&self) -> &Resident {
        &self.resident
    }
}

impl Qp {
    /// Schedules the send half in process context, where it competes with other tasks for the CPU.
    /// Any context.
    pub(super) fn serve_later(this: ArcBorrow<'_, Self>) {
        // A work item that is already queued suffices.
        let _ = enqueue_system::<Qp, 2>(this.into());
    }

    /// Schedules the resolution of the fault that the send half waits for.
    pub(super) fn await_send(this: ArcBorrow<'_, Self>, fault: Fault) {
        this.send_parking.wait_for(this, fault);
    }

    /// Schedules the resolution of the fault that the receive half waits for.
    pub(super) fn await_recv(this: ArcBorrow<'_, Self>, fault: Fault) {
        this.recv_parking.wait_for(this, fault);
    }
}
