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
//! | `edge` | queues and their polling as C has them |
//! | `abi` | what other modules call |
//!
//! Who wants events of a queue as they come, and polls by itself, uses [`crate::verbs`].

mod abi;
pub(crate) mod edge;
mod moderation;
mod poll;
mod pool;

pub(crate) use poll::process_direct;
pub(crate) use pool::clean_up;

use self::edge::Batch;
use self::edge::NewPolled;
use self::edge::OwnedPolled;
use crate::device::Device;
use crate::object::tables::CqInit;
use crate::object::tables::CqMake;
use crate::object::Cq;
use crate::object::From;
use crate::object::New;
use crate::object::Object;
use crate::object::Owner;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
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

/// Leases of them: each queue that is polled by work gets one of its own.
struct Leases {
    per_cpu: QueueLease,
    unbound: QueueLease,
}

kernel::sync::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before there are devices.
    unsafe(uninit) static LEASES: Mutex<Option<Leases>> = None;
}

impl Subsystem {
    /// Once, before there are devices. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: `IbCore::init` calls this once, before there is a device that uses it.
        unsafe { LEASES.init() };
        // On the way of storage, so memory may be wanted to go on.
        let per_cpu = QueueOptions::per_cpu().high_priority().mem_reclaim();
        let unbound = QueueOptions::unbound().high_priority().mem_reclaim();
        let this = Self {
            _per_cpu: per_cpu.sysfs().create(c"ib-comp-wq")?,
            _unbound: unbound.sysfs().max_active().create(c"ib-comp-unb-wq")?,
        };
        *LEASES.lock() = Some(Leases {
            per_cpu: this._per_cpu.lease(),
            unbound: this._unbound.lease(),
        });
        Ok(this)
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // The work queues go with the fields, and wait for who has a lease.
        *LEASES.lock() = None;
    }
}

/// A lease of the work queue of a context, if it has one. May sleep.
///
/// # Errors
///
/// `ENODEV` when there is no [`Subsystem`].
fn lease(context: Context) -> Result<Option<QueueLease>> {
    let of: fn(&Leases) -> &QueueLease = match context {
        Context::Softirq | Context::Direct => return Ok(None),
        Context::Workqueue => |leases| &leases.per_cpu,
        Context::Unbound => |leases| &leases.unbound,
    };
    let leases = LEASES.lock();
    let lease = of(leases.as_ref().ok_or(ENODEV)?).clone();
    Ok(Some(lease))
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

/// Makes a queue, which is polled from now on. May sleep.
///
/// # Errors
///
/// `EINVAL` for a size of zero; `ENOMEM`; the driver's.
pub(crate) fn alloc(device: &Device, request: &Request) -> Result<OwnedPolled> {
    if kernel::warn_on!(request.size == 0) {
        return Err(EINVAL);
    }
    device.needs(|ops| ops.create_cq)?;
    // CAST: As C does: a negative number is for the driver to refuse.
    let (size, vector) = (request.size as u32, request.vector as u32);
    let attr = CqMake::default();
    attr.set_cqe(size);
    attr.set_comp_vector(vector);
    let init = CqInit {
        dev: device,
        comp_handler: None,
        event_handler: None,
        cq_context: request.private,
    };
    let mut cq = New::<Cq>::alloc(device, From::Anywhere, init)?;
    let batch = Batch::new(lease(request.context)?)?;
    Cq::set_comp_vector(&mut cq, vector);
    cq.track(Owner::Caller(request.caller));
    // It is complete before the driver, which may tell of completions, has it.
    let mut cq = NewPolled::set_up(cq, batch, request.context, poll::SOFTIRQ_BUDGET)?;
    cq.driver().create_cq(In(&attr), None)?;
    moderation::begin(&mut cq, request.context);
    poll::begin(cq.polled(), request.context);
    Ok(cq.finish())
}

/// Stops the polling of a queue, and frees it. May sleep; not from its own polling.
///
/// A queue that somebody uses is left alone, with a warning: its consumer is wrong.
pub(crate) fn free(mut cq: OwnedPolled) {
    if kernel::warn_on!(cq.usecnt().is_used() || cq.cqe_used() != 0) {
        return;
    }
    cq.untrack();
    kernel::warn_on!(cq.announce_end().is_err());
    let mut cq = cq.stop();
    cq.end_measure();
    edge::trace_free(&cq);
    cq.destroy();
}
