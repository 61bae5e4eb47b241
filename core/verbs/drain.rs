// SPDX-License-Identifier: GPL-2.0

//! Waiting until all completions of a queue have been consumed: the queue pair is put into
//! the error state, and a marker is posted that completes after all the rest.
//!
//! The consumer must leave room for the marker, and must not post meanwhile. May sleep.

use super::modify_qp;
use crate::cq;
use crate::cq::edge::marker::Drained;
use crate::cq::edge::marker::Queue;
use crate::object::tables::QpAttr;
use crate::object::Qp;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// How long a consumer that polls by itself is given before the queue is polled for it, in
/// jiffies: a tenth of a second.
const POLL_AFTER: usize = bindings::HZ as usize / 10;

/// How long the last event of a shared receive queue is waited for, in jiffies: a minute.
const LAST_EVENT: usize = 60 * bindings::HZ as usize;

/// Puts a queue pair into the error state.
fn into_error(qp: &Qp) -> Result {
    let attr = QpAttr::default();
    attr.set_qp_state(bindings::ib_qp_state_IB_QPS_ERR);
    // CAST: A set of bits.
    let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
    modify_qp::modify_for_kernel(qp, &attr, mask)
}

/// Puts a queue pair into the error state, posts a marker to a queue, and waits for it.
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

/// What came from a shared receive queue is known to be complete by an event (IBTA 10.3.1,
/// "last WQE reached"); then the completion queue is polled until it is empty, or has given
/// as much as it can hold.
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
