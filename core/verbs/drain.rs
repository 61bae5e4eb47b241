// SPDX-License-Identifier: GPL-2.0

//! Waiting until all completions of a queue have been consumed: the queue pair is moved to the
//! error state, and a marker is posted that completes after all other requests.
//!
//! The consumer must leave room for the marker, and must not post requests meanwhile. May sleep.

use super::modify_qp;
use crate::cq;
use crate::cq::edge::marker::Drained;
use crate::cq::edge::marker::Queue;
use crate::object::tables::QpAttr;
use crate::object::Qp;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// Time given to a consumer that polls a queue before the queue is polled for it, in jiffies: 100
/// ms.
const POLL_AFTER: usize = bindings::HZ as usize / 10;

/// Timeout for the last event of a shared receive queue, in jiffies: one minute.
const LAST_EVENT: usize = 60 * bindings::HZ as usize;

/// Moves a queue pair to the error state.
fn into_error(qp: &Qp) -> Result {
    let attr = QpAttr::default();
    attr.set_qp_state(bindings::ib_qp_state_IB_QPS_ERR);
    // CAST: A bit mask.
    let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
    modify_qp::modify_for_kernel(qp, &attr, mask)
}

/// Moves a queue pair to the error state, posts a marker to a queue, and waits for its completion.
fn wait_for_marker(qp: Drained<'_>, queue: Queue) {
    if kernel::warn_on!(into_error(&qp).is_err()) {
        return;
    }
    let Some(cq) = qp.cq(queue) else {
        kernel::warn_on!(true);
        return;
    };
    let waited = qp.wait_behind(queue, |marker| {
        if cq.poll_ctx() == bindings::ib_poll_context_IB_POLL_DIRECT {
            while !marker.wait_timeout(POLL_AFTER) {
                cq::process_direct(cq, -1);
            }
        } else {
            marker.wait();
        }
    });
    kernel::warn_on!(waited.is_err());
}

/// Drains a queue pair with a shared receive queue. An event tells that its last request has
/// completed (IBTA 10.3.1, "last WQE reached"). Then the completion queue is polled until it is
/// empty or has returned as many completions as it can hold.
fn drain_shared(qp: Drained<'_>) {
    if kernel::warn_on!(into_error(&qp).is_err()) {
        return;
    }
    let Some(cq) = qp.shared_cq() else {
        kernel::warn_on!(true);
        return;
    };
    if !qp.srq_completion().wait_timeout(LAST_EVENT) {
        return;
    }
    let mut left = cq.cqe();
    while left > 0 {
        let polled = cq::process_direct(cq, left);
        if polled <= 0 {
            return;
        }
        left = left.saturating_sub(polled);
    }
}

/// Waits for the last completion of a queue.
fn drain(qp: Drained<'_>, queue: Queue) {
    if !qp.by_driver(queue) {
        wait_for_marker(qp, queue);
    }
    if let Some(cq) = qp.cq(queue) {
        cq::edge::trace_drain_complete(&cq);
    }
}

/// Waits for the last completion of the send queue.
fn drain_send(qp: Drained<'_>) {
    drain(qp, Queue::Send);
}

/// Waits for the last completion of the receive queue.
fn drain_receive(qp: Drained<'_>) {
    drain(qp, Queue::Receive);
}

/// Waits for the last completions of both queues.
fn drain_both(qp: Drained<'_>) {
    drain_send(qp);
    if qp.srq().is_none() {
        drain_receive(qp);
    } else {
        drain_shared(qp);
    }
}

rdma::export! {
    in rdma::bindings;

    /// See [`drain_send`].
    fn ib_drain_sq(qp: Drained<'_>) = drain_send;
    /// See [`drain_receive`].
    fn ib_drain_rq(qp: Drained<'_>) = drain_receive;
    /// See [`drain_both`].
    fn ib_drain_qp(qp: Drained<'_>) = drain_both;
}
