// SPDX-License-Identifier: GPL-2.0

//! Polling. Every completion of the kernel's consumers comes through [`process`], so it
//! neither allocates nor locks.
//!
//! A queue is polled until it gives less than was asked for, or a budget is used up: then
//! others have their turn. When it was empty, it is armed, and the driver says whether
//! something came between the two: then it is polled again, for there may be no event.

use super::moderation;
use super::Context;
use crate::verbs::object::Cq;
use crate::verbs::object::Object;
use core::mem::offset_of;
use core::mem::MaybeUninit;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;

/// How many completions are taken at once.
pub(super) const BATCH: u32 = 16;

/// The same where the room is on the stack of the caller.
const DIRECT_BATCH: u32 = 8;

/// How many completions one turn may take, in softirq and on a work queue.
const SOFTIRQ_BUDGET: c_int = 256;
const WORK_BUDGET: u32 = 65536;

/// Takes completions and hands each to its consumer, at most `budget` of them, or all that
/// there are. Returns how many.
///
/// # Safety
///
/// `cq` lives; its completions name requests by `wr_cqe`. At `room` is place for `batch`
/// completions, which nobody else uses meanwhile.
#[inline]
unsafe fn process(
    cq: *mut bindings::ib_cq,
    budget: Option<u32>,
    room: *mut bindings::ib_wc,
    batch: u32,
) -> u32 {
    // SAFETY: By this function's duty.
    let Some(poll) = unsafe { Cq::from_raw(cq) }.device().ops().poll_cq else {
        return 0;
    };
    let mut done = 0u32;
    // SAFETY: By this function's duty; the event only reads.
    unsafe { bindings::rdma_helper_trace_cq_process(cq) };
    loop {
        let wanted = budget.map_or(batch, |budget| budget.saturating_sub(done).min(batch));
        // SAFETY: There is room for as many, which are few; the method is the driver's own.
        let polled = unsafe {
            let polled = poll(cq, wanted as c_int, room);
            bindings::rdma_helper_trace_cq_poll(cq, wanted as c_int, polled);
            polled
        };
        let Ok(polled) = u32::try_from(polled) else {
            return done;
        };
        let polled = polled.min(wanted);
        for at in 0..polled as usize {
            // SAFETY: The driver has written so many, within the room. By this function's duty
            // they are of this kind; the consumer of a request keeps its `cqe` until then, maybe
            // in a packed structure, where it is not aligned (iSER does).
            unsafe {
                let wc = room.add(at);
                let cqe = *(*wc).__bindgen_anon_1.wr_cqe;
                if cqe.is_null() {
                    kernel::warn_on!((*wc).status == bindings::ib_wc_status_IB_WC_SUCCESS);
                } else if let Some(consume) = (&raw const (*cqe).done).read_unaligned() {
                    consume(cq, wc);
                }
            }
        }
        done = done.saturating_add(polled);
        if polled != batch || budget.is_some_and(|budget| done >= budget) {
            return done;
        }
    }
}

/// [`process`] in the context of the caller, whatever that is.
///
/// # Safety
///
/// `cq` lives; its completions name requests by `wr_cqe`.
pub(super) unsafe fn process_here(cq: *mut bindings::ib_cq, budget: Option<u32>) -> u32 {
    let mut room = [const { MaybeUninit::<bindings::ib_wc>::uninit() }; DIRECT_BATCH as usize];
    // SAFETY: By this function's duty; the room is ours.
    unsafe { process(cq, budget, room.as_mut_ptr().cast(), DIRECT_BATCH) }
}

/// Asks for an event. Returns whether completions may have come before that, if `again`.
///
/// # Safety
///
/// `cq` lives.
#[inline]
unsafe fn arm(cq: *mut bindings::ib_cq, again: bool) -> bool {
    let mut flags = bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP;
    if again {
        flags |= bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
    }
    // SAFETY: By this function's duty.
    match unsafe { Cq::from_raw(cq) }.device().ops().req_notify_cq {
        // SAFETY: As above; the method is the driver's own.
        Some(notify) => unsafe { notify(cq, flags) > 0 },
        None => false,
    }
}

/// Where the polling's own part of a queue is: an `irq_poll` or a `work_struct`.
const PART: usize = offset_of!(bindings::ib_cq, __bindgen_anon_1);

/// # Safety
///
/// For the softirq of `irq_poll` only: `iop` is part of a queue made for softirq.
unsafe extern "C" fn on_softirq(iop: *mut bindings::irq_poll, budget: c_int) -> c_int {
    let cq: *mut bindings::ib_cq = iop.wrapping_byte_sub(PART).cast();
    let limit = u32::try_from(budget).unwrap_or(0);
    // SAFETY: By this function's duty the queue lives: `end` waits for us, to the end of this
    // softirq. One at a time has it, and with it the batch and the measure, until
    // `irq_poll_complete`.
    unsafe {
        let done = process(cq, Some(limit), (*cq).wc, BATCH);
        moderation::note(cq, done);
        if done < limit {
            crate::private::irq_poll_complete(iop);
            if arm(cq, true) {
                bindings::rdma_helper_trace_cq_reschedule(cq);
                crate::private::irq_poll_sched(iop);
            }
        }
        // No more than `budget`.
        done as c_int
    }
}

/// # Safety
///
/// For work queues only: `work` is part of a queue made for them.
unsafe extern "C" fn on_work(work: *mut bindings::work_struct) {
    let cq: *mut bindings::ib_cq = work.wrapping_byte_sub(PART).cast();
    // SAFETY: By this function's duty the queue lives: `end` waits for us. An item runs in one
    // place at a time, so the batch is ours.
    unsafe {
        let done = process(cq, Some(WORK_BUDGET), (*cq).wc, BATCH);
        if done >= WORK_BUDGET || arm(cq, true) {
            queue(cq);
        } else {
            moderation::note(cq, done);
        }
    }
}

/// # Safety
///
/// `cq` lives and is polled by work.
unsafe fn queue(cq: *mut bindings::ib_cq) {
    // SAFETY: By this function's duty; both are set up. It may be queued already.
    unsafe {
        bindings::queue_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            (*cq).comp_wq,
            (&raw mut (*cq).__bindgen_anon_1).cast(),
        );
    }
}

/// # Safety
///
/// For drivers: `cq` is a queue polled in softirq.
unsafe extern "C" fn event_for_softirq(cq: *mut bindings::ib_cq, _: *mut c_void) {
    // SAFETY: By this function's duty.
    unsafe {
        bindings::rdma_helper_trace_cq_schedule(cq);
        crate::private::irq_poll_sched((&raw mut (*cq).__bindgen_anon_1).cast());
    }
}

/// # Safety
///
/// For drivers: `cq` is a queue polled by work.
unsafe extern "C" fn event_for_work(cq: *mut bindings::ib_cq, _: *mut c_void) {
    // SAFETY: By this function's duty.
    unsafe {
        bindings::rdma_helper_trace_cq_schedule(cq);
        queue(cq);
    }
}

/// # Safety
///
/// None; nobody asks for such events.
unsafe extern "C" fn event_for_nobody(_: *mut bindings::ib_cq, _: *mut c_void) {
    kernel::warn_on!(true);
}

/// Prepares a queue to be polled in a context.
///
/// # Safety
///
/// `cq` is a queue of zeros that is being made, with its batch.
pub(super) unsafe fn set_up(cq: *mut bindings::ib_cq, context: Context) {
    let work = |queue: usize| {
        // SAFETY: By the outer function's duty; the work queue is there as long as the module.
        unsafe {
            (*cq).comp_wq = queue as *mut bindings::workqueue_struct;
            let work = (&raw mut (*cq).__bindgen_anon_1).cast();
            bindings::rdma_helper_init_work(work, Some(on_work));
        }
    };
    let handler: unsafe extern "C" fn(*mut bindings::ib_cq, *mut c_void) = match context {
        Context::Direct => event_for_nobody,
        Context::Softirq => {
            // SAFETY: By this function's duty.
            unsafe {
                let iop = (&raw mut (*cq).__bindgen_anon_1).cast();
                crate::private::irq_poll_init(iop, SOFTIRQ_BUDGET, Some(on_softirq));
            }
            event_for_softirq
        }
        Context::Workqueue => {
            work(super::PER_CPU.load(Relaxed));
            event_for_work
        }
        Context::Unbound => {
            work(super::UNBOUND.load(Relaxed));
            event_for_work
        }
    };
    // SAFETY: By this function's duty.
    unsafe { (*cq).comp_handler = Some(handler) };
}

/// Asks for the first event.
///
/// # Safety
///
/// `cq` was set up for this context, and the driver has made it.
pub(super) unsafe fn begin(cq: *mut bindings::ib_cq, context: Context) {
    match context {
        Context::Direct => {}
        Context::Softirq | Context::Workqueue | Context::Unbound => {
            // SAFETY: By this function's duty. It is empty, so nothing can have been missed.
            let _: bool = unsafe { arm(cq, false) };
        }
    }
}

/// Ends the polling, and waits for what is running. Events that come later do nothing. May
/// sleep.
///
/// # Safety
///
/// `cq` was made for the kernel, and no queue pair uses it.
pub(super) unsafe fn end(cq: *mut bindings::ib_cq) {
    // SAFETY: By this function's duty; the context is what the queue was made with.
    unsafe {
        let part = &raw mut (*cq).__bindgen_anon_1;
        match Context::from_raw((*cq).poll_ctx) {
            Some(Context::Direct) => {}
            Some(Context::Softirq) => {
                crate::private::irq_poll_disable(part.cast());
                // That waits for `irq_poll_complete`, after which the softirq arms the queue.
                rdma::sync::rcu::synchronize();
            }
            Some(Context::Workqueue | Context::Unbound) => {
                bindings::disable_work_sync(part.cast());
            }
            None => {
                kernel::warn_on!(true);
            }
        }
    }
}
