// SPDX-License-Identifier: GPL-2.0

//! Use counts of registered devices and clients: a count, and a completion for its end.
//!
//! Both are fields of C structures, since inline functions of consumers count, too. Any context
//! but where said. The rule is in section 4 of `core_locking.md`.

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
    /// The use count of an object that has these fields.
    pub(crate) fn new(count: &'a Refcount, zero: &'a Completion) -> Self {
        Self { count, zero }
    }

    /// Starts with so many uses; there are none before.
    pub(crate) fn open(self, uses: c_int) {
        self.count.set(uses);
    }

    /// One more use, unless there is none.
    #[must_use = "the use has to be given back"]
    pub(crate) fn try_get(self) -> bool {
        self.count.inc_not_zero()
    }

    /// One more use; the caller has one.
    pub(crate) fn get(self) {
        self.count.inc();
    }

    /// One use less; the last one wakes the thread that waits. The object may be gone after.
    pub(crate) fn put(self) {
        if self.count.dec_and_test() {
            self.zero.complete();
        }
    }

    /// Whether there is no use.
    pub(crate) fn none(self) -> bool {
        self.count.as_atomic().load(Relaxed) == 0
    }

    /// Waits for the last [`put`](Self::put). One thread calls it, once for each
    /// [`open`](Self::open). May sleep.
    pub(crate) fn wait(self) {
        self.zero.wait();
    }
}

rdma::export! { in rdma::bindings;
    /// Gives up one use of a registered device. Any context.
    fn ib_device_put(device: Registered) = core::mem::drop;
}
