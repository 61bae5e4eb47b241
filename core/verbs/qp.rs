// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: made, asked, destroyed. How they are changed is in [`super::modify_qp`].
//!
//! What a queue pair uses (domain, queues) is counted when it is whole: by
//! `ib_create_qp_kernel` here, or by `ib_uverbs` through `ib_qp_usecnt_inc` when its own part
//! is done. Destruction gives these counts back in both cases.

use super::ah_attr::GidRef;
use super::object::code;
use super::object::destroy;
use super::object::is_used;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::usecnt;
use super::object::From;
use super::object::New;
use super::object::Object;
use super::object::Owner;
use super::object::Pd;
use super::object::Qp;
use super::shared_qp;
use crate::counter;
use crate::device::Device;
use crate::rw;
use crate::security;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

/// Whom a queue pair is made for.
pub(super) enum For {
    /// A user, by its call and its object.
    User {
        /// The call.
        attrs: NonNull<bindings::uverbs_attr_bundle>,
        /// The object.
        uobject: *mut bindings::ib_uqp_object,
    },
    /// A part of the kernel, by its name, which is a string that stays.
    Kernel(*const c_char),
}

/// The counts of what a queue pair uses.
///
/// # Safety
///
/// `qp` is filled in, and what it points to lives.
unsafe fn used_by(qp: *mut bindings::ib_qp) -> [*mut bindings::atomic_t; 5] {
    // SAFETY: By this function's duty.
    unsafe {
        [
            usecnt!((*qp).pd),
            usecnt!((*qp).send_cq),
            usecnt!((*qp).recv_cq),
            usecnt!((*qp).srq),
            usecnt!((*qp).rwq_ind_tbl),
        ]
    }
}

/// # Safety
///
/// As for [`used_by`].
unsafe fn count_uses(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty; the objects are not destroyed while they are counted.
    super::object::keep(unsafe { used_by(qp).map(|count| super::object::Use::of(count)) });
}

/// # Safety
///
/// As for [`used_by`], and the uses are counted.
unsafe fn uncount_uses(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty.
    drop(unsafe { used_by(qp).map(|count| super::object::Use::kept(count)) });
}

/// Tells the consumer of an event; the last request of a shared receive queue is waited for
/// by [`super::drain`] too.
///
/// # Safety
///
/// For drivers, as the event handler of a queue pair made by [`create`]: `event` names it.
unsafe extern "C" fn on_event(event: *mut bindings::ib_event, _context: *mut c_void) {
    // SAFETY: By this function's duty; the queue pair lives while its driver tells of it.
    unsafe {
        let qp = *(*event).element.qp;
        if (*event).event == bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED {
            bindings::complete(&raw mut (*qp).srq_completion);
        }
        if let Some(handler) = (*qp).registered_event_handler {
            handler(event, (*qp).qp_context);
        }
    }
}

/// Fills in what is known before the driver is asked.
fn fill_in(
    qp: &mut New<Qp>,
    device: &Device,
    pd: *mut bindings::ib_pd,
    attr: &bindings::ib_qp_init_attr,
    uobject: *mut bindings::ib_uqp_object,
) {
    let raw = qp.as_raw();
    let c = qp.c();
    c.device = device.as_raw();
    c.pd = pd;
    c.uobject = uobject;
    c.real_qp = raw;
    c.qp_type = attr.qp_type;
    c.rwq_ind_tbl = attr.rwq_ind_tbl;
    c.srq = attr.srq;
    c.event_handler = Some(on_event);
    c.registered_event_handler = attr.event_handler;
    c.port = attr.port_num;
    c.qp_context = attr.qp_context;
    c.send_cq = attr.send_cq;
    c.recv_cq = attr.recv_cq;
    // SAFETY: All are fields of an object that is ours and does not move.
    unsafe {
        bindings::rdma_helper_qp_init_mr_lock(raw);
        bindings::INIT_LIST_HEAD(&raw mut (*raw).rdma_mrs);
        bindings::INIT_LIST_HEAD(&raw mut (*raw).sig_mrs);
        bindings::init_completion(&raw mut (*raw).srq_completion);
    }
}

/// Makes a queue pair; its uses are not counted yet. May sleep.
///
/// # Safety
///
/// `pd` and the objects in `attr` live or are null; `whom` is as it says.
pub(super) unsafe fn create(
    device: &Device,
    pd: *mut bindings::ib_pd,
    attr: &mut bindings::ib_qp_init_attr,
    whom: For,
) -> Result<NonNull<bindings::ib_qp>> {
    let make = method(device.ops().create_qp)?;
    let mut qp = New::<Qp>::alloc(device, From::DeviceNode)?;
    let (uobject, udata, name) = match whom {
        For::User { attrs, uobject } => {
            // SAFETY: By this function's duty; only a place is computed.
            let udata = unsafe {
                &raw mut (*attrs.as_ptr())
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .driver_udata
            };
            (uobject, udata, core::ptr::null())
        }
        For::Kernel(name) => {
            kernel::warn_on!(name.is_null());
            (core::ptr::null_mut(), core::ptr::null_mut(), name)
        }
    };
    fill_in(&mut qp, device, pd, attr, uobject);
    // SAFETY: By this function's duty.
    unsafe { qp.track(Owner::Caller(name)) };
    let secured = security::prepare(device, qp.ptr())?;
    // SAFETY: The object is filled in; the rest by this function's duty; the method is the
    // driver's own.
    outcome(unsafe { make(qp.as_raw(), attr, udata) })?;
    // Some drivers put queues of their own there.
    qp.c().send_cq = attr.send_cq;
    qp.c().recv_cq = attr.recv_cq;
    secured.publish();
    Ok(qp.finish())
}

/// Destroys a queue pair, or one user's handle to a shared one. May sleep.
///
/// # Errors
///
/// `EBUSY` while it is open, or a member of groups; the driver's.
///
/// # Safety
///
/// `qp` lives, and nobody begins to use it; `udata` is null or a user's call.
pub(super) unsafe fn destroy_qp(
    qp: NonNull<bindings::ib_qp>,
    udata: *mut bindings::ib_udata,
) -> Result {
    let raw = qp.as_ptr();
    // SAFETY: By this function's duty.
    unsafe {
        kernel::warn_on!((*raw).mrs_used > 0);
        if is_used(&raw const (*raw).usecnt) {
            return Err(EBUSY);
        }
        if (*raw).real_qp != raw {
            shared_qp::close_and_destroy(qp);
            return Ok(());
        }
    }
    // SAFETY: As above.
    let method = method(unsafe { Qp::from_raw(raw) }.device().ops().destroy_qp)?;
    let ask = || {
        // SAFETY: By this function's duty, and nothing uses it; the method is the driver's own.
        unsafe {
            if (*raw).uobject.is_null() {
                rw::drop_regions(qp);
            }
            security::destroy(raw, || {
                counter::unbind_qp(qp, (*raw).port);
                outcome(method(raw, udata))
            })
        }
    };
    let after = || {
        // SAFETY: By this function's duty: references and counts are those of the queue pair,
        // which nobody changes any more.
        unsafe {
            drop(GidRef::take((*raw).alt_path_sgid_attr));
            drop(GidRef::take((*raw).av_sgid_attr));
            uncount_uses(raw);
        }
    };
    // SAFETY: By this function's duty.
    unsafe { destroy::<Qp>(qp, ask, after) }
}

/// What the driver knows of a queue pair. May sleep.
///
/// # Safety
///
/// Both places are valid.
unsafe fn query(
    qp: &Qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    init: *mut bindings::ib_qp_init_attr,
) -> Result {
    // SAFETY: By this function's duty. Drivers give out no references.
    unsafe {
        (*attr).ah_attr.grh.sgid_attr = core::ptr::null();
        (*attr).alt_ah_attr.grh.sgid_attr = core::ptr::null();
    }
    let query = method(qp.device().ops().query_qp)?;
    // SAFETY: The queue pair lives; the rest by this function's duty; the method is the
    // driver's own.
    outcome(unsafe { query((*qp.as_raw()).real_qp, attr, mask, init) })
}

/// The state and port of a queue pair, asked of the driver. May sleep.
pub(super) fn state_and_port(qp: &Qp) -> Result<(bindings::ib_qp_state, u32)> {
    let mut attr = bindings::ib_qp_attr::default();
    let mut init = bindings::ib_qp_init_attr::default();
    let mask = bindings::ib_qp_attr_mask_IB_QP_STATE | bindings::ib_qp_attr_mask_IB_QP_PORT;
    // SAFETY: Both places are valid.
    unsafe { query(qp, &mut attr, mask as c_int, &mut init) }?;
    Ok((attr.qp_state, attr.port_num))
}

rdma::exported!(ib_create_qp_kernel, ib_query_qp, ib_destroy_qp_user);
crate::private::exported_private!(ib_create_qp_user, ib_qp_usecnt_inc, ib_qp_usecnt_dec);

/// Makes a queue pair for a user. A target of an extended reliable connection belongs to the
/// kernel, and the user gets a handle to it. May sleep.
///
/// # Safety
///
/// `device` is registered; `pd` and the objects in `attr` live or are null; `attrs` and
/// `uobject` are the user's; `caller` is a string that stays.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_create_qp_user(
    device: *mut bindings::ib_device,
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::ib_qp_init_attr,
    attrs: *mut bindings::uverbs_attr_bundle,
    uobject: *mut crate::private::ib_uqp_object,
    caller: *const c_char,
) -> *mut bindings::ib_qp {
    let uobject = uobject.cast();
    let make = || {
        // SAFETY: By this function's duty.
        let (device, attr) = unsafe { (Device::from_raw(device), &mut *attr) };
        if attr.qp_type == bindings::ib_qp_type_IB_QPT_XRC_TGT {
            // SAFETY: By this function's duty.
            return unsafe { shared_qp::create(device, pd, attr, uobject, caller) };
        }
        let whom = match NonNull::new(attrs) {
            Some(attrs) => For::User { attrs, uobject },
            None => For::Kernel(caller),
        };
        // SAFETY: By this function's duty.
        unsafe { create(device, pd, attr, whom) }
    };
    pointer(make())
}

/// Counts what a queue pair uses. Any context.
///
/// # Safety
///
/// `qp` lives, and with it what it uses.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_qp_usecnt_inc(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty.
    unsafe { count_uses(qp) };
}

/// The reverse of [`ib_qp_usecnt_inc`]. Any context.
///
/// # Safety
///
/// As there, and the uses are counted.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_qp_usecnt_dec(qp: *mut bindings::ib_qp) {
    // SAFETY: By this function's duty.
    unsafe { uncount_uses(qp) };
}

/// Makes a queue pair for a part of the kernel, with room for `max_rdma_ctxs` transfers of
/// [`crate::rw`]. May sleep.
///
/// # Safety
///
/// `pd` and the objects in `attr` live; `caller` is a string that stays.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_create_qp_kernel(
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::ib_qp_init_attr,
    caller: *const c_char,
) -> *mut bindings::ib_qp {
    let make = || {
        // SAFETY: By this function's duty.
        let (device, attr) = unsafe { (Pd::from_raw(pd).device(), &mut *attr) };
        let transfers = attr.cap.max_rdma_ctxs != 0;
        if transfers {
            rw::size_queue(device, attr);
        }
        // SAFETY: By this function's duty.
        let qp = unsafe { create(device, pd, attr, For::Kernel(caller)) }?;
        // SAFETY: Just made; attributes are written before the device is registered.
        unsafe {
            count_uses(qp.as_ptr());
            if transfers {
                if let Err(error) = rw::make_regions(qp, attr) {
                    kernel::warn_on!(destroy_qp(qp, core::ptr::null_mut()).is_err());
                    return Err(error);
                }
            }
            let c = &mut *qp.as_ptr();
            let max_read = (*device.as_raw()).attrs.max_sge_rd as u32;
            c.max_write_sge = attr.cap.max_send_sge;
            c.max_read_sge = attr.cap.max_send_sge.min(max_read);
            c.integrity_en = attr.create_flags
                & bindings::ib_qp_create_flags_IB_QP_CREATE_INTEGRITY_EN as u32
                != 0;
        }
        Ok(qp)
    };
    pointer(make())
}

/// See [`query`].
///
/// # Safety
///
/// `qp` lives, and both places are valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_query_qp(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    init: *mut bindings::ib_qp_init_attr,
) -> c_int {
    // SAFETY: By this function's duty.
    code(unsafe { query(Qp::from_raw(qp), attr, mask, init) })
}

/// See [`destroy_qp`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_destroy_qp_user(
    qp: *mut bindings::ib_qp,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let qp = NonNull::new(qp).ok_or(EINVAL);
    // SAFETY: By this function's duty.
    code(qp.and_then(|qp| unsafe { destroy_qp(qp, udata) }))
}
