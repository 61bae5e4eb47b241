// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions of a queue pair, for its consumer: allocated together with the queue
//! pair, taken one at a time, destroyed before the queue pair.
//!
//! The lists are in `struct ib_qp`. C header: `include/rdma/mr_pool.h`.

use crate::edge::mr_pool::ListArg;
use crate::edge::mr_pool::Pool;
use crate::edge::mr_pool::QpArg;
use crate::mr;
use crate::object::Mr;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Given;
use rdma::edge::object::Owned;

/// The kind of regions in a pool.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Regions of this type, with up to this many entries.
    Plain(bindings::ib_mr_type, u32),
    /// Regions with protection information: maximum entries of data, and of protection information.
    Integrity(u32, u32),
}

/// Fills a pool with `count` regions. On failure the pool is empty. May sleep.
///
/// # Errors
///
/// `ENOMEM`; errors of the driver; `EINVAL` for a queue pair without a protection domain.
pub(crate) fn fill(pool: Pool<'_>, count: u32, kind: Kind) -> Result {
    for _ in 0..count {
        let made = pool.qp().pd().ok_or(EINVAL).and_then(|pd| match kind {
            Kind::Plain(of, entries) => mr::alloc_traced(pd, of, entries),
            Kind::Integrity(data, meta) => mr::alloc_integrity_traced(pd, data, meta),
        });
        match made {
            Ok(mr) => pool.add(mr),
            Err(error) => {
                empty(pool);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Destroys the regions of a pool, except for regions in use: the consumer must return these first.
/// May sleep.
pub(crate) fn empty(pool: Pool<'_>) {
    while let Some(mr) = pool.remove() {
        // If the driver fails, the region leaks.
        kernel::warn_on!(mr::dereg(mr, None).is_err());
    }
}

/// See [`Pool::lend`].
fn get(qp: QpArg<'_>, list: ListArg<'_>) -> Option<Owned<Mr>> {
    Pool::of(qp, list)?.lend()
}

/// See [`Pool::take_back`].
fn put(qp: QpArg<'_>, list: ListArg<'_>, mr: Given<Mr>) {
    if let (Some(pool), Ok(mr)) = (Pool::of(qp, list), mr.owned()) {
        pool.take_back(mr);
    }
}

/// See [`fill`].
fn init(
    qp: QpArg<'_>,
    list: ListArg<'_>,
    count: c_int,
    of: bindings::ib_mr_type,
    entries: u32,
    meta_entries: u32,
) -> Result {
    let kind = match of {
        bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY => Kind::Integrity(entries, meta_entries),
        _ => Kind::Plain(of, entries),
    };
    let pool = Pool::of(qp, list).ok_or(EINVAL)?;
    fill(pool, u32::try_from(count).unwrap_or(0), kind)
}

/// See [`empty`].
fn destroy(qp: QpArg<'_>, list: ListArg<'_>) {
    if let Some(pool) = Pool::of(qp, list) {
        empty(pool);
    }
}

rdma::export! {
    in rdma::bindings;

    /// See [`Pool::lend`].
    fn ib_mr_pool_get(qp: QpArg<'_>, list: ListArg<'_>) -> Option<Owned<Mr>> = get;
    /// See [`Pool::take_back`].
    fn ib_mr_pool_put(qp: QpArg<'_>, list: ListArg<'_>, mr: Given<Mr>) = put;
    /// See [`fill`].
    fn ib_mr_pool_init(
        qp: QpArg<'_>, list: ListArg<'_>, count: c_int, of: u32, entries: u32, meta_entries: u32,
    ) -> Result = init;
    /// See [`empty`].
    fn ib_mr_pool_destroy(qp: QpArg<'_>, list: ListArg<'_>) = destroy;
}
