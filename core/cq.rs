// SPDX-License-Identifier: GPL-2.0

//! Completion queues for kernel consumers: the core polls them, in a context chosen by the
//! consumer, and calls back for each completion (`struct ib_cqe`).
//!
//! | file | what |
//! |---|---|
//! | here | contexts; creating and freeing queues |
//! | `poll` | the hot path: polling, and rearming without losing a completion |
//! | `moderation` | adaptive moderation of events |
//! | `pool` | queues that consumers share |
//! | `edge` | C structures of queues and their polling |
//! | `abi` | exported functions |
//!
//! Consumers that handle events and poll themselves use [`crate::verbs`].

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
use crate::object::AllocFrom;
use crate::object::Cq;
use crate::object::New;
use crate::object::Owner;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Passed;
use rdma::sync::init_once;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

/// Context in which a queue is polled and its consumer called back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    /// Softirq, on the CPU of the interrupt.
    Softirq,
    /// Workqueue, on the CPU of the interrupt.
    Workqueue,
    /// Workqueue, on any CPU.
    Unbound,
    /// The consumer polls the queue itself; there are no events.
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

/// Workqueues for polling.
pub(crate) struct Subsystem {
    _per_cpu: OwnedQueue,
    _unbound: OwnedQueue,
}

/// Leases of the workqueues; each queue polled by work items gets a clone of one.
struct Leases {
    per_cpu: QueueLease,
    unbound: QueueLease,
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before there are devices.
    unsafe(uninit) static LEASES: Mutex<Option<Leases>> = None;
}

impl Subsystem {
    /// Creates the workqueues. Must be called only once, before there are devices. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        init_once(&LEASES);
        // Storage depends on these workqueues, so they need a rescuer under memory pressure.
        let per_cpu = QueueOptions::per_cpu().high_priority().mem_reclaim();
        let unbound = QueueOptions::unbound().high_priority().mem_reclaim();
        let this = Self {
            _per_cpu: per_cpu.sysfs().create(c"ib-comp-wq", rdma::resident!())?,
            _unbound: unbound
                .sysfs()
                .max_active()
                .create(c"ib-comp-unb-wq", rdma::resident!())?,
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
        // Dropping the fields destroys the workqueues, which waits for all leases.
        *LEASES.lock() = None;
    }
}

/// Returns a lease of the workqueue of a context, if it has one. May sleep.
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

/// Parameters of a new queue.
pub(crate) struct Request {
    /// Private data of the consumer; the driver finds it in `cq_context`.
    pub(crate) private: Passed<c_void>,
    /// Minimum number of completions that the queue holds.
    pub(crate) size: c_int,
    /// Completion vector.
    pub(crate) vector: c_int,
    /// Polling context.
    pub(crate) context: Context,
    /// Name of the consumer for restrack; must outlive the queue.
    pub(crate) caller: Option<&'static CStr>,
}

/// Creates a queue and starts to poll it. May sleep.
///
/// # Errors
///
/// `EINVAL` if the size is zero; `ENOMEM`; errors of the driver.
pub(crate) fn alloc(device: &Device, request: &Request) -> Result<OwnedPolled> {
    if kernel::warn_on!(request.size == 0) {
        return Err(EINVAL);
    }
    device.needs(|ops| ops.create_cq)?;
    // CAST: as in C, negative numbers are left to the driver to reject.
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
    let mut cq = New::<Cq>::alloc(device, AllocFrom::Anywhere, init)?;
    let batch = Batch::new(lease(request.context)?)?;
    Cq::set_comp_vector(&mut cq, vector);
    cq.track(Owner::Caller(request.caller));
    // Set up the queue before the driver creates it, as completions may follow at once.
    let cq = NewPolled::set_up(cq, batch, request.context, poll::SOFTIRQ_BUDGET)?;
    let mut cq = cq.make(&attr)?;
    moderation::begin(&mut cq, request.context);
    poll::begin(cq.polled(), request.context);
    Ok(cq.finish())
}

/// Stops the polling of a queue and frees it. May sleep. Must not be called from its own polling.
///
/// Warns and does nothing if the queue is in use, which is a bug of the consumer.
pub(crate) fn free(cq: OwnedPolled) {
    if kernel::warn_on!(cq.usecnt().is_used() || cq.cqe_used() != 0) {
        return;
    }
    let mut cq = cq.untrack();
    kernel::warn_on!(cq.announce_end().is_err());
    let cq = cq.stop().end_measure();
    edge::trace_free(&cq);
    cq.destroy();
}
