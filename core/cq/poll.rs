// SPDX-License-Identifier: GPL-2.0

//! Polling. Every completion of a kernel consumer passes through [`process`], so it neither
//! allocates nor locks.
//!
//! A queue is polled until it returns fewer completions than requested, or a budget is used up and
//! it yields. An empty queue is rearmed. If the driver reports that completions arrived before
//! that, the queue is polled again, as they may raise no event.

use super::edge;
use super::edge::By;
use super::edge::Polled;
use super::edge::Room;
use super::edge::Softirq;
use super::edge::Turn;
use super::edge::Work;
use super::Context;
use core::mem::MaybeUninit;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use rdma::bindings;
use rdma::edge::Passed;

/// Maximum number of completions polled at once into a buffer on the caller's stack.
const DIRECT_BATCH: usize = 8;

/// Budget of one turn, in completions: in softirq, and on a workqueue.
pub(super) const SOFTIRQ_BUDGET: c_int = 256;
const WORK_BUDGET: u32 = 65536;

/// Polls completions and calls back for each: at most `budget`, or all if it is `None`. Returns
/// their number.
#[inline]
fn process<const N: usize>(cq: Polled<'_>, budget: Option<u32>, room: &mut Room<N>) -> u32 {
    // CAST: buffers are small arrays.
    let batch = const { N as u32 };
    let Some(poller) = cq.poller() else {
        return 0;
    };
    let mut done = 0u32;
    edge::trace_process(&cq);
    loop {
        let wanted = budget.map_or(batch, |budget| budget.saturating_sub(done).min(batch));
        let Some(polled) = poller.turn(wanted, room) else {
            return done;
        };
        done = done.saturating_add(polled);
        if polled != batch || budget.is_some_and(|budget| done >= budget) {
            return done;
        }
    }
}

/// [`process`] with a buffer on the stack, in the caller's context.
fn process_here(cq: Polled<'_>, budget: Option<u32>) -> u32 {
    let mut room = [const { MaybeUninit::uninit() }; DIRECT_BATCH];
    process(cq, budget, &mut room)
}

/// Polls in the caller's context, in which the consumers' callbacks then run. A negative budget
/// means no limit. Does not exclude concurrent polling by the core.
pub(crate) fn process_direct(cq: Polled<'_>, budget: c_int) -> c_int {
    let done = process_here(cq, u32::try_from(budget).ok());
    c_int::try_from(done).unwrap_or(c_int::MAX)
}

/// Arms the queue. With `again`, returns whether completions may have arrived before that.
#[inline]
fn arm(cq: Polled<'_>, again: bool) -> bool {
    let mut flags = bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP;
    if again {
        flags |= bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
    }
    cq.notify(flags) > 0
}

/// One turn in the softirq of `irq_poll`.
pub(super) fn on_softirq(mut turn: Turn<'_, Softirq>, budget: c_int) -> c_int {
    let cq = turn.cq();
    let limit = u32::try_from(budget).unwrap_or(0);
    let done = process(cq, Some(limit), turn.room());
    turn.measure(done);
    if done < limit {
        let by = turn.complete();
        if arm(cq, true) {
            edge::trace_reschedule(&cq);
            by.schedule();
        }
    }
    // CAST: at most `budget`.
    done as c_int
}

/// One turn on a workqueue.
pub(super) fn on_work(mut turn: Turn<'_, Work>) {
    let cq = turn.cq();
    let done = process(cq, Some(WORK_BUDGET), turn.room());
    if done >= WORK_BUDGET || arm(cq, true) {
        turn.again();
    } else {
        turn.measure(done);
    }
}

/// Completion event of a queue that is polled in softirq.
pub(super) fn event_for_softirq(cq: By<'_, Softirq>, _: Passed<c_void>) {
    edge::trace_schedule(&cq.cq());
    cq.schedule();
}

/// Completion event of a queue that is polled by a work item.
pub(super) fn event_for_work(cq: By<'_, Work>, _: Passed<c_void>) {
    edge::trace_schedule(&cq.cq());
    cq.schedule();
}

/// Completion event of a queue in direct context, which is never armed.
pub(super) fn event_for_nobody(_: Passed<bindings::ib_cq>, _: Passed<c_void>) {
    kernel::warn_on!(true);
}

/// Arms a queue that the driver has just created.
pub(super) fn begin(cq: Polled<'_>, context: Context) {
    match context {
        Context::Direct => {}
        Context::Softirq | Context::Workqueue | Context::Unbound => {
            // The queue is empty, so no event can have been missed.
            let _: bool = arm(cq, false);
        }
    }
}
