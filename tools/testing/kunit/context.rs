// SPDX-License-Identifier: GPL-2.0

//! What the suites ask of the context that runs, and objects whose end is seen.

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

/// Whether interrupts are off on this CPU.
pub(crate) fn irqs_off() -> bool {
    // SAFETY: It takes nothing and changes nothing.
    unsafe { c::rdma_kunit_irqs_off() }
}

/// Whether softirqs are held off on this CPU, or one runs.
pub(crate) fn bh_off() -> bool {
    // SAFETY: It takes nothing and changes nothing.
    unsafe { c::rdma_kunit_bh_off() }
}

/// Whether a softirq runs.
pub(crate) fn in_softirq() -> bool {
    // SAFETY: It takes nothing and changes nothing.
    unsafe { c::rdma_kunit_in_softirq() }
}

/// Counts in another object how many of its kind were dropped.
pub(crate) struct Tracer(pub(crate) Arc<Atomic<i32>>);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _: i32 = self.0.fetch_add(1, Full);
    }
}

/// How many [`Tracer`]s of the count were dropped.
pub(crate) fn dropped(count: &Atomic<i32>) -> i32 {
    count.load(Acquire)
}
