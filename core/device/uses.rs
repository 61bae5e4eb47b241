// SPDX-License-Identifier: GPL-2.0

//! Use counts of registered devices and clients: a reference count, and a completion that signals
//! zero.
//!
//! Both are fields of C structures, as inline functions of consumers change the counts, too. Any
//! context except where noted. The rule is in section 4 of `core_locking.md`.

use kernel::ffi::c_int;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Refcount;
use rdma::sync::Completion;
use rdma::sync::IncNotZero;

use super::Registered;

/// A use count and its completion.
#[derive(Clone, Copy)]
pub(crate) struct Uses<'a> {
    count: &'a Refcount,
    zero: &'a Completion,
}

impl<'a> Uses<'a> {
    /// Makes a use count from the fields of an object.
    pub(crate) fn new(count: &'a Refcount, zero: &'a Completion) -> Self {
        Self { count, zero }
    }

    /// Sets the initial number of uses. There must be none before.
    pub(crate) fn open(self, uses: c_int) {
        self.count.set(uses);
    }

    /// Adds a use unless the count is zero. Returns whether it did.
    #[must_use = "the use has to be given back"]
    pub(crate) fn try_get(self) -> bool {
        self.count.inc_not_zero()
    }

    /// Adds a use. The caller must have one.
    pub(crate) fn get(self) {
        self.count.inc();
    }

    /// Drops a use. The last one wakes the waiting thread. The object may be freed after this.
    pub(crate) fn put(self) {
        if self.count.dec_and_test() {
            self.zero.complete();
        }
    }

    /// Returns whether there are no uses.
    pub(crate) fn none(self) -> bool {
        self.count.as_atomic().load(Relaxed) == 0
    }

    /// Waits for the last [`put`](Self::put). Must be called by one thread, once for each
    /// [`open`](Self::open). May sleep.
    pub(crate) fn wait(self) {
        self.zero.wait();
    }
}

rdma::export! { in rdma::bindings;
    /// Drops one use of a registered device. Any context.
    fn ib_device_put(device: Registered) = core::mem::drop;
}
