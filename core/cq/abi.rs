// SPDX-License-Identifier: GPL-2.0

//! Exported functions of completion queues that the core polls.

use super::edge;
use super::edge::pools::Claimed;
use super::edge::OwnedPolled;
use super::edge::Polled;
use super::edge::Returned;
use super::poll;
use super::pool;
use super::Context;
use super::Request;
use crate::device::Device;
use crate::object::Cq;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::edge::Passed;

/// See [`super::alloc`].
fn alloc(
    device: &Device,
    private: Passed<c_void>,
    size: c_int,
    vector: c_int,
    context: u32,
    caller: Option<&'static CStr>,
) -> Result<OwnedPolled> {
    let make = || {
        let request = Request {
            private,
            size,
            vector,
            context: Context::from_raw(context).ok_or(EINVAL)?,
            caller,
        };
        super::alloc(device, &request)
    };
    make()
        .inspect(|cq| edge::trace_alloc(cq, size, vector, context))
        .inspect_err(|error| edge::trace_alloc_error(size, vector, context, error.to_errno()))
}

/// Same as [`alloc`], but the core selects the completion vector, round-robin.
fn alloc_any(
    device: &Device,
    private: Passed<c_void>,
    size: c_int,
    context: u32,
    caller: Option<&'static CStr>,
) -> Result<OwnedPolled> {
    static NEXT: Atomic<u32> = Atomic::<u32>::new(0);
    let vectors = pool::vectors(device);
    let vector = if vectors > 1 {
        // OVERFLOW: the divisor is greater than 1.
        NEXT.fetch_add(1, Relaxed).wrapping_add(1) % vectors
    } else {
        0
    };
    // CAST: there are no more vectors than CPUs.
    alloc(device, private, size, vector as c_int, context, caller)
}

/// See [`super::free`].
fn free(cq: Returned) {
    if let Some(cq) = cq.0 {
        super::free(cq);
    }
}

/// See [`pool::get`].
fn get(device: &Device, wanted: u32, hint: c_int, context: u32) -> Result<Claimed> {
    pool::get(device, wanted, hint, Context::from_raw(context))
}

rdma::export! {
    in rdma::bindings;

    /// See [`alloc`].
    fn __ib_alloc_cq(
        device: &Device, private: Passed<c_void>, size: c_int, vector: c_int, context: u32,
        caller: Option<&'static CStr>,
    ) -> Result<OwnedPolled> = alloc;
    /// See [`alloc_any`].
    fn __ib_alloc_cq_any(
        device: &Device, private: Passed<c_void>, size: c_int, context: u32,
        caller: Option<&'static CStr>,
    ) -> Result<OwnedPolled> = alloc_any;
    /// See [`super::free`].
    fn ib_free_cq(cq: Returned) = free;
    /// See [`poll::process_direct`].
    fn ib_process_cq_direct(cq: Polled<'_>, budget: c_int) -> c_int = poll::process_direct;
    /// See [`pool::get`].
    fn ib_cq_pool_get(device: &Device, wanted: u32, hint: c_int, context: u32)
        -> Result<Claimed> = get;
    /// See [`pool::put`].
    fn ib_cq_pool_put(cq: &Cq, claimed: u32) = pool::put;
}
