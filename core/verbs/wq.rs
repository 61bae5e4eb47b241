// SPDX-License-Identifier: GPL-2.0

//! Work queues: receive queues that several queue pairs spread packets over. The driver
//! allocates and frees them.

use super::object::code;
use super::object::is_used;
use super::object::keep;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::usecnt;
use super::object::Object;
use super::object::Pd;
use super::object::Use;
use super::object::Wq;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// The counts of what a work queue uses.
///
/// # Safety
///
/// `wq` is filled in.
unsafe fn used_by(wq: *mut bindings::ib_wq) -> [*mut bindings::atomic_t; 2] {
    // SAFETY: By this function's duty.
    unsafe { [usecnt!((*wq).pd), usecnt!((*wq).cq)] }
}

rdma::exported!(ib_create_wq, ib_destroy_wq_user);

/// Makes a work queue for a part of the kernel. May sleep.
///
/// # Safety
///
/// `pd` lives; `attr` is valid, and its completion queue lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_create_wq(
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::ib_wq_init_attr,
) -> *mut bindings::ib_wq {
    let make = || {
        // SAFETY: By this function's duty.
        let device = unsafe { Pd::from_raw(pd) }.device();
        let create = method(device.ops().create_wq)?;
        // SAFETY: By this function's duty; the method is the driver's own.
        let wq = from_err_ptr(unsafe { create(pd, attr, core::ptr::null_mut()) })?;
        let ptr = NonNull::new(wq).ok_or(ENOMEM)?;
        // SAFETY: The driver has just made it; the rest by this function's duty.
        unsafe {
            (*wq).event_handler = (*attr).event_handler;
            (*wq).wq_context = (*attr).wq_context;
            (*wq).wq_type = (*attr).wq_type;
            (*wq).cq = (*attr).cq;
            (*wq).device = device.as_raw();
            (*wq).pd = pd;
            (*wq).uobject = core::ptr::null_mut();
            (*wq).usecnt.counter = 0;
            keep(used_by(wq).map(|count| Use::of(count)));
        }
        Ok(ptr)
    };
    pointer(make())
}

/// Destroys a work queue: `EBUSY` while an indirection table uses it. May sleep.
///
/// # Safety
///
/// `wq` lives, and nobody begins to use it; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_destroy_wq_user(
    wq: *mut bindings::ib_wq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let destroy = || {
        // SAFETY: By this function's duty.
        if unsafe { is_used(&raw const (*wq).usecnt) } {
            return Err(EBUSY);
        }
        // SAFETY: As above.
        let destroy = method(unsafe { Wq::from_raw(wq) }.device().ops().destroy_wq)?;
        // SAFETY: As above: filled in since it was made.
        let uses = unsafe { used_by(wq) };
        // SAFETY: As above, and nothing uses it; the method is the driver's own.
        outcome(unsafe { destroy(wq, udata) })?;
        // SAFETY: The counts were kept when the queue was made; what they count lives.
        drop(uses.map(|count| unsafe { Use::kept(count) }));
        Ok(())
    };
    code(destroy())
}
