// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions: lists in `struct ib_qp` of regions that the queue pair owns.
//!
//! Must match `include/rdma/mr_pool.h`.

use crate::object::Mr;
use crate::object::Qp;
use rdma::edge::chain::Chain;
use rdma::edge::chain::Locked;
use rdma::edge::object::Owned;
use rdma::edge::Tied;

/// Tag of arguments of one call: the list is a pool of the queue pair, and is protected by the
/// queue pair's `mr_lock`.
pub(crate) enum OfPool {}
/// The queue pair.
pub(crate) type QpArg<'a> = Tied<'a, OfPool, &'a Qp>;
/// The pool.
pub(crate) type ListArg<'a> = Tied<'a, OfPool, Option<&'a Chain<Mr>>>;

/// A pool of memory regions of a queue pair.
///
/// # Invariants
///
/// `list` is protected by `mr_lock` of `qp`.
#[derive(Clone, Copy)]
pub(crate) struct Pool<'a> {
    qp: &'a Qp,
    list: &'a Chain<Mr>,
}

impl<'a> Pool<'a> {
    /// The pool of regions without protection information.
    #[inline]
    pub(crate) fn plain(qp: &'a Qp) -> Self {
        // INVARIANT: `mr_lock` protects this list (`struct ib_qp` in `ib_verbs.h`).
        let list = qp.rdma_mrs();
        Self { qp, list }
    }

    /// The pool of regions with protection information.
    #[inline]
    pub(crate) fn signed(qp: &'a Qp) -> Self {
        // INVARIANT: `mr_lock` protects this list (`struct ib_qp` in `ib_verbs.h`).
        let list = qp.sig_mrs();
        Self { qp, list }
    }

    /// The pool that C passed; `None` if the list is null.
    #[inline]
    pub(crate) fn of(qp: QpArg<'a>, list: ListArg<'a>) -> Option<Self> {
        // INVARIANT: By the tag [`OfPool`].
        Some(Self {
            qp: qp.get(),
            list: list.get()?,
        })
    }

    /// The queue pair.
    pub(crate) fn qp(self) -> &'a Qp {
        self.qp
    }

    /// Calls `f` with the list under the lock. The lock also protects `mrs_used`, the number of
    /// regions in use.
    #[inline]
    fn with<R>(self, f: impl FnOnce(&mut Locked<'_, Mr>, &Qp) -> R) -> R {
        let mut guard = self.qp.mr_lock().lock();
        // SAFETY: The lock protects the list (type invariant).
        f(&mut unsafe { self.list.locked_by(&mut guard) }, self.qp)
    }

    /// Takes a region from the pool; `None` if all are in use. Any context.
    #[inline]
    pub(crate) fn lend(self) -> Option<Owned<Mr>> {
        self.with(|list, qp| {
            let mr = list.pop_front()?;
            qp.set_mrs_used(qp.mrs_used().wrapping_add(1));
            Some(mr)
        })
    }

    /// Returns a region to the pool. Any context.
    #[inline]
    pub(crate) fn take_back(self, mr: Owned<Mr>) {
        self.with(|list, qp| {
            list.push_front(mr);
            qp.set_mrs_used(qp.mrs_used().wrapping_sub(1));
        });
    }

    /// Adds a new region. Any context.
    pub(crate) fn add(self, mr: Owned<Mr>) {
        self.with(|list, _| list.push_back(mr));
    }

    /// Removes a region for destruction; `None` if no region is left in the list. Any context.
    pub(crate) fn remove(self) -> Option<Owned<Mr>> {
        self.with(|list, _| list.pop_front())
    }
}
