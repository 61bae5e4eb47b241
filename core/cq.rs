// SPDX-License-Identifier: GPL-2.0

//! Completion queues for parts of the kernel: the core polls them, in a context that the
//! consumer chooses, and calls back for each completion (`struct ib_cqe`).
//!
//! | file | what |
//! |---|---|
//! | here | contexts; queues made and freed |
//! | `poll` | the hot path: polling, and arming again without losing a completion |
//! | `moderation` | how many completions make an event, after the load |
//! | `pool` | queues that consumers share |
//! | `abi` | what other modules call |
//!
//! Who wants events of a queue as they come, and polls by itself, uses [`crate::verbs`].

mod abi;
mod moderation;
mod poll;
mod pool;

pub(crate) use abi::ib_process_cq_direct;
pub(crate) use pool::clean_up;

use crate::device::Device;
use crate::verbs::object::method;
use crate::verbs::object::outcome;
use crate::verbs::object::Cq;
use crate::verbs::object::From;
use crate::verbs::object::New;
use crate::verbs::object::Object;
use crate::verbs::object::Owned;
use crate::verbs::object::Owner;
use crate::verbs::tables::CqInit;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::Passed;
use rdma::edge::SoleOwner;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueOptions;

/// Where a queue is polled, and its consumer called back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    /// Softirq, on the CPU of the interrupt.
    Softirq,
    /// A work queue, on the CPU of the interrupt.
    Workqueue,
    /// A work queue, on any CPU.
    Unbound,
    /// Wherever the consumer polls by itself; there are no events.
    Direct,
}

impl Context {
    fn from_raw(context: bindings::ib_poll_context) -> Option<Self> {
        Some(match context {
            bindings::ib_poll_context_IB_POLL_SOFTIRQ => Self::Softirq,
            bindings::ib_poll_context_IB_POLL_WORKQUEUE => Self::Workqueue,
            bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE => Self::Unbound,
            bindings::ib_poll_context_IB_POLL_DIRECT => Self::Direct,
            _ => return None,
        })
    }

    fn into_raw(self) -> bindings::ib_poll_context {
        match self {
            Self::Softirq => bindings::ib_poll_context_IB_POLL_SOFTIRQ,
            Self::Workqueue => bindings::ib_poll_context_IB_POLL_WORKQUEUE,
            Self::Unbound => bindings::ib_poll_context_IB_POLL_UNBOUND_WORKQUEUE,
            Self::Direct => bindings::ib_poll_context_IB_POLL_DIRECT,
        }
    }
}

/// The work queues that poll.
pub(crate) struct Subsystem {
    _per_cpu: OwnedQueue,
    _unbound: OwnedQueue,
}

/// Where they are, while there is a [`Subsystem`].
static PER_CPU: Atomic<usize> = Atomic::<usize>::new(0);
static UNBOUND: Atomic<usize> = Atomic::<usize>::new(0);

impl Subsystem {
    /// Once, before there are devices. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // On the way of storage, so memory may be wanted to go on.
        let per_cpu = QueueOptions::per_cpu().high_priority().mem_reclaim();
        let unbound = QueueOptions::unbound().high_priority().mem_reclaim();
        let this = Self {
            _per_cpu: per_cpu.sysfs().create(c"ib-comp-wq")?,
            _unbound: unbound.sysfs().max_active().create(c"ib-comp-unb-wq")?,
        };
        PER_CPU.store(this._per_cpu.as_raw() as usize, Relaxed);
        UNBOUND.store(this._unbound.as_raw() as usize, Relaxed);
        Ok(this)
    }
}

/// What a consumer asks for.
pub(crate) struct Request {
    /// The consumer's own; the driver finds it as `cq_context`.
    pub(crate) private: Passed<c_void>,
    /// Completions that it must hold.
    pub(crate) size: c_int,
    /// The interrupt.
    pub(crate) vector: c_int,
    /// Where it is polled.
    pub(crate) context: Context,
    /// Who asks, by a string that stays as long as the queue.
    pub(crate) caller: Option<&'static CStr>,
}

/// Room for what is polled at once.
type Batch = [MaybeUninit<bindings::ib_wc>; poll::BATCH as usize];

/// Makes a queue, which is polled from now on. May sleep.
///
/// # Errors
///
/// `EINVAL` for a size of zero; `ENOMEM`; the driver's.
///
/// # Safety
///
/// `device` is registered and stays so as long as the queue; the name in `request` stays as
/// long, too.
pub(crate) unsafe fn alloc(device: &Device, request: &Request) -> Result<Owned<Cq>> {
    if kernel::warn_on!(request.size == 0) {
        return Err(EINVAL);
    }
    let create = method(device.ops().create_cq)?;
    let attr = bindings::ib_cq_init_attr {
        // As C does: a negative number is for the driver to refuse.
        cqe: request.size as u32,
        comp_vector: request.vector as u32,
        ..Default::default()
    };
    let init = CqInit {
        dev: device,
        comp_handler: None,
        event_handler: None,
        cq_context: request.private,
    };
    let mut cq = New::<Cq>::alloc(device, From::Anywhere, init)?;
    let batch = KBox::<Batch>::new(
        [const { MaybeUninit::uninit() }; poll::BATCH as usize],
        GFP_KERNEL,
    )?;
    let ptr = cq.sole();
    // SAFETY: The queue is ours.
    unsafe {
        (*ptr).poll_ctx = request.context.into_raw();
        (*ptr).comp_vector = request.vector as u32;
        // The batch is ours until the driver has made the queue, then the queue's.
        (*ptr).wc = core::ptr::from_ref(&*batch).cast_mut().cast();
    }
    cq.track(Owner::Caller(request.caller));
    // SAFETY: The queue is ours and does not move. So it is complete before the driver, which
    // may tell of completions, has it.
    unsafe { poll::set_up(ptr, request.context) };
    // SAFETY: The object is filled in; the method is the driver's own.
    outcome(unsafe { create(ptr, &attr, core::ptr::null_mut()) })?;
    // SAFETY: The driver has made it. Its batch and moderation are freed by `free`.
    unsafe {
        let _: *mut Batch = KBox::into_raw(batch);
        moderation::begin(ptr, request.context);
        poll::begin(ptr, request.context);
    }
    Ok(cq.finish())
}

/// Stops the polling of a queue, and frees it. May sleep; not from its own polling.
///
/// A queue that somebody uses is left alone, with a warning: its consumer is wrong.
///
/// # Safety
///
/// `cq` was made by [`alloc`], and nobody begins to use it.
pub(crate) unsafe fn free(cq: NonNull<bindings::ib_cq>) {
    let raw = cq.as_ptr();
    // SAFETY: By this function's duty.
    let (this, in_use) = unsafe {
        let this = Cq::from_raw(raw);
        (this, this.usecnt().is_used() || this.cqe_used() != 0)
    };
    if kernel::warn_on!(in_use) {
        return;
    }
    let ops = this.device().ops();
    // SAFETY: By this function's duty; the methods are the driver's own, and the object's
    // memory and batch came from `alloc`.
    unsafe {
        crate::restrack::OwnerRef::new(crate::restrack::Entry::of(this.res())).del();
        if let Some(stop) = ops.pre_destroy_cq {
            kernel::warn_on!(stop(raw) != 0);
        }
        poll::end(raw);
        moderation::end(raw);
        bindings::rdma_helper_trace_cq_free(raw);
        match (ops.post_destroy_cq, ops.destroy_cq) {
            (Some(destroy), _) => destroy(raw),
            (None, Some(destroy)) => {
                // Drivers may not refuse what the kernel frees.
                kernel::warn_on!(destroy(raw, core::ptr::null_mut()) != 0);
            }
            (None, None) => {}
        }
        drop(KBox::<Batch>::from_raw((*raw).wc.cast()));
        bindings::kfree(raw.cast());
    }
}
