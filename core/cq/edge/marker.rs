// SPDX-License-Identifier: GPL-2.0

//! Drain markers: requests that complete after all requests posted before them.
//!
//! A marker is on the stack of the waiting task. C header: `include/rdma/ib_verbs.h`.

use super::Polled;
use crate::object::outcome;
use crate::object::Cq;
use crate::object::Object;
use crate::object::Qp;
use core::cell::Cell;
use core::mem::offset_of;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::errno::eopnotsupp;
use rdma::sync::Completion;

/// One of the work queues of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Send queue.
    Send,
    /// Receive queue.
    Receive,
}

/// A queue pair that its kernel consumer drains.
///
/// # Invariants
///
/// The completions of `0`, and of its shared receive queue, go to queues of `ib_alloc_cq`. The
/// header requires this of callers of `ib_drain_qp` and its variants.
#[derive(Clone, Copy)]
pub(crate) struct Drained<'a>(&'a Qp);

rdma::argument! {
    impl<'a> Drained<'a> = |qp: &'a Qp| Drained(qp);
}

impl Deref for Drained<'_> {
    type Target = Qp;

    fn deref(&self) -> &Qp {
        self.0
    }
}

impl<'a> Drained<'a> {
    /// Returns the completion queue of a work queue.
    pub(crate) fn cq(self, queue: Queue) -> Option<Polled<'a>> {
        // INVARIANT: The queue is from `ib_alloc_cq` (type invariant).
        match queue {
            Queue::Send => self.0.send_cq(),
            Queue::Receive => self.0.recv_cq(),
        }
        .map(Polled)
    }

    /// Returns the completion queue of the shared receive queue; `None` if the queue pair has none.
    pub(crate) fn shared_cq(self) -> Option<Polled<'a>> {
        let cq: Option<Option<&'a Cq>> = self.0.srq()?.cq();
        // INVARIANT: The queue is from `ib_alloc_cq` (type invariant).
        cq.unwrap_or(self.0.recv_cq()).map(Polled)
    }

    /// Has the driver drain a queue. Returns whether the driver has a method for that. May sleep.
    pub(crate) fn by_driver(self, queue: Queue) -> bool {
        let (ops, driver) = (self.0.device().ops(), self.0.driver());
        match queue {
            Queue::Send => ops.drain_sq.map(|_| driver.drain_sq()),
            Queue::Receive => ops.drain_rq.map(|_| driver.drain_rq()),
        }
        .is_some()
    }

    /// Posts a marker to a queue.
    fn post(self, queue: Queue, cqe: *mut bindings::ib_cqe) -> Result {
        let (qp, ops) = (self.0.real().raw(), self.0.device().ops());
        // SAFETY: The methods are from the queue pair's own driver, which keeps nothing of the
        // request but the marker, and `wait_behind` keeps that until it has completed.
        outcome(unsafe {
            match queue {
                Queue::Send => {
                    let mut request = bindings::ib_rdma_wr::default();
                    request.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
                    request.wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
                    let post = ops.post_send.ok_or_else(eopnotsupp)?;
                    post(qp, &request.wr, &mut core::ptr::null())
                }
                Queue::Receive => {
                    let mut request = bindings::ib_recv_wr::default();
                    request.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
                    let post = ops.post_recv.ok_or_else(eopnotsupp)?;
                    post(qp, &request, &mut core::ptr::null())
                }
            }
        })
    }

    /// Posts a marker to a queue and waits for it, first by `wait`, then without a limit. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of posting.
    pub(crate) fn wait_behind(self, queue: Queue, wait: impl FnOnce(&Waiting<'_>)) -> Result {
        let mut marker = Marker {
            cqe: bindings::ib_cqe {
                done: Some(on_marker),
            },
            done: bindings::completion::default(),
        };
        let marker: *mut Marker = &mut marker;
        // SAFETY: The marker does not move until this function returns.
        let done = unsafe {
            bindings::init_completion(&raw mut (*marker).done);
            Completion::view(&raw mut (*marker).done)
        };
        // `cqe` is the first field of a marker.
        self.post(queue, marker.cast())?;
        let waiting = Waiting {
            done,
            over: Cell::new(false),
        };
        wait(&waiting);
        if !waiting.over.get() {
            waiting.wait();
        }
        Ok(())
    }
}

/// A drain marker.
#[repr(C)]
struct Marker {
    cqe: bindings::ib_cqe,
    done: bindings::completion,
}

/// A marker that was posted and is waited for.
pub(crate) struct Waiting<'a> {
    done: &'a Completion,
    over: Cell<bool>,
}

impl Waiting<'_> {
    /// Waits until the marker has completed. Does nothing if that was seen before. May sleep.
    pub(crate) fn wait(&self) {
        if !self.over.replace(true) {
            self.done.wait();
        }
    }

    /// Waits for at most `jiffies`. Returns whether the marker has completed.
    pub(crate) fn wait_timeout(&self, jiffies: usize) -> bool {
        if !self.over.get() {
            self.over.set(self.done.wait_timeout(jiffies));
        }
        self.over.get()
    }
}

/// The completion of a marker.
struct Completed<'a>(&'a Completion);

// SAFETY: `from_c`'s contract: points to the work completion of a marker.
unsafe impl FromC for Completed<'_> {
    type C = *mut bindings::ib_wc;

    unsafe fn from_c(c: Self::C) -> Self {
        const DONE: usize = offset_of!(Marker, done);
        // SAFETY: `from_c`'s contract; the poster of the marker waits for this (`wait_behind`).
        Self(unsafe {
            let cqe = *(*c).__bindgen_anon_1.wr_cqe;
            Completion::view(cqe.wrapping_byte_add(DONE).cast())
        })
    }
}
// SAFETY: The value is bounded by `'a`.
unsafe impl<'a> Within<'a> for Completed<'a> {}

/// Wakes the task that waits for a marker.
fn complete(_cq: Passed<bindings::ib_cq>, marker: Completed<'_>) {
    marker.0.complete();
}

rdma::callback! {
    /// `done` callback of a marker.
    fn on_marker(cq: Passed<bindings::ib_cq>, marker: Completed<'_>) = complete;
}
