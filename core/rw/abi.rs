// SPDX-License-Identifier: GPL-2.0

//! What other modules call of transfers.

use super::context::Context;
use super::list;
use super::port;
use super::signature;
use super::signature::List;
use super::vector;
use super::vector::Vector;
use super::wants_integrity;
use super::Qp;
use super::Target;
use crate::device::Device;
use crate::errno::eopnotsupp;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::bindings;

rdma::exported!(
    rdma_rw_ctx_destroy,
    rdma_rw_ctx_destroy_bvec,
    rdma_rw_ctx_destroy_signature,
    rdma_rw_ctx_init,
    rdma_rw_ctx_init_bvec,
    rdma_rw_ctx_post,
    rdma_rw_ctx_signature_init,
    rdma_rw_ctx_wrs,
    rdma_rw_max_send_wr,
    rdma_rw_mr_factor,
);

/// Makes a transfer. For C: how many requests it has, or an error, and then it is not made.
///
/// # Safety
///
/// `ctx` and `qp` are valid, and `ctx` stays where it is until the transfer is destroyed.
unsafe fn init(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    make: impl FnOnce(&mut Context, Qp) -> Result<u32>,
) -> c_int {
    let made = || {
        // SAFETY: By this function's duty.
        let (mut context, qp) = unsafe { (Context::new(ctx)?, Qp::new(qp)?) };
        make(&mut context, qp).inspect_err(|_| context.not_made())
    };
    match made() {
        // No more than three for each piece, of which there are memory's worth.
        Ok(requests) => c_int::try_from(requests).unwrap_or(c_int::MAX),
        Err(error) => error.to_errno(),
    }
}

/// See [`list::init`].
///
/// # Safety
///
/// As there; `ctx` and `qp` are valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_init(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port: u32,
    sg: *mut bindings::scatterlist,
    count: u32,
    offset: u32,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    // SAFETY: By this function's duty.
    unsafe {
        init(ctx, qp, |context, qp| {
            list::init(context, qp, port, sg, count, offset, &target)
        })
    }
}

/// See [`vector::init`].
///
/// # Safety
///
/// As there; `ctx` and `qp` are valid, and there are `count` entries.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_init_bvec(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port: u32,
    bvecs: *const bindings::bio_vec,
    count: u32,
    iter: bindings::bvec_iter,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    if count == 0 {
        return EINVAL.to_errno();
    }
    // SAFETY: By this function's duty.
    unsafe {
        init(ctx, qp, |context, qp| {
            let entries = core::slice::from_raw_parts(bvecs, usize::try_from(count)?);
            let vector = Vector { entries, iter };
            vector::init(context, qp, port, &vector, &target)
        })
    }
}

/// See [`signature::init`].
///
/// # Safety
///
/// As there; `ctx`, `qp` and `attrs` are valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_signature_init(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port: u32,
    sg: *mut bindings::scatterlist,
    count: u32,
    meta: *mut bindings::scatterlist,
    meta_count: u32,
    attrs: *mut bindings::ib_sig_attrs,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    let data = List { sg, count };
    let meta = List {
        sg: meta,
        count: meta_count,
    };
    // SAFETY: By this function's duty.
    unsafe {
        init(ctx, qp, |context, qp| {
            signature::init(context, qp, port, data, meta, &*attrs, &target)
        })
    }
}

/// See [`super::chain`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_wrs(
    ctx: *mut bindings::rdma_rw_ctx,
    _qp: *mut bindings::ib_qp,
    _port: u32,
    cqe: *mut bindings::ib_cqe,
    next: *mut bindings::ib_send_wr,
) -> *mut bindings::ib_send_wr {
    // SAFETY: By this function's duty.
    match unsafe { Context::new(ctx) } {
        // SAFETY: As above.
        Ok(mut context) => unsafe { super::chain(&mut context, cqe, next) },
        Err(_) => next,
    }
}

/// Posts a transfer. See [`super::chain`].
///
/// # Safety
///
/// As there; `qp` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_post(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port: u32,
    cqe: *mut bindings::ib_cqe,
    next: *mut bindings::ib_send_wr,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        let first = rdma_rw_ctx_wrs(ctx, qp, port, cqe, next);
        let mut bad = core::ptr::null();
        match (*(*qp).device).ops.post_send {
            Some(post) => post(qp, first, &mut bad),
            None => eopnotsupp().to_errno(),
        }
    }
}

/// Both, or nothing for what C may not hand in.
///
/// # Safety
///
/// As for [`init()`].
unsafe fn both(ctx: *mut bindings::rdma_rw_ctx, qp: *mut bindings::ib_qp) -> Option<(Context, Qp)> {
    // SAFETY: By this function's duty.
    unsafe { Some((Context::new(ctx).ok()?, Qp::new(qp).ok()?)) }
}

/// See [`list::destroy`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_destroy(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port: u32,
    sg: *mut bindings::scatterlist,
    count: u32,
    dma: bindings::dma_data_direction,
) {
    // SAFETY: By this function's duty.
    unsafe {
        if let Some((mut context, qp)) = both(ctx, qp) {
            list::destroy(&mut context, qp, sg, count, dma);
        }
    }
}

/// See [`vector::destroy`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_destroy_bvec(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port: u32,
    _bvecs: *const bindings::bio_vec,
    count: u32,
    dma: bindings::dma_data_direction,
) {
    // SAFETY: By this function's duty.
    unsafe {
        if let Some((mut context, qp)) = both(ctx, qp) {
            vector::destroy(&mut context, qp, count, dma);
        }
    }
}

/// See [`signature::destroy`].
///
/// # Safety
///
/// As there.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_destroy_signature(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    _port: u32,
    sg: *mut bindings::scatterlist,
    count: u32,
    meta: *mut bindings::scatterlist,
    meta_count: u32,
    dma: bindings::dma_data_direction,
) {
    let data = List { sg, count };
    let meta = List {
        sg: meta,
        count: meta_count,
    };
    // SAFETY: By this function's duty.
    unsafe {
        if let Some((mut context, qp)) = both(ctx, qp) {
            signature::destroy(&mut context, qp, data, meta, dma);
        }
    }
}

/// How many transfers so many pages need at most. Any context.
///
/// # Safety
///
/// `device` is registered.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_mr_factor(
    device: *mut bindings::ib_device,
    number: u32,
    pages: c_uint,
) -> c_uint {
    // SAFETY: By this function's duty.
    port(unsafe { Device::from_raw(device) }, number).factor(pages)
}

/// How many requests so many transfers need. Any context.
///
/// # Safety
///
/// `device` is registered.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_max_send_wr(
    device: *mut bindings::ib_device,
    number: u32,
    transfers: c_uint,
    create_flags: u32,
) -> c_uint {
    // SAFETY: By this function's duty.
    let port = port(unsafe { Device::from_raw(device) }, number);
    port.max_requests(transfers, wants_integrity(create_flags))
}
