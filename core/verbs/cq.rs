// SPDX-License-Identifier: GPL-2.0

//! Completion queues that their owners poll. Queues that the core polls for kernel consumers are in
//! [`crate::cq`].

use crate::device::Device;
use crate::object::tables::Context;
use crate::object::tables::CqInit;
use crate::object::tables::CqMake;
use crate::object::tables::EventHandler;
use crate::object::tables::UserCall;
use crate::object::AllocFrom;
use crate::object::Cq;
use crate::object::Given;
use crate::object::New;
use crate::object::Object;
use crate::object::Owned;
use crate::object::Owner;
use crate::object::Owning;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::In;
use rdma::errno::eopnotsupp;

/// Creates a completion queue for a kernel consumer. May sleep.
fn create(
    device: &Device,
    comp_handler: bindings::ib_comp_handler,
    event_handler: EventHandler,
    cq_context: Context,
    attr: In<'_, CqMake>,
    caller: Option<&'static CStr>,
) -> Result<Owned<Cq>> {
    if kernel::warn_on!(attr.cqe() == 0) {
        return Err(EINVAL);
    }
    device.needs(|ops| ops.create_cq)?;
    let init = CqInit {
        dev: device,
        comp_handler,
        event_handler,
        cq_context,
    };
    let mut cq = New::<Cq>::alloc(device, AllocFrom::Anywhere, init)?;
    cq.track(Owner::Caller(caller));
    cq.driver().create_cq(attr, None)?;
    Ok(cq.finish())
}

/// Sets a queue's moderation: an event is raised after `count` completions or `period`
/// microseconds. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` for a queue of a pool, which is shared, or if the driver does not support it.
fn moderate(cq: &Cq, count: u16, period: u16) -> Result {
    if cq.shared() {
        return Err(eopnotsupp());
    }
    cq.driver().modify_cq(count, period)
}

/// Destroys a queue, which must not get new users meanwhile. Returns `EBUSY` while objects use it.
/// May sleep.
fn destroy(cq: Given<Cq>, call: Option<&UserCall>) -> Result {
    let cq = cq.owned()?;
    if kernel::warn_on!(cq.shared()) {
        return Err(eopnotsupp());
    }
    if cq.usecnt().is_used() {
        return Err(EBUSY);
    }
    cq.device().needs(|ops| ops.destroy_cq)?;
    cq.destroy(|cq| cq.destroy_cq(call))
}

rdma::export! {
    in rdma::bindings;

    /// See [`create`].
    fn __ib_create_cq(
        device: &Device, comp_handler: bindings::ib_comp_handler, event_handler: EventHandler,
        cq_context: Context, attr: In<'_, CqMake>, caller: Option<&'static CStr>,
    ) -> Result<Owned<Cq>> = create;
    /// See [`moderate`].
    fn rdma_set_cq_moderation(cq: &Cq, count: u16, period: u16) -> Result = moderate;
    /// See [`destroy`].
    fn ib_destroy_cq_user(cq: Given<Cq>, call: Option<&UserCall>) -> Result = destroy;
}
