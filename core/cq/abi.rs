// SPDX-License-Identifier: GPL-2.0

//! What other modules call of completion queues that the core polls.

use super::pool;
use super::Context;
use super::Request;
use crate::device::Device;
use crate::verbs::object::pointer;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::Answer;
use rdma::edge::FromC;
use rdma::edge::View;

rdma::exported!(
    __ib_alloc_cq,
    __ib_alloc_cq_any,
    ib_cq_pool_get,
    ib_cq_pool_put,
    ib_free_cq,
    ib_process_cq_direct,
);

/// See [`super::alloc`].
///
/// # Safety
///
/// `device` is registered, and `caller` a string that stays; both as long as the queue.
#[no_mangle]
pub(crate) unsafe extern "C" fn __ib_alloc_cq(
    device: *mut bindings::ib_device,
    private: *mut c_void,
    size: c_int,
    vector: c_int,
    context: bindings::ib_poll_context,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    let make = || {
        // SAFETY: By this function's duty.
        let (private, caller) = unsafe { (FromC::from_c(private), FromC::from_c(caller)) };
        let request = Request {
            private,
            size,
            vector,
            context: Context::from_raw(context).ok_or(EINVAL)?,
            caller,
        };
        // SAFETY: By this function's duty.
        unsafe { super::alloc(Device::from_raw(device), &request) }
    };
    let made = make();
    // SAFETY: The events only read.
    unsafe {
        match &made {
            Ok(cq) => bindings::rdma_helper_trace_cq_alloc(cq.raw(), size, vector, context),
            Err(error) => {
                let error = error.to_errno();
                bindings::rdma_helper_trace_cq_alloc_error(size, vector, context, error);
            }
        }
    }
    made.answer()
}

/// As [`__ib_alloc_cq`], for an interrupt that the core chooses, one after the other.
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn __ib_alloc_cq_any(
    device: *mut bindings::ib_device,
    private: *mut c_void,
    size: c_int,
    context: bindings::ib_poll_context,
    caller: *const c_char,
) -> *mut bindings::ib_cq {
    static NEXT: Atomic<u32> = Atomic::<u32>::new(0);
    // SAFETY: By this function's duty.
    let vectors = pool::vectors(unsafe { Device::from_raw(device) });
    let vector = if vectors > 1 {
        NEXT.fetch_add(1, Relaxed).wrapping_add(1) % vectors
    } else {
        0
    };
    // SAFETY: By this function's duty. Vectors are fewer than CPUs.
    unsafe { __ib_alloc_cq(device, private, size, vector as c_int, context, caller) }
}

/// See [`super::free`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_free_cq(cq: *mut bindings::ib_cq) {
    if let Some(cq) = NonNull::new(cq) {
        // SAFETY: By this function's duty.
        unsafe { super::free(cq) };
    }
}

/// Polls in the caller's context, which its consumers must bear; a negative budget is none.
/// Nothing keeps the core from polling the queue elsewhere meanwhile, if it does.
///
/// # Safety
///
/// `cq` lives; its completions name requests by `wr_cqe`.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_process_cq_direct(
    cq: *mut bindings::ib_cq,
    budget: c_int,
) -> c_int {
    // SAFETY: By this function's duty.
    let done = unsafe { super::poll::process_here(cq, u32::try_from(budget).ok()) };
    c_int::try_from(done).unwrap_or(c_int::MAX)
}

/// See [`pool::get`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_cq_pool_get(
    device: *mut bindings::ib_device,
    wanted: c_uint,
    hint: c_int,
    context: bindings::ib_poll_context,
) -> *mut bindings::ib_cq {
    let context = Context::from_raw(context);
    // SAFETY: By this function's duty.
    pointer(unsafe { pool::get(Device::from_raw(device), wanted, hint, context) })
}

/// See [`pool::put`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_cq_pool_put(cq: *mut bindings::ib_cq, claimed: c_uint) {
    // SAFETY: By this function's duty.
    unsafe { pool::put(cq, claimed) };
}
