// SPDX-License-Identifier: GPL-2.0

//! Completion queues that their owners poll. Those that the core polls for consumers in the
//! kernel are in [`crate::cq`].

use super::object::code;
use super::object::destroy;
use super::object::is_used;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::Cq;
use super::object::From;
use super::object::New;
use super::object::Object;
use super::object::Owner;
use crate::device::Device;
use crate::errno::eopnotsupp;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

type EventHandler = Option<unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void)>;

/// Moderates a queue's completions: an event comes after so many of them, or so many
/// microseconds. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP` for a queue of a pool, which others use too, or by the driver.
fn moderate(cq: &Cq, count: u16, period: u16) -> Result {
    // SAFETY: The object lives; written before it was handed out.
    if unsafe { (*cq.as_raw()).shared() } != 0 {
        return Err(eopnotsupp());
    }
    let modify = method(cq.device().ops().modify_cq)?;
    // SAFETY: The queue lives; the method is the driver's own.
    outcome(unsafe { modify(cq.as_raw(), count, period) })
}

rdma::exported!(__ib_create_cq, rdma_set_cq_moderation, ib_destroy_cq_user,);

/// Makes a completion queue for a part of the kernel. May sleep.
///
/// # Safety
///
/// `device` is registered, `attr` valid; handlers and context fit; `caller` is a string that
/// stays as long as the queue.
#[no_mangle]
pub(crate) unsafe extern "C" fn __ib_create_cq(
    device: *mut bindings::ib_device,
    comp_handler: bindings::ib_comp_handler,
    event_handler: EventHandler,
    cq_context: *mut c_void,
    attr: *const bindings::ib_cq_init_attr,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    let make = || {
        // SAFETY: By this function's duty.
        let device = unsafe { Device::from_raw(device) };
        // SAFETY: As above.
        if kernel::warn_on!(unsafe { (*attr).cqe } == 0) {
            return Err(EINVAL);
        }
        let create = method(device.ops().create_cq)?;
        let mut cq = New::<Cq>::alloc(device, From::Anywhere)?;
        let c = cq.c();
        c.device = device.as_raw();
        c.comp_handler = comp_handler;
        c.event_handler = event_handler;
        c.cq_context = cq_context;
        // SAFETY: By this function's duty.
        unsafe { cq.track(Owner::Caller(caller)) };
        // SAFETY: The object is filled in; the method is the driver's own.
        outcome(unsafe { create(cq.as_raw(), attr, core::ptr::null_mut()) })?;
        Ok(cq.finish())
    };
    pointer(make())
}

/// See [`moderate`].
///
/// # Safety
///
/// `cq` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_set_cq_moderation(
    cq: *mut bindings::ib_cq,
    count: u16,
    period: u16,
) -> c_int {
    // SAFETY: By this function's duty.
    code(moderate(unsafe { Cq::from_raw(cq) }, count, period))
}

/// Destroys a queue: `EBUSY` while queue pairs and the like use it. May sleep.
///
/// # Safety
///
/// `cq` lives, and nobody begins to use it; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_destroy_cq_user(
    cq: *mut bindings::ib_cq,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let destroy = || {
        let ptr = NonNull::new(cq).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        let this = unsafe { Cq::from_raw(cq) };
        // SAFETY: As above.
        if kernel::warn_on!(unsafe { (*cq).shared() } != 0) {
            return Err(eopnotsupp());
        }
        // SAFETY: As above.
        if unsafe { is_used(&raw const (*cq).usecnt) } {
            return Err(EBUSY);
        }
        let method = method(this.device().ops().destroy_cq)?;
        // SAFETY: By this function's duty, and nothing uses it; the method is the driver's own.
        unsafe { destroy::<Cq>(ptr, || outcome(method(cq, udata)), || ()) }
    };
    code(destroy())
}
