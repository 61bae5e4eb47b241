// SPDX-License-Identifier: GPL-2.0

//! Work queues (`struct ib_wq`).

use crate::edge::call::Call;
use crate::edge::handle;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Handle;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::wq::Wq;
use core::ffi::c_void;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::FromC;
use rdma::edge::View;

/// What a program asks of a queue.
pub(crate) struct Wanted<'a> {
    /// Completion queue.
    pub(crate) cq: &'a verbs::Cq,
    /// `enum ib_wq_type`.
    pub(crate) kind: u32,
    /// Maximum number of posted receives.
    pub(crate) max_wr: u32,
    /// Maximum number of scatter list entries of a receive.
    pub(crate) max_sge: u32,
    /// `enum ib_uverbs_wq_flags`.
    pub(crate) flags: u32,
}

/// A queue that was made.
pub(crate) struct Made<'c> {
    /// The queue.
    pub(crate) wq: handle::Made<'c, Wq>,
    /// See [`Wanted`].
    pub(crate) max_wr: u32,
    /// See [`Wanted`].
    pub(crate) max_sge: u32,
}

/// Makes a queue, whose events go to what is beside the handle. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has no method for it; those of the driver.
pub(crate) fn create<'c>(
    new: New<'c, Wq>,
    pd: &verbs::Pd,
    wanted: &Wanted<'_>,
) -> Result<Made<'c>> {
    let create = pd.dev().ops().create_wq.ok_or_else(unsupported)?;
    let handle = new.handle().raw();
    let mut attr = bindings::ib_wq_init_attr {
        wq_context: handle.cast(),
        wq_type: wanted.kind,
        max_wr: wanted.max_wr,
        max_sge: wanted.max_sge,
        cq: wanted.cq.raw(),
        event_handler: Some(event),
        create_flags: wanted.flags,
    };
    // SAFETY: Domain and completion queue are locked for the call. The driver allocates the queue,
    // whose fields it leaves to us.
    let wq = unsafe {
        let c = from_err_ptr(create(pd.raw(), &raw mut attr, new.call().udata().raw()))?;
        (*c).device = pd.dev().raw();
        (*c).pd = pd.raw();
        (*c).cq = wanted.cq.raw();
        (*c).wq_type = wanted.kind;
        (*c).wq_context = attr.wq_context;
        (*c).event_handler = attr.event_handler;
        (*c).usecnt = bindings::atomic_t::default();
        // The handler may read it at the same time.
        (&raw mut (*c).uobject).write_volatile(handle.cast());
        Owned::new(NonNull::new(c).ok_or(ENOMEM)?)
    };
    // `destroy` removes them.
    pd.usecnt().count().keep();
    wanted.cq.usecnt().count().keep();
    Ok(Made {
        wq: new.made_with(wq),
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
    })
}

/// Changes what `mask` says (`enum ib_wq_attr_mask`). May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
pub(crate) fn modify(
    call: &Call,
    wq: &verbs::Wq,
    mut attr: bindings::ib_wq_attr,
    mask: u32,
) -> Result {
    let modify = wq.dev().ops().modify_wq.ok_or_else(unsupported)?;
    // SAFETY: The queue exists, and is a program's.
    to_result(unsafe { modify(wq.raw(), &raw mut attr, mask, call.udata().raw()) })
}

/// Destroys a queue. May sleep.
///
/// # Errors
///
/// `EBUSY`: tables use it; those of the driver.
pub(crate) fn destroy(wq: Dying<'_, Wq>) -> Result<Dead<'_, Wq>> {
    // SAFETY: Nobody else uses the queue (`Dying`). The function removes the uses that `create` has
    // counted.
    unsafe {
        to_result(bindings::ib_destroy_wq_user(
            wq.raw(),
            wq.call().udata().raw(),
        ))?;
        Ok(wq.gone())
    }
}

/// The handler of events. Drivers may have no context for it yet.
///
/// # Safety
///
/// For drivers only, with an event of a queue of this module.
unsafe extern "C" fn event(event: *mut bindings::ib_event, _: *mut c_void) {
    // SAFETY: This function's contract. The queue exists; its handle is written once, as a whole.
    let (handle, kind) = unsafe {
        let wq = *(&raw const (*event).element).cast::<*mut bindings::ib_wq>();
        let handle = (&raw const (*wq).uobject).read_volatile();
        (
            <Option<&Handle<Wq>> as FromC>::from_c(handle.cast()),
            (*event).event,
        )
    };
    if let Some(handle) = handle {
        handle.beside().events.push(handle.user_handle(), kind);
    }
}
