// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::object::code;
use super::object::destroy;
use super::object::is_used;
use super::object::keep;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::usecnt;
use super::object::From;
use super::object::New;
use super::object::Object;
use super::object::Owner;
use super::object::Pd;
use super::object::Srq;
use super::object::Use;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// Whether queues of this type have a completion queue of their own.
pub(crate) const fn has_cq(srq_type: bindings::ib_srq_type) -> bool {
    matches!(
        srq_type,
        bindings::ib_srq_type_IB_SRQT_XRC | bindings::ib_srq_type_IB_SRQT_TM
    )
}

/// The counts of what a shared receive queue uses: its domain, its completion queue, its
/// domain of extended reliable connections.
///
/// # Safety
///
/// `srq` is filled in.
unsafe fn used_by(srq: *mut bindings::ib_srq) -> [*mut bindings::atomic_t; 3] {
    // SAFETY: By this function's duty; what it points to lives as long.
    unsafe {
        let (mut cq, mut xrcd) = (core::ptr::null_mut(), core::ptr::null_mut());
        if has_cq((*srq).srq_type) {
            cq = usecnt!((*srq).ext.cq);
        }
        if (*srq).srq_type == bindings::ib_srq_type_IB_SRQT_XRC {
            xrcd = usecnt!((*srq).ext.__bindgen_anon_1.xrc.xrcd);
        }
        [usecnt!((*srq).pd), cq, xrcd]
    }
}

/// Makes a shared receive queue, for a user or for a part of the kernel. May sleep.
///
/// # Safety
///
/// `attr` is valid and its objects live; `uobject` and `udata` are a user's, or null.
unsafe fn create(
    pd: &Pd,
    attr: *mut bindings::ib_srq_init_attr,
    uobject: *mut bindings::ib_usrq_object,
    udata: *mut bindings::ib_udata,
) -> Result<NonNull<bindings::ib_srq>> {
    let device = pd.device();
    let make = method(device.ops().create_srq)?;
    let mut srq = New::<Srq>::alloc(device, From::Anywhere)?;
    let c = srq.c();
    c.device = device.as_raw();
    c.pd = pd.as_raw();
    c.uobject = uobject;
    // SAFETY: By this function's duty.
    unsafe {
        c.event_handler = (*attr).event_handler;
        c.srq_context = (*attr).srq_context;
        c.srq_type = (*attr).srq_type;
        if has_cq(c.srq_type) {
            c.ext.cq = (*attr).ext.cq;
        }
        if c.srq_type == bindings::ib_srq_type_IB_SRQT_XRC {
            (*c.ext.__bindgen_anon_1.xrc).xrcd = (*attr).ext.__bindgen_anon_1.xrc.xrcd;
        }
    }
    // SAFETY: Filled in; the objects live, and are not destroyed while they are counted.
    let uses = unsafe { used_by(srq.as_raw()).map(|count| Use::of(count)) };
    // SAFETY: There is no name to keep.
    unsafe { srq.track(Owner::OfPd(pd)) };
    // SAFETY: The object is filled in; the method is the driver's own.
    outcome(unsafe { make(srq.as_raw(), attr, udata) })?;
    keep(uses);
    Ok(srq.finish())
}

rdma::exported!(
    ib_create_srq_user,
    ib_modify_srq,
    ib_query_srq,
    ib_destroy_srq_user,
);

/// See [`create`].
///
/// # Safety
///
/// As there, and `pd` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_create_srq_user(
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::ib_srq_init_attr,
    uobject: *mut bindings::ib_usrq_object,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_srq {
    // SAFETY: By this function's duty.
    pointer(unsafe { create(Pd::from_raw(pd), attr, uobject, udata) })
}

/// Changes size or limit, for a part of the kernel. May sleep.
///
/// # Safety
///
/// `srq` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_modify_srq(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
    mask: bindings::ib_srq_attr_mask,
) -> c_int {
    // SAFETY: By this function's duty.
    let ops = unsafe { Srq::from_raw(srq) }.device().ops();
    code(method(ops.modify_srq).and_then(|modify| {
        // SAFETY: By this function's duty; the method is the driver's own.
        outcome(unsafe { modify(srq, attr, mask, core::ptr::null_mut()) })
    }))
}

/// Reads size and limit. May sleep.
///
/// # Safety
///
/// `srq` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_query_srq(
    srq: *mut bindings::ib_srq,
    attr: *mut bindings::ib_srq_attr,
) -> c_int {
    // SAFETY: By this function's duty.
    let ops = unsafe { Srq::from_raw(srq) }.device().ops();
    code(method(ops.query_srq).and_then(|query| {
        // SAFETY: By this function's duty; the method is the driver's own.
        outcome(unsafe { query(srq, attr) })
    }))
}

/// Destroys a queue: `EBUSY` while queue pairs use it. May sleep.
///
/// # Safety
///
/// `srq` lives, and nobody begins to use it; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_destroy_srq_user(
    srq: *mut bindings::ib_srq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let destroy = || {
        let ptr = NonNull::new(srq).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        let this = unsafe { Srq::from_raw(srq) };
        // SAFETY: As above.
        if unsafe { is_used(&raw const (*srq).usecnt) } {
            return Err(EBUSY);
        }
        let method = method(this.device().ops().destroy_srq)?;
        // SAFETY: As above: filled in since it was made.
        let uses = unsafe { used_by(srq) };
        // SAFETY: By this function's duty, and nothing uses it; the method is the driver's own.
        // The counts were kept when it was made.
        unsafe {
            destroy::<Srq>(
                ptr,
                || outcome(method(srq, udata)),
                || drop(uses.map(|count| Use::kept(count))),
            )
        }
    };
    code(destroy())
}
