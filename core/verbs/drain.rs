// SPDX-License-Identifier: GPL-2.0

//! Waiting until all completions of a queue have been consumed: the queue pair is put into
//! the error state, and a marker is posted that completes after all the rest.
//!
//! The consumer must leave room for the marker, and must not post meanwhile. May sleep.

use super::modify_qp::ib_modify_qp;
use crate::errno::eopnotsupp;
use core::mem::ManuallyDrop;
use kernel::ffi::c_int;
use rdma::bindings;

/// How long a consumer that polls by itself is given before the queue is polled for it, in
/// jiffies: a tenth of a second.
const POLL_AFTER: usize = bindings::HZ as usize / 10;

/// How long the last event of a shared receive queue is waited for, in jiffies: a minute.
const LAST_EVENT: usize = 60 * bindings::HZ as usize;

/// A marker, on the stack of the one who waits.
#[repr(C)]
struct Marker {
    cqe: bindings::ib_cqe,
    done: bindings::completion,
}

/// # Safety
///
/// For completion queues only: `wc` is the completion of a [`Marker`].
unsafe extern "C" fn on_marker(_cq: *mut bindings::ib_cq, wc: *mut bindings::ib_wc) {
    // SAFETY: By this function's duty; who posted the marker waits for this.
    unsafe {
        let marker: *mut Marker = (*wc).__bindgen_anon_1.wr_cqe.cast();
        bindings::complete(&raw mut (*marker).done);
    }
}

/// Puts a queue pair into the error state, posts a marker by `post`, and waits for it on `cq`.
///
/// # Safety
///
/// `qp` and `cq` live; `post` posts a request with the completion that it is given to a queue
/// that completes on `cq`, and returns zero if it did.
unsafe fn wait_for_marker(
    qp: *mut bindings::ib_qp,
    cq: *mut bindings::ib_cq,
    post: impl FnOnce(*mut bindings::ib_cqe) -> c_int,
) {
    // SAFETY: By this function's duty.
    if kernel::warn_on!(!unsafe { into_error(qp) }) {
        return;
    }
    let mut marker = Marker {
        cqe: bindings::ib_cqe {
            done: Some(on_marker),
        },
        done: bindings::completion::default(),
    };
    let marker: *mut Marker = &mut marker;
    // SAFETY: The marker stays where it is until it is done, or was not posted.
    unsafe {
        bindings::init_completion(&raw mut (*marker).done);
        if kernel::warn_on!(post(&raw mut (*marker).cqe) != 0) {
            return;
        }
        if (*cq).poll_ctx == bindings::ib_poll_context_IB_POLL_DIRECT {
            while bindings::wait_for_completion_timeout(&raw mut (*marker).done, POLL_AFTER) == 0 {
                crate::cq::ib_process_cq_direct(cq, -1);
            }
        } else {
            bindings::wait_for_completion(&raw mut (*marker).done);
        }
    }
}

/// # Safety
///
/// `qp` lives.
unsafe fn into_error(qp: *mut bindings::ib_qp) -> bool {
    let mut attr = bindings::ib_qp_attr {
        qp_state: bindings::ib_qp_state_IB_QPS_ERR,
        ..Default::default()
    };
    // SAFETY: By this function's duty.
    unsafe {
        ib_modify_qp(
            qp,
            &mut attr,
            bindings::ib_qp_attr_mask_IB_QP_STATE as c_int,
        ) == 0
    }
}

/// # Safety
///
/// `qp` lives.
unsafe fn drain_send(qp: *mut bindings::ib_qp) {
    let mut request = bindings::ib_rdma_wr::default();
    request.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
    // SAFETY: By this function's duty; the request lives for the call, the marker until done.
    unsafe {
        wait_for_marker(qp, (*qp).send_cq, |cqe| {
            request.wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            let mut bad = core::ptr::null();
            match (*(*qp).device).ops.post_send {
                Some(post) => post((*qp).real_qp, &request.wr, &mut bad),
                None => eopnotsupp().to_errno(),
            }
        });
    }
}

/// # Safety
///
/// `qp` lives.
unsafe fn drain_receive(qp: *mut bindings::ib_qp) {
    let mut request = bindings::ib_recv_wr::default();
    // SAFETY: By this function's duty; the request lives for the call, the marker until done.
    unsafe {
        wait_for_marker(qp, (*qp).recv_cq, |cqe| {
            request.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
            let mut bad = core::ptr::null();
            match (*(*qp).device).ops.post_recv {
                Some(post) => post((*qp).real_qp, &request, &mut bad),
                None => eopnotsupp().to_errno(),
            }
        });
    }
}

/// What came from a shared receive queue is known to be complete by an event (IBTA 10.3.1,
/// "last WQE reached"); then the completion queue is polled until it is empty, or has given
/// as much as it can hold.
///
/// # Safety
///
/// `qp` lives, and its receive requests come from `srq`.
unsafe fn drain_shared(qp: *mut bindings::ib_qp, srq: *mut bindings::ib_srq) {
    // SAFETY: By this function's duty.
    unsafe {
        if kernel::warn_on!(!into_error(qp)) {
            return;
        }
        let cq = if super::srq::has_cq((*srq).srq_type) {
            (*srq).ext.cq
        } else {
            (*qp).recv_cq
        };
        if kernel::warn_on!(cq.is_null()) {
            return;
        }
        if bindings::wait_for_completion_timeout(&raw mut (*qp).srq_completion, LAST_EVENT) == 0 {
            return;
        }
        let mut left = (*cq).cqe;
        while left > 0 {
            let polled = crate::cq::ib_process_cq_direct(cq, left);
            if polled <= 0 {
                return;
            }
            left = left.saturating_sub(polled);
        }
    }
}

rdma::exported!(ib_drain_sq, ib_drain_rq, ib_drain_qp);

/// Waits for the last completion of the send queue.
///
/// # Safety
///
/// `qp` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_drain_sq(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty; the method is the driver's own.
    unsafe {
        match (*(*qp).device).ops.drain_sq {
            Some(drain) => drain(qp),
            None => drain_send(qp),
        }
        bindings::rdma_helper_trace_cq_drain_complete((*qp).send_cq);
    }
}

/// Waits for the last completion of the receive queue.
///
/// # Safety
///
/// `qp` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_drain_rq(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty; the method is the driver's own.
    unsafe {
        match (*(*qp).device).ops.drain_rq {
            Some(drain) => drain(qp),
            None => drain_receive(qp),
        }
        bindings::rdma_helper_trace_cq_drain_complete((*qp).recv_cq);
    }
}

/// Waits for the last completions of both queues.
///
/// # Safety
///
/// `qp` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_drain_qp(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty.
    unsafe {
        ib_drain_sq(qp);
        if (*qp).srq.is_null() {
            ib_drain_rq(qp);
        } else {
            drain_shared(qp, (*qp).srq);
        }
    }
}
