// SPDX-License-Identifier: GPL-2.0

//! Creation, query and destruction of queue pairs. Modification is in `modify_qp.rs`.
//!
//! The objects that a queue pair uses (domain, queues) are counted once it is complete: by
//! `ib_create_qp_kernel`, or by `ib_uverbs` through `ib_qp_usecnt_inc` after it has initialised its
//! own part. Destruction uncounts them in both cases.

use super::modify_qp;
use super::shared_qp;
use crate::counter;
use crate::device::Device;
use crate::object::tables::Bundle;
use crate::object::tables::Context;
use crate::object::tables::QpAttr;
use crate::object::tables::QpEvent;
use crate::object::tables::QpInit;
use crate::object::tables::QpMake;
use crate::object::tables::UQp;
use crate::object::tables::UQpObject;
use crate::object::tables::UserCall;
use crate::object::AllocFrom;
use crate::object::Counted;
use crate::object::Given;
use crate::object::Held;
use crate::object::New;
use crate::object::Object;
use crate::object::Out;
use crate::object::Owned;
use crate::object::Owner;
use crate::object::Owning;
use crate::object::Pd;
use crate::object::Qp;
use crate::rw;
use crate::security;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
#[cfg(CONFIG_SECURITY_INFINIBAND)]
use rdma::edge::Alone;
use rdma::features::limit;

/// The consumer that a queue pair is created for.
pub(super) enum For<'a> {
    /// A user, with its call and its object.
    User {
        /// The call.
        bundle: &'a Bundle,
        /// The object.
        uobject: Option<&'a UQp>,
    },
    /// A kernel consumer, with its name.
    Kernel(Option<&'static CStr>),
}

/// Delivers an event to the consumer. The last event of a shared receive queue also wakes
/// [`super::drain`].
fn told(event: &QpEvent, _context: Context) {
    let qp = event.qp();
    if event.kind() == bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED {
        qp.last_request_gone();
    }
    qp.tell(event);
}

rdma::callback! {
    /// Event handler, called by drivers, of queue pairs created by [`create`].
    fn on_event(event: &QpEvent, context: Context) = told;
}

/// Creates a queue pair. The objects that it uses are not counted yet. May sleep.
pub(super) fn create(
    device: &Device,
    pd: Option<&Pd>,
    attr: &QpMake,
    whom: For<'_>,
) -> Result<Owned<Qp>> {
    device.needs(|ops| ops.create_qp)?;
    let (uobject, call, name) = match whom {
        For::User { bundle, uobject } => (uobject, Some(bundle.driver_udata()), None),
        For::Kernel(name) => {
            kernel::warn_on!(name.is_none());
            (None, None, name)
        }
    };
    // Fields that are known before the driver is called.
    let init = QpInit {
        dev: device,
        pd,
        send_cq: attr.send_cq(),
        recv_cq: attr.recv_cq(),
        srq: attr.srq(),
        rwq_ind_tbl: attr.rwq_ind_tbl(),
        uobject,
        event_handler: Some(on_event),
        registered_event_handler: attr.event_handler(),
        qp_context: attr.qp_context(),
        qp_type: attr.qp_type(),
    };
    let mut qp = New::<Qp>::alloc(device, AllocFrom::DeviceNode, init)?;
    Qp::set_up(&mut qp);
    qp.set_port(attr.port_num());
    qp.track(Owner::Caller(name));
    let secured = security::prepare(device, &qp, modify_qp::fail)?;
    Qp::keeping_cqs(&mut qp, |qp| qp.driver().create_qp(attr, call))?;
    secured.publish(&mut qp);
    Ok(qp.finish())
}

/// Destroys a queue pair, which must not get new users meanwhile, or a handle to a shared one. May
/// sleep.
///
/// # Errors
///
/// `EBUSY` while it has open handles or is a member of multicast groups; those of the driver.
pub(crate) fn destroy(qp: Given<Qp>, call: Option<&UserCall>) -> Result {
    let qp = qp.owned()?;
    kernel::warn_on!(qp.mrs_used() > 0);
    if qp.usecnt().is_used() {
        return Err(EBUSY);
    }
    if qp.is_handle() {
        shared_qp::close_and_destroy(qp);
        return Ok(());
    }
    qp.device().needs(|ops| ops.destroy_qp)?;
    qp.destroy(|qp| {
        if qp.uobject().is_none() {
            rw::drop_regions(&qp);
        }
        security::destroy(&qp, || {
            counter::unbind_qp(&qp, qp.port());
            qp.destroy_qp(call)
        })?;
        qp.detach_comp_cntrs();
        Ok(())
    })
}

/// Queries the driver's attributes of a queue pair, which contain no references. May sleep.
pub(crate) fn query(qp: &Qp, attr: &QpAttr, mask: c_int, make: &QpMake) -> Result {
    qp.real().driver().query_qp(attr, mask, make)
}

/// Like [`query`], for C.
fn query_into(qp: &Qp, attr: Out<'_, QpAttr>, mask: c_int, make: &QpMake) -> Result {
    query(qp, &attr, mask, make)
}

/// Queries the state and port of a queue pair from the driver. May sleep.
pub(super) fn state_and_port(qp: &Qp) -> Result<(bindings::ib_qp_state, u32)> {
    let (attr, make) = (QpAttr::default(), QpMake::default());
    let mask = bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_PORT;
    query(qp, &attr, mask as c_int, &make)?;
    Ok((attr.qp_state(), attr.port_num()))
}

/// Creates a queue pair for a user. An XRC target belongs to the kernel, and the user gets a handle
/// to it. May sleep.
fn create_for_user(
    device: &Device,
    pd: Option<&Pd>,
    attr: &QpMake,
    bundle: Option<&Bundle>,
    uobject: Option<&UQpObject>,
    caller: Option<&'static CStr>,
) -> Result<Owned<Qp>> {
    let uobject = uobject.map(UQpObject::known);
    if attr.qp_type() == bindings::ib_qp_type_IB_QPT_XRC_TGT {
        return shared_qp::create(device, pd, attr, uobject, caller);
    }
    let whom = match bundle {
        Some(bundle) => For::User { bundle, uobject },
        None => For::Kernel(caller),
    };
    create(device, pd, attr, whom)
}

/// Counts the objects that a queue pair uses. Any context.
fn count_uses(qp: &Qp) {
    Held::count(qp).keep();
}

/// Reverses [`count_uses`]. Any context.
fn uncount_uses(qp: Counted<'_, Qp>) {
    qp.give_back();
}

/// Creates a queue pair for a kernel consumer, with room for `max_rdma_ctxs` transfers of
/// [`crate::rw`]. May sleep.
pub(crate) fn create_for_kernel(
    pd: &Pd,
    attr: &QpMake,
    caller: Option<&'static CStr>,
) -> Result<Owned<Qp>> {
    let device = pd.device();
    let transfers = attr.max_rdma_ctxs() != 0;
    if transfers {
        rw::size_queue(device, attr);
    }
    let mut qp = create(device, Some(pd), attr, For::Kernel(caller))?;
    count_uses(&qp);
    if transfers {
        if let Err(error) = rw::make_regions(&qp, attr) {
            kernel::warn_on!(destroy(Given::of(qp), None).is_err());
            return Err(error);
        }
    }
    let sge = attr.max_send_sge();
    let max_read = limit(device.attrs().max_sge_rd());
    Qp::set_max_write_sge(&mut qp, sge);
    Qp::set_max_read_sge(&mut qp, sge.min(max_read));
    let integrity = bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32;
    Qp::set_integrity_en(&mut qp, attr.create_flags() & integrity != 0);
    Ok(qp)
}

rdma::export! {
    in crate::private;

    /// See [`create_for_kernel`].
    fn ib_create_qp_kernel(pd: &Pd, attr: &QpMake, caller: Option<&'static CStr>)
        -> Result<Owned<Qp>> = create_for_kernel;
    /// See [`create_for_user`].
    fn ib_create_qp_user(
        device: &Device, pd: Option<&Pd>, attr: &QpMake, bundle: Option<&Bundle>,
        uobject: Option<&UQpObject>, caller: Option<&'static CStr>,
    ) -> Result<Owned<Qp>> = create_for_user;
    /// See [`count_uses`].
    fn ib_qp_usecnt_inc(qp: &Qp) = count_uses;
    /// See [`uncount_uses`].
    fn ib_qp_usecnt_dec(qp: Counted<'_, Qp>) = uncount_uses;
    /// See [`query`].
    fn ib_query_qp(qp: &Qp, attr: Out<'_, QpAttr>, mask: c_int, make: &QpMake)
        -> Result = query_into;
    /// See [`destroy`].
    fn ib_destroy_qp_user(qp: Given<Qp>, call: Option<&UserCall>) -> Result = destroy;
}

#[cfg(CONFIG_SECURITY_INFINIBAND)]
fn secure(qp: Option<Alone<'_, Qp>>, device: &Device) -> Result {
    security::secure(qp.ok_or(EINVAL)?, device, modify_qp::fail)
}

#[cfg(CONFIG_SECURITY_INFINIBAND)]
rdma::export! { in crate::private;
    /// Adds security state to a queue pair that has none, i.e. one that the core did not create.
    /// May sleep.
    fn ib_create_qp_security(qp: Option<Alone<'_, Qp>>, device: &Device) -> Result = secure;
}
