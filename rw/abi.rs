// SPDX-License-Identifier: GPL-2.0

//! What other modules call of transfers.

use super::edge;
use super::edge::vector::Unused;
use super::edge::vector::Vector;
use super::edge::Arg;
use super::edge::Done;
use super::edge::Place;
use super::edge::Ready;
use super::list;
use super::list::List;
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
use rdma::edge::scatter::Scatter;
use rdma::edge::Passed;

/// Makes a transfer. For C: how many requests it has, or an error, and then it is not made.
fn init(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    make: impl FnOnce(&mut Place<'_>, &Qp) -> Result<u32>,
) -> c_int {
    let (Some(mut place), Some(qp)) = (place.0, qp) else {
        return EINVAL.to_errno();
    };
    match make(&mut place, qp) {
        // No more than three for each piece, of which there are memory's worth.
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
    list: Scatter<'_>,
    count: u32,
    offset: u32,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    let list = List { list, count };
    init(place, qp, |place, qp| {
        list::init(place, qp, port, &list, offset, &target)
    })
}

/// See [`vector::init`].
pub(super) fn init_vector(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    port: u32,
    vector: &Vector<'_>,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    init(place, qp, |place, qp| {
        vector::init(place, qp, port, vector, &target)
    })
}

/// See [`signature::init`].
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn init_signature(
    place: Arg<Place<'_>>,
    qp: Option<&Qp>,
    port: u32,
    list: Scatter<'_>,
    count: u32,
    meta: Scatter<'_>,
    meta_count: u32,
    attrs: &SigAttrs,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let target = Target::new(remote, rkey, dma);
    let data = List { list, count };
    let meta = List {
        list: meta,
        count: meta_count,
    };
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
    done: Arg<Done<'_>>,
    qp: Option<&Qp>,
    _port: u32,
    list: Scatter<'_>,
    count: u32,
    dma: bindings::dma_data_direction,
) {
    if let (Some(done), Some(qp)) = (done.0, qp) {
        list::destroy(done, qp, &List { list, count }, dma);
    }
}

/// See [`vector::destroy`].
fn destroy_vector(
    done: Arg<Done<'_>>,
    qp: Option<&Qp>,
    _port: u32,
    _entries: Unused,
    count: u32,
    dma: bindings::dma_data_direction,
) {
    if let (Some(done), Some(qp)) = (done.0, qp) {
        vector::destroy(done, qp, count, dma);
    }
}

/// See [`signature::destroy`].
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn destroy_signature(
    done: Arg<Done<'_>>,
    qp: Option<&Qp>,
    _port: u32,
    list: Scatter<'_>,
    count: u32,
    meta: Scatter<'_>,
    meta_count: u32,
    dma: bindings::dma_data_direction,
) {
    let data = List { list, count };
    let meta = List {
        list: meta,
        count: meta_count,
    };
    if let (Some(done), Some(qp)) = (done.0, qp) {
        signature::destroy(done, qp, (&data, &meta), dma);
    }
}

/// How many transfers so many pages need at most. Any context.
fn factor(device: &Device, number: u32, pages: u32) -> u32 {
    port(device, number).factor(pages)
}

/// How many requests so many transfers need. Any context.
fn max_requests(device: &Device, number: u32, transfers: u32, create_flags: u32) -> u32 {
    port(device, number).max_requests(transfers, wants_integrity(create_flags))
}

rdma::export! {
    in rdma::bindings;

    /// See [`list::init`].
    fn rdma_rw_ctx_init(
        ctx: Arg<Place<'_>>, qp: Option<&Qp>, port: u32, list: Scatter<'_>, count: u32,
        offset: u32, remote: u64, rkey: u32, dma: i32,
    ) -> c_int = init_list;
    /// See [`signature::init`].
    fn rdma_rw_ctx_signature_init(
        ctx: Arg<Place<'_>>, qp: Option<&Qp>, port: u32, list: Scatter<'_>, count: u32,
        meta: Scatter<'_>, meta_count: u32, attrs: &SigAttrs, remote: u64, rkey: u32, dma: i32,
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
        ctx: Arg<Done<'_>>, qp: Option<&Qp>, port: u32, list: Scatter<'_>, count: u32, dma: i32,
    ) = destroy_list;
    /// See [`vector::destroy`].
    fn rdma_rw_ctx_destroy_bvec(
        ctx: Arg<Done<'_>>, qp: Option<&Qp>, port: u32, entries: Unused, count: u32, dma: i32,
    ) = destroy_vector;
    /// See [`signature::destroy`].
    fn rdma_rw_ctx_destroy_signature(
        ctx: Arg<Done<'_>>, qp: Option<&Qp>, port: u32, list: Scatter<'_>, count: u32,
        meta: Scatter<'_>, meta_count: u32, dma: i32,
    ) = destroy_signature;
    /// See [`factor`].
    fn rdma_rw_mr_factor(device: &Device, port: u32, pages: u32) -> u32 = factor;
    /// See [`max_requests`].
    fn rdma_rw_max_send_wr(device: &Device, port: u32, transfers: u32, create_flags: u32)
        -> u32 = max_requests;
}
