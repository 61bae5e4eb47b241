// SPDX-License-Identifier: GPL-2.0

//! Context of the running code, and objects that count their drops.

use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;

mod c {
    extern "C" {
        pub(super) fn rdma_kunit_irqs_off() -> bool;
        pub(super) fn rdma_kunit_bh_off() -> bool;
        pub(super) fn rdma_kunit_in_softirq() -> bool;
    }
}

/// Returns whether interrupts are disabled on this CPU.
pub(crate) fn irqs_off() -> bool {
    // SAFETY: No preconditions.
    unsafe { c::rdma_kunit_irqs_off() }
}

/// Returns whether softirqs are disabled on this CPU, or one is running.
pub(crate) fn bh_off() -> bool {
    // SAFETY: No preconditions.
    unsafe { c::rdma_kunit_bh_off() }
}

/// Returns whether a softirq is running.
pub(crate) fn in_softirq() -> bool {
    // SAFETY: No preconditions.
    unsafe { c::rdma_kunit_in_softirq() }
}

/// Counts in another object how many tracers were dropped.
pub(crate) struct Tracer(pub(crate) Arc<Atomic<i32>>);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _: i32 = self.0.fetch_add(1, Full);
    }
}

/// Returns how many [`Tracer`]s of the count were dropped.
pub(crate) fn dropped(count: &Atomic<i32>) -> i32 {
    count.load(Acquire)
}
