// SPDX-License-Identifier: GPL-2.0

//! Work queues: receive queues over which packets are distributed by an indirection table. The
//! driver allocates and frees them.

use crate::object::tables::SigAttrs;
use crate::object::tables::UserCall;
use crate::object::tables::WqInit;
use crate::object::tables::WqMake;
use crate::object::Bare;
use crate::object::Held;
use crate::object::Object;
use crate::object::Owned;
use crate::object::Owning;
use crate::object::Pd;
use crate::object::Wq;
use kernel::prelude::*;
use rdma::edge::object::Slot;
use rdma::edge::Passed;

/// Creates a work queue for a kernel consumer. May sleep.
fn create(pd: &Pd, attr: &WqMake) -> Result<Owned<Wq>> {
    let made: Bare<Wq> = pd.driver().create_wq(attr, None)?;
    let mut wq = made.fill(WqInit {
        dev: pd.device(),
        pd,
        cq: attr.cq(),
        event_handler: attr.event_handler(),
        wq_context: attr.wq_context(),
        wq_type: attr.wq_type(),
        uobject: Passed::NULL,
    });
    Wq::set_first_usecnt(&mut wq, 0);
    Held::count(&*wq).keep();
    Ok(wq)
}

/// Destroys a work queue, which must not get new users meanwhile. Returns `EBUSY` while an
/// indirection table uses it. May sleep.
fn destroy(wq: Owned<Wq>, call: Option<&UserCall>) -> Result {
    if wq.usecnt().is_used() {
        return Err(EBUSY);
    }
    let _: Option<_> = wq.destroy_by_driver(owns_nothing, |wq| {
        crate::object::driver::destroy_wq(wq, call)
    })?;
    Ok(())
}

fn owns_nothing(_: &Wq) -> Option<&Slot<SigAttrs>> {
    None
}

rdma::export! {
    in rdma::bindings;

    /// See [`create`].
    fn ib_create_wq(pd: &Pd, attr: &WqMake) -> Result<Owned<Wq>> = create;
    /// See [`destroy`].
    fn ib_destroy_wq_user(wq: Owned<Wq>, call: Option<&UserCall>) -> Result = destroy;
}
