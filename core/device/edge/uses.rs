// SPDX-License-Identifier: GPL-2.0

//! Use counts of registered devices and clients: a reference count, and a completion that signals
//! zero.
//!
//! Both are fields of C structures, as inline functions of consumers change the counts, too. A use
//! is owned by a [`Registered`] or by a [`ClientUse`](crate::edge::client::ClientUse), which gives
//! it back when it is dropped. Any context except where noted. The rule is in section 4 of
//! `core_locking.md`.

use rdma::sync::CRefcount;
use rdma::sync::Completion;

use super::Registered;

/// A use count and its completion.
#[derive(Clone, Copy)]
pub(crate) struct Uses<'a> {
    count: &'a CRefcount,
    zero: &'a Completion,
}

impl<'a> Uses<'a> {
    /// Makes a use count from the fields of an object.
    pub(crate) fn new(count: &'a CRefcount, zero: &'a Completion) -> Self {
        Self { count, zero }
    }

    /// Sets the count to one use.
    ///
    /// # Safety
    ///
    /// There is no use. The caller owns the new one.
    pub(crate) unsafe fn open(self) {
        // SAFETY: This function's contract.
        unsafe { self.count.init(1) };
    }

    /// Adds a use, for a caller that keeps one meanwhile.
    pub(crate) fn get(self) {
        self.count.inc();
    }

    /// Adds a use unless the count is zero. Returns whether it did.
    #[must_use = "the use has to be given back"]
    pub(crate) fn try_get(self) -> bool {
        self.count.inc_not_zero()
    }

    /// Drops a use. The last one wakes the waiting thread. The object may be freed after this.
    ///
    /// # Safety
    ///
    /// The caller owns a use, which it gives up.
    pub(crate) unsafe fn put(self) {
        // SAFETY: This function's contract.
        if unsafe { self.count.put() } {
            self.zero.complete();
        }
    }

    /// Returns whether there are no uses.
    pub(crate) fn none(self) -> bool {
        self.count.is_zero()
    }

    /// Waits until the last use is dropped. Must be called by one thread, once for each time that
    /// the count was opened. May sleep.
    pub(crate) fn wait(self) {
        self.zero.wait();
    }
}

rdma::export! { in rdma::bindings;
    /// Drops one use of a registered device. Any context.
    fn ib_device_put(device: Registered) = core::mem::drop;
}
