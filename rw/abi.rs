// SPDX-License-Identifier: GPL-2.0

//! Exported functions of transfers.

use super::edge;
use super::edge::mapping::CountArg;
use super::edge::mapping::Data;
use super::edge::mapping::List;
use super::edge::mapping::ListArg;
use super::edge::mapping::Meta;
use super::edge::vector::EntriesArg;
use super::edge::vector::Iter;
use super::edge::vector::Unused;
use super::edge::vector::Vector;
use super::edge::Arg;
use super::edge::DmaArg;
use super::edge::Done;
use super::edge::Lists;
use super::edge::Place;
use super::edge::QpArg;
use super::edge::Ready;
use super::edge::Vectors;
use super::list;
use super::port;
use super::signature;
use super::vector;
use super::wants_integrity;
use super::Target;
use crate::device::Device;
use crate::object::tables::SigAttrs;
use crate::object::Qp;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Passed;

/// Creates a transfer. For C: returns the number of its requests, or an errno if it was not
/// created.
fn init(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    make: impl FnOnce(&mut Place<'_>, &Qp) -> Result<u32>,
) -> c_int {
    let (Some(mut place), Some(qp)) = (place.0, qp) else {
        return EINVAL.to_errno();
    };
    match make(&mut place, qp) {
        // Fits: at most three requests per piece, and the number of pieces is limited by memory.
        Ok(requests) => c_int::try_from(requests).unwrap_or(c_int::MAX),
        Err(error) => {
            place.not_made();
            error.to_errno()
        }
    }
}

/// See [`list::init`].
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn init_list(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    port: u32,
    list: ListArg<'_, Data>,
    count: CountArg<'_, Data>,
    offset: u32,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    let list = List::new(list, count);
    init(place, qp, |place, qp| {
        list::init(place, qp, port, &list, offset, &target)
    })
}

/// See [`vector::init`].
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn init_vector(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    port: u32,
    entries: EntriesArg<'_>,
    count: edge::vector::CountArg<'_>,
    iter: Iter,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let Some(vector) = Vector::new(entries, count, iter) else {
        return EINVAL.to_errno();
    };
    let target = Target::new(remote, rkey, dma);
    init(place, qp, |place, qp| {
        vector::init(place, qp, port, &vector, &target)
    })
}

/// See [`signature::init`].
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn init_signature(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    port: u32,
    list: ListArg<'_, Data>,
    count: CountArg<'_, Data>,
    meta: ListArg<'_, Meta>,
    meta_count: CountArg<'_, Meta>,
    attrs: &SigAttrs,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    let data = List::new(list, count);
    let meta = List::new(meta, meta_count);
    init(place, qp, |place, qp| {
        signature::init(place, qp, port, (&data, &meta), attrs, &target)
    })
}

/// See [`super::chain`].
fn requests(
    ready: Arg<Ready<'_>>,
    _qp: Passed<bindings::ib_qp>,
    _port: u32,
    cqe: Passed<bindings::ib_cqe>,
    next: Passed<bindings::ib_send_wr>,
) -> Passed<bindings::ib_send_wr> {
    match ready.0 {
        Some(ready) => super::chain(ready, cqe, next),
        None => next,
    }
}

/// Posts a transfer. See [`super::chain`].
fn post(
    ready: Arg<Ready<'_>>,
    qp: &Qp,
    port: u32,
    cqe: Passed<bindings::ib_cqe>,
    next: Passed<bindings::ib_send_wr>,
) -> c_int {
    edge::post(qp, requests(ready, Passed::NULL, port, cqe, next))
}

/// See [`list::destroy`].
fn destroy_list(
    done: Arg<Done<'_, Lists>>,
    qp: QpArg<'_>,
    _port: u32,
    list: ListArg<'_, Data>,
    count: CountArg<'_, Data>,
    dma: DmaArg<'_>,
) {
    if let Some(done) = done.0 {
        list::destroy(done, qp, List::new(list, count), dma);
    }
}

/// See [`vector::destroy`].
fn destroy_vector(
    done: Arg<Done<'_, Vectors>>,
    qp: QpArg<'_>,
    _port: u32,
    _entries: Unused,
    count: u32,
    dma: DmaArg<'_>,
) {
    if let Some(done) = done.0 {
        vector::destroy(done, qp, count, dma);
    }
}

/// See [`signature::destroy`].
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn destroy_signature(
    done: Arg<Done<'_, Lists>>,
    qp: QpArg<'_>,
    _port: u32,
    list: ListArg<'_, Data>,
    count: CountArg<'_, Data>,
    meta: ListArg<'_, Meta>,
    meta_count: CountArg<'_, Meta>,
    dma: DmaArg<'_>,
) {
    let data = List::new(list, count);
    let meta = List::new(meta, meta_count);
    if let Some(done) = done.0 {
        signature::destroy(done, qp, (data, meta), dma);
    }
}

/// Maximum number of transfers for `pages` pages. Any context.
fn factor(device: &Device, number: u32, pages: u32) -> u32 {
    port(device, number).factor(pages)
}

/// Number of requests for `transfers` transfers. Any context.
fn max_requests(device: &Device, number: u32, transfers: u32, create_flags: u32) -> u32 {
    port(device, number).max_requests(transfers, wants_integrity(create_flags))
}

rdma::export! {
    in rdma::bindings;

    /// See [`list::init`].
    fn rdma_rw_ctx_init(
        ctx: Arg<Place<'_>>, qp: Option<&Qp>, port: u32, list: ListArg<'_, Data>,
        count: CountArg<'_, Data>, offset: u32, remote: u64, rkey: u32, dma: bindings::dma_data_direction,
    ) -> c_int = init_list;
    /// See [`vector::init`].
    fn rdma_rw_ctx_init_bvec(
        ctx: Arg<Place<'_>>, qp: Option<&Qp>, port: u32, entries: EntriesArg<'_>,
        count: edge::vector::CountArg<'_>, iter: Iter, remote: u64, rkey: u32, dma: bindings::dma_data_direction,
    ) -> c_int = init_vector;
    /// See [`signature::init`].
    fn rdma_rw_ctx_signature_init(
        ctx: Arg<Place<'_>>, qp: Option<&Qp>, port: u32, list: ListArg<'_, Data>,
        count: CountArg<'_, Data>, meta: ListArg<'_, Meta>, meta_count: CountArg<'_, Meta>,
        attrs: &SigAttrs, remote: u64, rkey: u32, dma: bindings::dma_data_direction,
    ) -> c_int = init_signature;
    /// See [`super::chain`].
    fn rdma_rw_ctx_wrs(
        ctx: Arg<Ready<'_>>, qp: Passed<bindings::ib_qp>, port: u32,
        cqe: Passed<bindings::ib_cqe>, next: Passed<bindings::ib_send_wr>,
    ) -> Passed<bindings::ib_send_wr> = requests;
    /// See [`post`].
    fn rdma_rw_ctx_post(
        ctx: Arg<Ready<'_>>, qp: &Qp, port: u32, cqe: Passed<bindings::ib_cqe>,
        next: Passed<bindings::ib_send_wr>,
    ) -> c_int = post;
    /// See [`list::destroy`].
    fn rdma_rw_ctx_destroy(
        ctx: Arg<Done<'_, Lists>>, qp: QpArg<'_>, port: u32, list: ListArg<'_, Data>,
        count: CountArg<'_, Data>, dma: DmaArg<'_>,
    ) = destroy_list;
    /// See [`vector::destroy`].
    fn rdma_rw_ctx_destroy_bvec(
        ctx: Arg<Done<'_, Vectors>>, qp: QpArg<'_>, port: u32, entries: Unused, count: u32,
        dma: DmaArg<'_>,
    ) = destroy_vector;
    /// See [`signature::destroy`].
    fn rdma_rw_ctx_destroy_signature(
        ctx: Arg<Done<'_, Lists>>, qp: QpArg<'_>, port: u32, list: ListArg<'_, Data>,
        count: CountArg<'_, Data>, meta: ListArg<'_, Meta>, meta_count: CountArg<'_, Meta>,
        dma: DmaArg<'_>,
    ) = destroy_signature;
    /// See [`factor`].
    fn rdma_rw_mr_factor(device: &Device, port: u32, pages: u32) -> u32 = factor;
    /// See [`max_requests`].
    fn rdma_rw_max_send_wr(device: &Device, port: u32, transfers: u32, create_flags: u32)
        -> u32 = max_requests;
}
