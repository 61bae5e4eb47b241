// SPDX-License-Identifier: GPL-2.0

//! Polling. Every completion of the kernel's consumers comes through [`process`], so it
//! neither allocates nor locks.
//!
//! A queue is polled until it gives less than was asked for, or a budget is used up: then
//! others have their turn. When it was empty, it is armed, and the driver says whether
//! something came between the two: then it is polled again, for there may be no event.

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

/// How many completions are taken at once where the room is on the stack of the caller.
const DIRECT_BATCH: usize = 8;

/// How many completions one turn may take, in softirq and on a work queue.
pub(super) const SOFTIRQ_BUDGET: c_int = 256;
const WORK_BUDGET: u32 = 65536;

/// Takes completions and hands each to its consumer, at most `budget` of them, or all that
/// there are. Returns how many.
#[inline]
fn process<const N: usize>(cq: Polled<'_>, budget: Option<u32>, room: &mut Room<N>) -> u32 {
    // CAST: sizes of arrays on the stack.
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

/// [`process`] in the context of the caller, whatever that is.
fn process_here(cq: Polled<'_>, budget: Option<u32>) -> u32 {
    let mut room = [const { MaybeUninit::uninit() }; DIRECT_BATCH];
    process(cq, budget, &mut room)
}

/// Polls in the caller's context, which its consumers must bear; a negative budget is none.
/// Nothing keeps the core from polling the queue elsewhere meanwhile, if it does.
pub(crate) fn process_direct(cq: Polled<'_>, budget: c_int) -> c_int {
    let done = process_here(cq, u32::try_from(budget).ok());
    c_int::try_from(done).unwrap_or(c_int::MAX)
}

/// Asks for an event. Returns whether completions may have come before that, if `again`.
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
    // CAST: No more than `budget`.
    done as c_int
}

/// One turn on a work queue.
pub(super) fn on_work(mut turn: Turn<'_, Work>) {
    let cq = turn.cq();
    let done = process(cq, Some(WORK_BUDGET), turn.room());
    if done >= WORK_BUDGET || arm(cq, true) {
        turn.again();
    } else {
        turn.measure(done);
    }
}

/// An event of a queue that is polled in softirq.
pub(super) fn event_for_softirq(cq: By<'_, Softirq>, _: Passed<c_void>) {
    edge::trace_schedule(&cq.cq());
    cq.schedule();
}

/// An event of a queue that is polled by work.
pub(super) fn event_for_work(cq: By<'_, Work>, _: Passed<c_void>) {
    edge::trace_schedule(&cq.cq());
    cq.schedule();
}

/// Nobody asks for such events.
pub(super) fn event_for_nobody(_: Passed<bindings::ib_cq>, _: Passed<c_void>) {
    kernel::warn_on!(true);
}

/// Asks for the first event of a queue that the driver has made.
pub(super) fn begin(cq: Polled<'_>, context: Context) {
    match context {
        Context::Direct => {}
        Context::Softirq | Context::Workqueue | Context::Unbound => {
            // It is empty, so nothing can have been missed.
            let _: bool = arm(cq, false);
        }
    }
}
